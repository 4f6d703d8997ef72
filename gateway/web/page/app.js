// Wires everything: routes, the connection, the list of conversations, the one
// that is open, and what the user does.

import { credential, sessions as api } from './api.js';
import { Client } from './client.js';
import { composer } from './composer.js';
import { complain, duration, h, icon, iconButton, newID, time, toast } from './dom.js';
import { Conversation } from './render.js';
import { emptyView, openQuestions, reduce, sessionEntry, waitingMessages, working } from './store.js';
import { Tasks } from './tasks.js';

const $ = (id) => document.getElementById(id);
const EXAMPLES = [
  ['Two things at once', 'Fix the login bug', 'Delegated to a developer; ask something else meanwhile.'],
  ['A question on the side', 'Set up auth', 'Asks which provider; other messages go on meanwhile.'],
  ['A simple tool call', 'What is 17 * 23?', 'Answered with the calculator.'],
];
const VIEWS_KEPT = 6;

let hello = null;
let view = null;            // the conversation that is open
const views = new Map();    // those that were open lately
const drafts = new Map();   // texts that were typed and not sent
const watched = new Set();  // sessions followed only for hints
const inputs = [];          // what came since the last frame that was painted
let entries = [];           // the list of conversations
let pages = 1;
let unclear = false;        // the connection was lost; say how it came back
let title = '';

// ---- storage that may be switched off --------------------------------------

function store(kind, key, value) {
  try {
    const s = kind === 'tab' ? sessionStorage : localStorage;
    if (value === undefined) return s.getItem(key) || '';
    if (value === '') s.removeItem(key); else s.setItem(key, value);
  } catch { /* private mode: the page works without */ }
  return '';
}
credential.token = () => store('tab', 'parley.token');

// ---- connection ------------------------------------------------------------

const client = new Client({
  url: `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/ws`,
  token: credential.token,
  on: (kind, p) => handlers[kind]?.(p),
});

const handlers = {
  status(s) { showConnection(s); },
  latency(ms) { $('connection').title = `${hello?.user || ''} · ${ms} ms`; },
  hello(data) {
    hello = data;
    $('demo').hidden = data.model !== 'scripted';
    if (view) view = { ...view, me: data.user };
    route();
    refreshList();
  },
  followed({ session, data, resumed }) {
    if (watched.has(session) && view?.session !== session) { tasksView.hint(); return; }
    push({ type: resumed ? '@resumed' : '@followed', session, data });
    if (unclear && view?.session === session) {
      unclear = false;
      banner(resumed ? 'Back online. Nothing was missed.' : 'Back online. The conversation was loaded again.', 'good', 3500);
    }
    flush();
    if (view?.session === session) for (const p of view.pending.values()) if (p.state === 'sending' || p.state === 'sent') deliver(session, p);
  },
  unfollowed({ session, error }) {
    if (view?.session !== session) return;
    view = reduce(view, [{ type: 'gone', session, data: { reason: error.code === 'not_found' ? 'This conversation does not exist, or it was erased.' : error.message } }]);
    paint();
  },
  frame(f) {
    if (LISTED.has(f.type)) soon(refreshList, 400);
    if (f.type === 'task_status' || f.type === 'response' || f.type === 'partial_response' || f.type === 'question') tasksView.hint();
    if (view?.session === f.session) push(f);
  },
};
const LISTED = new Set(['session_created', 'session_updated', 'session_closed', 'message_accepted', 'task_status', 'question', 'response', 'partial_response', 'gone']);

