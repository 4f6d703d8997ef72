// The list of conversations: loaded once for each connection, kept live by what
// the server tells of it, and drawn.

import { sessions as api } from './api.js';
import { client, handlers } from './connection.js';
import { h, iconButton, reconcile, toast } from './dom.js';
import { gone, isOpen } from './gone.js';
import { use } from './lazy.js';
import { groups, stampOf, take } from './listing.js';
import { menuButton } from './menu.js';
import { isWaiting, onCreated } from './sending.js';
import { working } from './store.js';
import { $, state } from './state.js';
import { onPaint, onSeen, seen } from './view.js';

const [archive, pin, remove, retitle] = ['archive', 'pin', 'remove', 'retitle'].map(use);

/** id -> row, as the server told it last. */
export const entries = new Map();
export const entryFor = (id) => entries.get(id);

const drawers = [];
const hearers = [];
/** Calls f each time the list was drawn. */
export function onList(f) { drawers.push(f); }
/** Calls f(before, after) when a row has changed; before is null for a new one, after is undefined for one that is gone. */
export function onChange(f) { hearers.push(f); }

// ---- from the server ---------------------------------------------------------

let watching = false;     // the server tells what changes
let cursor = '';          // where the rows end that are loaded
let moreArchived = false;
let loading = 0;

/** Whether the server tells what changes in the list. */
export const isLive = () => watching;

/** A connection is open: from here on the server tells what changes, and the list is loaded once. */
export async function watchList() {
  watching = false;
  try {
    await client.command('watch', '', {});
    watching = true;
  } catch (err) {
    if (err.code === 'disconnected') return; // the next connection asks again
  }
  load();
}

async function load() {
  const turn = ++loading;
  try {
    const [page, put] = await Promise.all([api.list(), api.list({ archived: 'only' }).catch(() => ({}))]);
    if (turn !== loading) return;
    cursor = page.next_cursor || '';
    const archived = (put.items || []).filter((x) => x.archived);
    moreArchived = archived.length > 0 && !!put.next_cursor;
    const rows = [...(page.items || []), ...archived];
    // What is behind the first page is not known to be gone.
    const whole = !cursor && !moreArchived;
    const there = new Set(rows.map((x) => x.session));
    if (whole) for (const id of [...entries.keys()]) if (!there.has(id)) tell({ session: id, gone: true });
    rows.forEach(tell);
  } catch { return; } // the connection's own state says it better
  drawList();
}

function tell(row) {
  const before = take(entries, row);
  if (row.gone && !isOpen(row.session)) gone(row.session, before?.title);
  if (before === undefined) return false;
  for (const f of hearers) f(before, entries.get(row.session));
  return true;
}

handlers.notice = (f) => {
  if (f.type === 'listed' && tell(f.data)) drawSoon();
};

// Rows may come in crowds; a hidden page gets no animation frames.
let drawing = 0;
function drawSoon() { drawing ||= setTimeout(() => { drawing = 0; drawList(); }, 60); }

// A server that does not tell its list: then what happens in the conversations
// that are followed says when to load it again.
const LISTED = new Set(['session_created', 'session_updated', 'session_closed', 'message_accepted', 'task_status', 'question', 'response', 'partial_response', 'gone']);
let soon = 0;
export function listHint(f) { if (!watching && LISTED.has(f.type)) soon ||= setTimeout(() => { soon = 0; if (!watching) load(); }, 400); }

async function loadMore() {
  try {
    const page = await api.list({ cursor });
    cursor = page.next_cursor || '';
    (page.items || []).forEach(tell);
    drawList();
  } catch { /* it can be asked for again */ }
}

/** This page changed a row itself; the server tells the same a little later. */
export function changed(id, fields) {
  const e = entries.get(id);
  if (e) entries.set(id, { ...e, ...fields });
  if (!watching) load();
  drawList();
}

export function removed(id) {
  tell({ session: id, gone: true });
  drawList();
}

// ---- on the screen -----------------------------------------------------------

// What the list says beside a conversation; of the one that is open the page
// knows it a little earlier.
let shownBadge = '';
function badge(e) {
  const { view } = state;
  if (e && !client.open && isWaiting(e.id)) return 'not sent';
  if (view?.synced && view.session === e?.id) {
    const w = working(view);
    return !w ? '' : w.state === 'awaiting' ? 'awaiting you' : 'working';
  }
  return !e ? '' : e.awaiting ? 'awaiting you' : e.open ? 'working' : '';
}

const cache = new Map();
let inArchive = false;

/** Shows the archived conversations instead of the others, or back. */
function showArchive(on) {
  inArchive = on;
  drawList();
  $('sessions').querySelector('a')?.focus();
}

