// The list of conversations.

import { sessions as api } from './api.js';
import { client } from './connection.js';
import { h, time } from './dom.js';
import { onCreated } from './sending.js';
import { sessionEntry, working } from './store.js';
import { $, state } from './state.js';
import { onPaint, onSeen, seen } from './view.js';

/** The list as it was loaded last. */
export const list = { entries: [] };
let pages = 1;

const drawers = [];
/** Calls f each time the list was drawn. */
export function onList(f) { drawers.push(f); }

const LISTED = new Set(['session_created', 'session_updated', 'session_closed', 'message_accepted', 'task_status', 'question', 'response', 'partial_response', 'gone']);
/** An event of a followed session: some of them change what the list says. */
export function listHint(f) { if (LISTED.has(f.type)) soon(refreshList, 400); }

const timers = new Map();
function soon(f, ms) {
  if (timers.has(f)) return;
  timers.set(f, setTimeout(() => { timers.delete(f); f(); }, ms));
}

let listing = 0;
export async function refreshList() {
  const turn = ++listing;
  const found = [];
  let cursor = '';
  try {
    for (let i = 0; i < pages; i++) {
      const page = await api.list(cursor);
      found.push(...(page.items || []));
      cursor = page.next_cursor || '';
      if (!cursor) break;
    }
  } catch { return; } // the connection's own state says it better
  if (turn !== listing) return;
  list.entries = found.map(sessionEntry);
  $('more-sessions').hidden = !cursor;
  drawList();
}

// What the list says beside a conversation; of the one that is open the page
// knows it before the list is loaded again.
let shownBadge = '';
function badge(session) {
  const { view } = state;
  if (view?.synced && view.session === session) {
    const w = working(view);
    return !w ? '' : w.state === 'awaiting' ? 'awaiting you' : 'working';
  }
  const e = list.entries.find((x) => x.id === session);
  return !e ? '' : e.awaiting ? 'awaiting you' : e.open ? 'working' : '';
}

export function drawList() {
  const want = $('search').value.trim().toLowerCase();
  const shown = list.entries.filter((e) => !want || e.title.toLowerCase().includes(want));
  const focused = document.activeElement?.dataset?.session;
  $('sessions').replaceChildren(...shown.map((e) => {
    const current = !state.tasks.visible && state.view?.session.split('/')[0] === e.id;
    const upto = Math.max(e.seen, seen.get(e.id) || 0);
    const unread = !current && e.last > Math.max(upto, 1);
    return h('li', {}, h('a', { href: `#/s/${encodeURIComponent(e.id)}`, 'data-session': e.id, class: unread ? 'unread' : '', 'aria-current': current ? 'page' : null },
      unread ? h('span', { class: 'visually-hidden' }, 'Unread: ') : null,
      h('span', { class: 'session-title' }, e.title || 'Untitled conversation'),
      h('span', { class: 'session-meta' },
        badge(e.id) ? h('span', { class: `badge ${badge(e.id) === 'working' ? '' : 'awaiting'}` }, badge(e.id)) : null,
        time(e.activity))));
  }));
  if (focused) $('sessions').querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
  $('no-sessions').hidden = shown.length > 0;
  $('no-sessions').textContent = want ? 'No title has these words.' : 'Your conversations will be here.';
  for (const f of drawers) f();
}

$('search').addEventListener('input', drawList);
$('more-sessions').addEventListener('click', () => { pages++; refreshList(); });
setInterval(() => { if (document.visibilityState === 'visible' && client.open) refreshList(); }, 15000);
onSeen(drawList);
onCreated(refreshList);
onPaint((view) => {
  const w = badge(view?.session);
  if (w !== shownBadge) { shownBadge = w; drawList(); }
});