let countdown = 0;
function showConnection(s) {
  clearInterval(countdown);
  const box = $('connection');
  box.dataset.state = s.state;
  const word = { connecting: 'Connecting', open: hello?.user ? `Connected as ${hello.user}` : 'Connected', waiting: 'Offline', stopped: 'Disconnected' }[s.state];
  if ($('connection-text').textContent !== word) $('connection-text').textContent = word;
  if (s.state === 'waiting') {
    unclear = true;
    const left = h('span', { 'aria-hidden': 'true' });
    const tick = () => { left.textContent = ` Reconnecting in ${Math.max(0, Math.ceil((s.retryAt - Date.now()) / 1000))} s`; };
    tick();
    countdown = setInterval(tick, 250);
    banner(['Connection lost.', left, h('button', { type: 'button', class: 'link-button', onclick: () => client.retryNow() }, 'Reconnect now')], 'bad');
  } else if (s.state === 'connecting') {
    if (unclear) banner('Connection lost. Reconnecting…', 'bad');
  } else if (s.state === 'open') {
    if (unclear && (!view || !view.session || view.gone)) { unclear = false; banner('Back online.', 'good', 2500); }
  } else if (s.code === 4501 || s.code === 4502) {
    signIn(s.reason);
  } else if (s.code !== 1000) {
    banner([`Disconnected: ${s.reason}.`, h('button', { type: 'button', class: 'link-button', onclick: () => client.start() }, 'Try again')], 'bad');
    failPending(s.reason);
  }
}

let bannerTimer = 0;
function banner(content, tone, ms) {
  const b = $('banner');
  clearTimeout(bannerTimer);
  b.dataset.tone = tone;
  b.replaceChildren(...[].concat(content));
  b.hidden = false;
  if (ms) bannerTimer = setTimeout(() => { b.hidden = true; }, ms);
}

function signIn(reason) {
  $('banner').hidden = true;
  const input = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'sign-in-title' },
    h('form', { method: 'dialog' },
      h('h2', { id: 'sign-in-title' }, 'Sign in'),
      h('p', {}, store('tab', 'parley.token') ? `That did not work: ${reason || 'the key was refused'}.` : 'This server asks for an access key or token.'),
      h('label', { for: 'token' }, 'Access key'), input,
      h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'primary' }, 'Sign in'))));
  dialog.addEventListener('cancel', (e) => e.preventDefault());
  dialog.addEventListener('close', () => { store('tab', 'parley.token', input.value.trim()); dialog.remove(); client.start(); });
  document.body.append(dialog);
  dialog.showModal();
}