export function drawList() {
  if ($('sessions').querySelector('.rename')) return; // drawn when the title is there
  const all = [...entries.values()];
  const archived = all.filter((e) => e.archived);
  if (inArchive && !archived.length) inArchive = false;
  const shown = inArchive ? [{ name: 'Archived', rows: archived.sort((a, b) => (a.activity < b.activity ? 1 : -1)) }] : groups(all.filter((e) => !e.archived));
  const now = Date.now();
  const items = shown.flatMap((g) => [{ key: `day:${g.name}`, name: g.name, sig: '' }, ...g.rows.map((e) => rowItem(e, now))]);
  const stable = items.map((it) => { const old = cache.get(it.key)?.item; return old && old.sig === it.sig ? old : it; });
  const focused = $('sessions').contains(document.activeElement) ? document.activeElement : null;
  reconcile($('sessions'), stable, cache, (it) => it.key, (it) => (it.name ? h('li', { class: 'day' }, it.name) : rowElement(it)), (el, it) => el.patch(it));
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true }); // its row has moved
  $('no-sessions').hidden = items.length > 0;
  $('no-sessions').textContent = 'Your conversations will be here.';
  $('more-sessions').hidden = inArchive || !cursor;
  $('archived').hidden = !archived.length;
  $('archived').textContent = inArchive ? 'Back to the list' : `Archived (${archived.length}${moreArchived ? '+' : ''})`;
  for (const f of drawers) f();
}

function rowItem(e, now) {
  const current = !state.tasks.visible && state.view?.session.split('/')[0] === e.id;
  const unread = !current && e.unread > 0 && e.last > (seen.get(e.id) || 0);
  const it = { key: e.id, e, current, unread, badge: badge(e), stamp: stampOf(e.activity, now) };
  it.sig = JSON.stringify([e.title, e.pinned, e.archived, e.activity, current, unread, it.badge, it.stamp]);
  return it;
}

function rowElement(first) {
  const link = h('a', { 'data-session': first.e.id, href: `#/s/${encodeURIComponent(first.e.id)}` });
  const more = iconButton('more', 'More', null, 'small row-more');
  const el = h('li', { class: 'session' }, link, more);
  let it;
  el.patch = (next) => {
    it = next;
    const { e } = it;
    const title = e.title || 'Untitled conversation';
    link.className = it.unread ? 'unread' : '';
    if (it.current) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    link.replaceChildren(...[
      it.unread ? h('span', { class: 'visually-hidden' }, 'Unread: ') : null,
      h('span', { class: 'session-title', title }, title),
      h('span', { class: 'session-meta' },
        it.badge ? h('span', { class: `badge ${it.badge === 'working' ? '' : 'awaiting'}` }, it.badge) : null,
        h('time', { datetime: e.activity, title: new Date(e.activity).toLocaleString() }, it.stamp))].filter(Boolean));
    more.setAttribute('aria-label', `More for “${title}”`);
    more.title = 'Rename, pin, archive, delete';
    return true;
  };
  el.patch(first);
  menuButton(more, 'Conversation', () => [
    { label: 'Rename', icon: 'edit', run: () => renameRow(el, link, it.e) },
    { label: it.e.pinned ? 'Unpin' : 'Pin on top', icon: 'pin', run: () => pin(it.e.id, !it.e.pinned) },
    { label: it.e.archived ? 'Put back into the list' : 'Archive', icon: 'archive', run: () => archive(it.e.id, !it.e.archived) },
    { label: 'Delete…', icon: 'trash', danger: true, run: () => remove(it.e.id) },
  ]);
  return el;
}

function renameRow(el, link, e) {
  const input = titleInput(e.title, (title) => {
    input.remove();
    link.hidden = false;
    if (title !== null && title !== e.title) retitle(e.id, title);
    drawList();
    if (document.activeElement === document.body) link.focus();
  });
  link.hidden = true;
  el.prepend(input);
  input.select();
}

const LONGEST = 512; // bytes of a title, as the server takes it

/**
 * A box for a title; done(title, typed) gets the new one, or null if it was given up, and
 * whether a key has ended it.
 */
export function titleInput(value, done) {
  let over = false;
  const end = (title, typed = true) => { if (!over) { over = true; done(title, typed); } };
  const input = h('input', { class: 'rename', 'aria-label': 'Title', value });
  input.addEventListener('input', () => {
    const fits = new TextEncoder().encodeInto(input.value, new Uint8Array(LONGEST)).read;
    if (fits === input.value.length) return;
    input.value = input.value.slice(0, fits);
    toast(`A title has at most ${LONGEST} bytes: its end was left out.`, { tone: 'bad' });
  });
  input.addEventListener('keydown', (e) => {
    if (e.isComposing || e.keyCode === 229) return;
    if (e.key === 'Enter') { e.preventDefault(); end(input.value.trim()); }
    if (e.key === 'Escape') { e.stopPropagation(); end(null); }
  });
  input.addEventListener('blur', () => end(input.value.trim(), false));
  return input;
}

$('more-sessions').addEventListener('click', loadMore);
$('archived').addEventListener('click', () => showArchive(!inArchive));
onSeen(drawList);
onCreated(() => { if (!watching) load(); });
onPaint((view) => {
  const w = view?.session ? badge(entries.get(view.session) || { id: view.session }) : '';
  if (w !== shownBadge) { shownBadge = w; drawList(); }
});

// "Today" ends at midnight; the list need not be loaded again for that.
function midnight() {
  const next = new Date();
  next.setHours(24, 0, 1, 0);
  setTimeout(() => { drawList(); midnight(); }, next - Date.now());
}
midnight();