function confirmed(text, action) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { class: 'dialog', 'aria-label': action }, h('form', { method: 'dialog' }, h('p', {}, text),
      h('div', { class: 'dialog-actions' },
        h('button', { type: 'submit', class: 'plain-button', value: '' }, 'Keep'),
        h('button', { type: 'submit', class: 'danger', value: 'yes' }, action))));
    dialog.addEventListener('close', () => { resolve(dialog.returnValue === 'yes'); dialog.remove(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// ---- from inputs to the screen ---------------------------------------------

let scheduled = 0;
function push(input) {
  inputs.push(input);
  if (scheduled) return;
  scheduled = 1;
  // A page in the background gets no animation frames, but must not fall behind.
  if (document.visibilityState === 'visible') requestAnimationFrame(flush); else setTimeout(flush, 100);
}

function flush() {
  scheduled = 0;
  if (!view || inputs.length === 0) { inputs.length = 0; return; }
  const batch = inputs.splice(0);
  for (const i of batch) {
    if (i.type === 'typing' && i.data?.on) { const user = i.data.user; setTimeout(() => push({ type: '@quiet', session: i.session, user }), 6000); }
  }
  view = reduce(view, batch);
  keep();
  // Replayed events are painted once, when all of them are there.
  if (view.synced || view.pending.size || view.gone) paint();
}

function keep() {
  views.delete(view.session);
  views.set(view.session, view);
  for (const key of views.keys()) { if (views.size <= VIEWS_KEPT) break; views.delete(key); }
  const out = [...view.pending.values()].map(({ client_msg_id, text, mode, in_reply_to, ts }) => ({ client_msg_id, text, mode, in_reply_to, ts }));
  store('tab', `parley.outbox.${view.session}`, out.length ? JSON.stringify(out) : '');
}

const readonly = () => !view || view.session.includes('/') || view.closed || !!view.gone;

function paint() {
  if ($('conversation').hidden) return;
  const fresh = !view || (!view.session && !view.pending.size);
  $('empty').hidden = !(fresh || view?.gone);
  if (view?.gone) $('empty').replaceChildren(h('p', { class: 'empty-note' }, view.gone), h('a', { class: 'primary', href: '#/' }, 'New conversation'));
  else if (fresh) drawEmpty();
  chat.scroller.classList.toggle('is-empty', fresh || !!view?.gone);
  if (view) chat.update(view);
  drawHead();
  drawComposer();
  const w = badge(view?.session);
  if (w !== shownBadge) { shownBadge = w; drawList(); }
  markSeen();
}

function drawEmpty() {
  if ($('empty').querySelector('.examples')) return;
  $('empty').replaceChildren(
    h('h2', {}, 'What can I do for you?'),
    h('p', { class: 'hint' }, 'Write at any time, also while something is being worked on. Each message gets its own answer.'),
    h('ul', { class: 'examples' }, EXAMPLES.map(([name, text, why]) => h('li', {}, h('button', { type: 'button', class: 'example', onclick: () => send(text) },
      h('span', { class: 'example-name' }, name), h('span', { class: 'example-text' }, text), h('span', { class: 'example-why' }, why))))));
}

function drawHead() {
  // Until the conversation itself is here, the list knows its title.
  const name = !view || !view.session ? 'New conversation' : view.title || entries.find((e) => e.id === view.session)?.title || 'Untitled conversation';
  if (!renaming && $('title').textContent !== name) $('title').textContent = name;
  const sub = [];
  if (view?.session.includes('/')) sub.push(`Delegated to ${view.agent || 'an agent'}, read only`);
  else if (view?.agent) sub.push(view.agent);
  if (view?.closed) sub.push('closed');
  if (view?.access === 'tenant') sub.push('shared with everyone of the tenant');
  if (view?.owner && hello && view.owner !== hello.user) sub.push(`owned by ${view.owner}`);
  const parent = view?.session.includes('/') ? view.session.slice(0, view.session.lastIndexOf('/')) : '';
  $('parent').hidden = !parent;
  if (parent) $('parent').href = `#/s/${encodeURIComponent(parent)}`;
  $('subtitle').textContent = sub.join(' · ');
  $('head-tools').hidden = !view?.session || !!view.gone || view.session.includes('/');
  const count = entries.reduce((n, e) => n + (e.awaiting > 0 ? 1 : 0), 0);
  const t = `${count ? `(${count}) ` : ''}${tasksView.visible ? 'Tasks' : name} · parley`;
  if (t !== title) document.title = title = t;
}

function drawComposer() {
  const ro = readonly() && !!view?.session;
  if (main.element.hidden !== ro) { main.element.hidden = ro; main.refresh(); }
  const w = view ? working(view) : null;
  const busy = !!w && w.state !== 'awaiting';
  if ((!w || ro) && document.activeElement === stop) actions.toInput();
  stop.hidden = !w || ro;
  stop.disabled = w?.state === 'stopping';
  modeBox.hidden = !busy || ro;
  const open = view ? openQuestions(view).filter((q) => q.blocking && !q.approval) : [];
  const place = open.length ? 'Type your answer…' : busy ? 'Add something, it joins the work…' : 'Message…';
  if (main.input.placeholder !== place) main.input.placeholder = place;
  const hint = ro ? (view.gone ? '' : view.closed ? 'This conversation is closed.' : 'A delegated conversation can only be read.') : 'Enter to send, Shift+Enter for a new line';
  if ($('composer-hint').textContent !== hint) $('composer-hint').textContent = hint;
}

let seenTimer = 0;
let lastSeen = '';
const seen = new Map();    // session -> how far this page has shown it; the list may be older
const seenNow = () => (view?.session && view.synced && view.last && document.visibilityState === 'visible' && chat.stick && !$('conversation').hidden ? `${view.session}@${view.last}` : '');

// The cursor of what this user has read; told a little later, because it moves a lot.
function markSeen() {
  const mark = seenNow();
  if (mark && mark !== lastSeen && !seenTimer) seenTimer = setTimeout(tellSeen, 600);
}

function tellSeen() {
  clearTimeout(seenTimer);
  seenTimer = 0;
  const mark = seenNow();
  if (!mark || mark === lastSeen) return;
  lastSeen = mark;
  client.tell('seen', view.session, { seq: view.last });
  seen.set(view.session, view.last);
  drawList();
}

// ---- sending ---------------------------------------------------------------

function send(text) {
  const limit = hello?.limits?.text_bytes || 0;
  if (limit && new TextEncoder().encode(text).length > limit) {
    toast(`This message is too long: at most ${Math.floor(limit / 1024)} KiB.`, { tone: 'bad' });
    return false;
  }
  if (!view) {
    view = emptyView('', hello?.user || '');
    view.create = newID();
  }
  const input = { type: '@send', session: view.session, client_msg_id: newID(), text, mode: mode.value, ts: new Date().toISOString() };
  mode.value = '';
  chat.stick = true;
  view = reduce(view, [input]);
  if (view.session) keep();
  paint();
  chat.toEnd();
  sendTyping(false);
  const p = view.pending.get(input.client_msg_id);
  if (!view.session) create(p); else deliver(view.session, p);
  return true;
}

// A conversation exists from its first message on; nothing is created by looking.
async function create(p) {
  const draft = view;
  try {
    const { session } = await client.command('create', '', { client_session_id: draft.create });
    if (view?.create !== draft.create || view.session) return;
    view = { ...view, session, create: '' };
    // What was typed meanwhile belongs here, not to the next new conversation.
    drafts.set(session, drafts.get('') || '');
    drafts.delete('');
    keep();
    history.replaceState(null, '', `#/s/${encodeURIComponent(session)}`);
    client.follow(session);
    refreshList();
  } catch (err) {
    if (view?.create !== draft.create) return;
    if (err.code === 'disconnected' && !client.stopped) return; // the next hello tries again
    view = reduce(view, [{ type: '@send_failed', client_msg_id: p.client_msg_id, error: err.message }]);
    paint();
    complain('The conversation could not be created.', err);
  }
}

const inFlight = new Set();
async function deliver(session, p) {
  if (inFlight.has(p.client_msg_id)) return;
  inFlight.add(p.client_msg_id);
  const data = { client_msg_id: p.client_msg_id, text: p.text };
  if (p.mode) data.mode = p.mode;
  if (p.in_reply_to) data.in_reply_to = p.in_reply_to;
  try {
    const ok = await client.command('send', session, data);
    local(session, { type: '@sent', client_msg_id: p.client_msg_id, message: ok.message });
  } catch (err) {
    if (err.code === 'disconnected' && !client.stopped) return; // sent again after the next follow
    local(session, { type: '@send_failed', client_msg_id: p.client_msg_id, error: err.message });
    complain('The message was not sent.', err);
  } finally {
    inFlight.delete(p.client_msg_id);
  }
}

function local(session, input) {
  if (view?.session === session) { push({ ...input, session }); return; }
  const other = views.get(session);
  if (other) views.set(session, reduce(other, [{ ...input, session }]));
}

function failPending(reason) {
  if (!view) return;
  for (const p of view.pending.values()) view = reduce(view, [{ type: '@send_failed', client_msg_id: p.client_msg_id, error: reason }]);
  paint();
}

async function command(what, type, data) {
  try {
    await client.command(type, view.session, data);
    return true;
  } catch (err) {
    complain(what, err);
    return false;
  }
}

const actions = {
  readonly,
  show: (key) => chat.show(key),
  retry(row) {
    view = reduce(view, [{ type: '@send', session: view.session, client_msg_id: row.client_msg_id, text: row.text, mode: row.mode, in_reply_to: row.in_reply_to, ts: row.ts }]);
    paint();
    const p = view.pending.get(row.client_msg_id);
    if (client.stopped) client.start();
    if (view.session) deliver(view.session, p); else create(p);
  },
  discard(row) { view = reduce(view, [{ type: '@discard', session: view.session, client_msg_id: row.client_msg_id }]); if (view.session) keep(); paint(); },
  answer: (question, text) => command('The answer was not taken.', 'answer', { client_msg_id: newID(), question, text }),
  toInput: () => { if (!('ontouchstart' in window)) main.focus(); },
  edit: (message, text) => command('The message was not changed.', 'edit', { message, text }),
  withdraw: (message) => command('The message was not withdrawn.', 'withdraw', { message }),
  moveUp(message) {
    const ids = waitingMessages(view).map((m) => m.message);
    const i = ids.indexOf(message);
    return i > 0 && command('The message was not moved.', 'move', { message, before: ids[i - 1] });
  },
  dropWaiting: () => command('Nothing was stopped.', 'cancel', { waiting: 'drop' }),
  openSession: (id) => { location.hash = `#/s/${encodeURIComponent(id)}`; },
  async showCall(call) {
    try {
      const c = await api.call(view.session, call);
      if (document.querySelector('dialog')) return; // pressed twice
      const dialog = h('dialog', { class: 'dialog wide', 'aria-label': c.tool || 'Tool call' },
        h('form', { method: 'dialog' }, h('h2', {}, c.tool || call), h('h3', {}, 'Arguments'), h('pre', { tabIndex: 0 }, text(c.args)), h('h3', {}, 'Result'), h('pre', { tabIndex: 0 }, text(c.result ?? c.summary)),
          h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'plain-button' }, 'Close'))));
      dialog.addEventListener('close', () => dialog.remove());
      document.body.append(dialog);
      dialog.showModal();
    } catch (err) { complain('The call could not be loaded.', err); }
  },
  atEnd: (end) => { if (end) markSeen(); },
  async loadOlder() {
    const v = view;
    const since = Math.max(0, v.first - 201);
    try {
      const page = await api.events(v.session, since, Math.min(200, v.first - 1 - since));
      if (view?.session === v.session) {
        view = reduce(view, [{ type: '@older', session: v.session, frames: page.items || [], from: since + 1 }]);
        paint();
      }
      return true;
    } catch (err) {
      complain('Earlier messages could not be loaded.', err);
      return false;
    }
  },
};

function text(x) {
  if (x && typeof x === 'object') return x.redacted ? '(hidden)' : JSON.stringify(x, null, 2);
  return String(x ?? '');
}

// ---- the parts of the page -------------------------------------------------

const chat = new Conversation({
  scroller: $('scroller'), log: $('log'), drafts: $('drafts'), activity: $('activity'), working: $('working'), workingText: $('working-text'),
  tray: $('tray'), typing: $('typing'), older: $('older'), jump: $('jump'), jumpText: $('jump-text'),
}, actions);
$('jump').prepend(icon('down'));

const main = composer({
  label: 'Message', placeholder: 'Message…', id: 'message', submit: (t) => send(t),
  onInput: (t) => { drafts.set(view?.session || '', t); sendTyping(!!t.trim()); },
});
const stop = h('button', { type: 'button', class: 'stop', 'aria-label': 'Stop', title: 'Stop (Esc)', hidden: true, onclick: () => cancel() }, icon('stop'));
main.button.before(stop);
const mode = h('select', { 'aria-label': 'What this message does while a task runs' },
  h('option', { value: '' }, 'Joins in'), h('option', { value: 'queue' }, 'Queues up'), h('option', { value: 'interrupt' }, 'Interrupts'));
const modeBox = h('label', { class: 'mode', hidden: true }, mode);
main.button.before(modeBox);
$('composer-slot').append(main.element);

async function cancel() {
  const w = view && working(view);
  if (!w) return;
  if (document.activeElement === stop) actions.toInput();
  stop.disabled = true;
  await command('Nothing was stopped.', 'cancel', w.task ? { task: w.task } : {});
  drawComposer();
}

let typingOn = false;
let typingTimer = 0;
let typingSent = 0;
function sendTyping(on) {
  if (!view?.session) return;
  clearTimeout(typingTimer);
  if (on) {
    if (!typingOn || Date.now() - typingSent > 3000) { client.tell('typing', view.session, { on: true }); typingSent = Date.now(); }
    typingTimer = setTimeout(() => sendTyping(false), 5000);
  } else if (typingOn) client.tell('typing', view.session, { on: false });
  typingOn = on;
}

let renaming = false;
function rename() {
  if (renaming || !view?.session) return;
  renaming = true;
  const session = view.session;
  const input = h('input', { class: 'rename', 'aria-label': 'Title', maxlength: '200', value: view.title });
  const done = async (save) => {
    if (!renaming) return;
    renaming = false;
    const value = input.value.trim();
    drawHeadTitle();
    if (!save || value === view?.title) return;
    try { await api.patch(session, { title: value }); refreshList(); } catch (err) { complain('The title was not changed.', err); }
  };
  const drawHeadTitle = () => { $('title').textContent = ''; drawHead(); };
  input.addEventListener('keydown', (e) => {
    if (e.isComposing) return;
    if (e.key === 'Enter') done(true);
    if (e.key === 'Escape') { e.stopPropagation(); done(false); }
  });
  input.addEventListener('blur', () => done(true));
  $('title').replaceChildren(input);
  input.select();
}

$('head-tools').append(
  iconButton('edit', 'Rename', rename),
  iconButton('clear', 'Clear: the agent forgets what is above', async () => {
    if (await confirmed('From here on the agent sees nothing of what is above. The conversation itself stays.', 'Clear')) command('It was not cleared.', 'clear', {});
  }),
  iconButton('trash', 'Delete this conversation', async () => {
    const session = view.session;
    if (!(await confirmed('Delete this conversation with everything in it? This cannot be undone.', 'Delete'))) return;
    try {
      client.unfollow(session);
      await api.remove(session);
      views.delete(session);
      if (view?.session === session) location.hash = '#/';
      refreshList();
    } catch (err) {
      client.follow(session);
      complain('It was not deleted.', err);
    }
  }));

// ---- the list of conversations ---------------------------------------------

const timers = new Map();
function soon(f, ms) {
  if (timers.has(f)) return;
  timers.set(f, setTimeout(() => { timers.delete(f); f(); }, ms));
}

let listing = 0;
async function refreshList() {
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
  entries = found.map(sessionEntry);
  $('more-sessions').hidden = !cursor;
  drawList();
}

// What the list says beside a conversation; of the one that is open the page
// knows it before the list is loaded again.
let shownBadge = '';
function badge(session) {
  if (view?.synced && view.session === session) {
    const w = working(view);
    return !w ? '' : w.state === 'awaiting' ? 'awaiting you' : 'working';
  }
  const e = entries.find((x) => x.id === session);
  return !e ? '' : e.awaiting ? 'awaiting you' : e.open ? 'working' : '';
}

function drawList() {
  const want = $('search').value.trim().toLowerCase();
  const shown = entries.filter((e) => !want || e.title.toLowerCase().includes(want));
  const focused = document.activeElement?.dataset?.session;
  $('sessions').replaceChildren(...shown.map((e) => {
    const current = !tasksView.visible && view?.session.split('/')[0] === e.id;
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
  drawHead();
}

$('search').addEventListener('input', drawList);
$('more-sessions').addEventListener('click', () => { pages++; refreshList(); });
setInterval(() => { if (document.visibilityState === 'visible' && client.open) refreshList(); }, 15000);

// ---- routes ----------------------------------------------------------------

const tasksView = new Tasks({
  root: $('tasks'),
  menu: (from) => drawer(true, from),
  watch(list) {
    for (const s of watched) if (!list.includes(s)) { watched.delete(s); if (view?.session !== s) client.unfollow(s); }
    for (const s of list) if (!watched.has(s)) { watched.add(s); client.follow(s, { tail: 1 }); }
  },
});

function route() {
  const [, kind = '', id = ''] = /^#\/([^/]*)\/?(.*)$/.exec(location.hash) || [];
  drawer(false);
  const onTasks = kind === 'tasks';
  flush();
  tellSeen();
  $('conversation').hidden = onTasks;
  $('tasks').hidden = !onTasks;
  if (onTasks) $('tasks-link').setAttribute('aria-current', 'page'); else $('tasks-link').removeAttribute('aria-current');
  if (onTasks) { tasksView.show(decode(id)); drawList(); return; }
  if (tasksView.visible) tasksView.hide();
  open(kind === 's' ? decode(id) : '');
  drawList();
}
function decode(s) { try { return decodeURIComponent(s); } catch { return s; } }

function open(session) {
  if (view?.session && view.session === session) { paint(); return; }
  if (view && !view.session && !session && view.pending.size) { // created again after a lost connection
    const p = view.pending.values().next().value;
    if (client.open && p.state === 'sending') create(p);
    paint();
    return;
  }
  if (view?.session && !watched.has(view.session)) client.unfollow(view.session);
  flush();
  inputs.length = 0;
  renaming = false;
  chat.reset();
  if (!session) {
    view = null;
  } else {
    const kept = views.get(session);
    view = kept && !kept.gone ? kept : emptyView(session, hello?.user || '');
    view.me = hello?.user || view.me;
    if (!kept) restoreOutbox();
    if (watched.has(session)) client.unfollow(session);
    client.follow(session, { last: view.last, log: view.log });
  }
  main.value = drafts.get(session) || '';
  paint();
  actions.toInput();
}

function restoreOutbox() {
  let out = [];
  try { out = JSON.parse(store('tab', `parley.outbox.${view.session}`) || '[]'); } catch { /* not ours */ }
  if (Array.isArray(out) && out.length) view = reduce(view, out.map((p) => ({ ...p, type: '@send' })));
}

// ---- small things ----------------------------------------------------------

function drawer(openIt, from) {
  const side = $('sidebar');
  if (side.classList.contains('open') === openIt) return;
  side.classList.toggle('open', openIt);
  $('shade').hidden = !openIt;
  for (const b of document.querySelectorAll('.menu-button')) b.setAttribute('aria-expanded', String(openIt));
  if (openIt) { drawer.from = from; $('new').focus(); } else drawer.from?.focus();
}
const menu = document.querySelector('.menu-button');
menu.append(icon('menu'));
menu.addEventListener('click', () => drawer(true, menu));
$('shade').addEventListener('click', () => drawer(false));
$('parent').append(icon('back'));
$('tasks-link').append(icon('tasks'), 'Tasks');
$('new').prepend(icon('plus'));
$('new').addEventListener('click', () => { if (!view?.session && view) { view = null; chat.reset(); } setTimeout(() => main.focus()); });
$('skip').addEventListener('click', () => main.focus());

document.addEventListener('keydown', (e) => {
  if (e.key !== 'Escape' || e.isComposing || document.querySelector('dialog[open]')) return;
  if ($('sidebar').classList.contains('open')) drawer(false);
  else if (e.target === main.input && !main.value && !stop.hidden && !stop.disabled) cancel();
});

const THEMES = { '': ['auto', 'Theme: as the system'], light: ['sun', 'Theme: light'], dark: ['moon', 'Theme: dark'] };
function drawTheme() {
  const theme = document.documentElement.dataset.theme || '';
  const b = $('theme');
  b.replaceChildren(icon(THEMES[theme][0]));
  b.title = THEMES[theme][1];
  b.setAttribute('aria-label', THEMES[theme][1]);
}
$('theme').addEventListener('click', () => {
  const order = ['', 'light', 'dark'];
  const next = order[(order.indexOf(document.documentElement.dataset.theme || '') + 1) % 3];
  if (next) document.documentElement.dataset.theme = next; else delete document.documentElement.dataset.theme;
  store('browser', 'parley.theme', next);
  drawTheme();
});
drawTheme();

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState !== 'visible') return;
  client.probe();
  markSeen();
});
addEventListener('online', () => client.probe());
addEventListener('hashchange', () => { if (hello) route(); });
// Without it the browser would keep the socket half open until it times out.
addEventListener('pagehide', () => client.drop());
addEventListener('pageshow', (e) => { if (e.persisted) client.start(); });

// Where durations run, they run on the screen too.
setInterval(() => {
  const w = view && working(view);
  const since = w && Date.parse(w.since);
  const e = $('working').querySelector('.elapsed') || $('working').appendChild(h('span', { class: 'elapsed', 'aria-hidden': 'true' }));
  const ms = Date.now() - since;
  e.textContent = since && ms >= 3000 ? duration(Math.floor(ms / 1000) * 1000) : '';
}, 1000);

paint();
client.start();
