// Sending: a message is on the screen at once, is sent until the server has it,
// and is sent again after a lost connection. A conversation is created by its
// first message.

import { choose, chosenFields } from './choices.js';
import { client } from './connection.js';
import { complain, newID, toast } from './dom.js';
import { remember, remembered } from './memory.js';
import { patiently } from './patience.js';
import { emptyView, reduce } from './store.js';
import { state, stored } from './state.js';
import { again, allStored, giveUp, lostThere } from './uploads.js';
import { apply, keep, paint, push } from './view.js';

const created = [];
/** Calls f after a conversation was created by its first message. */
export function onCreated(f) { created.push(f); }

/** Sends a text and files to the open conversation; false if it cannot be sent at all. */
export function send(text, { mode = '', in_reply_to = '', attachments = [] } = {}) {
  const limit = state.hello?.limits?.text_bytes || 0;
  if (limit && new TextEncoder().encode(text).length > limit) {
    toast(`This message is too long: at most ${Math.floor(limit / 1024)} KiB.`, { tone: 'bad' });
    return false;
  }
  if (!state.view) {
    state.view = emptyView('', state.hello?.user || '');
    state.view.create = newID();
  }
  const input = { type: '@send', session: state.view.session, client_msg_id: newID(), text, mode, in_reply_to, attachments, ts: new Date().toISOString() };
  state.chat.stick = true;
  apply(input);
  if (state.view.session) keep();
  paint();
  state.chat.toEnd();
  typing(false);
  dispatch(input.client_msg_id);
  return true;
}

function dispatch(id) {
  const p = state.view.pending.get(id);
  if (state.view.session) deliver(state.view.session, p); else create(p);
}

// A conversation exists from its first message on; nothing is created by looking.
export async function create(p) {
  const draft = state.view;
  try {
    const { session } = await patiently(() => client.command('create', '', { client_session_id: draft.create, ...chosenFields() }));
    if (state.view?.create !== draft.create || state.view.session) return;
    state.view = { ...state.view, session, create: '' };
    choose({ agent: '', mode: '' });
    // What was typed meanwhile belongs here, not to the next new conversation.
    remember(session, remembered(''));
    remember('', '');
    keep();
    history.replaceState(null, '', `#/s/${encodeURIComponent(session)}`);
    client.follow(session);
    for (const f of created) f(session);
  } catch (err) {
    if (state.view?.create !== draft.create) return;
    if (err.code === 'disconnected' && !client.stopped) return; // the next hello tries again
    apply({ type: '@send_failed', client_msg_id: p.client_msg_id, error: err.message });
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
    const ok = await patiently(() => sent(session, p, data));
    local(session, { type: '@sent', client_msg_id: p.client_msg_id, message: ok.message });
    for (const a of p.attachments) giveUp(a.local);
  } catch (err) {
    if (err.code === 'disconnected' && !client.stopped) return; // sent again after the next follow
    local(session, { type: '@send_failed', client_msg_id: p.client_msg_id, error: err.message });
    complain('The message was not sent.', err);
  } finally {
    inFlight.delete(p.client_msg_id);
  }
}

// The message, behind its files. Those that the server has taken away again, because no
// message has named them for long, are uploaded once more.
async function sent(session, p, data) {
  if (!p.attachments.length) return client.command('send', session, data);
  const got = (local_, hash) => local(session, { type: '@uploaded', client_msg_id: p.client_msg_id, local: local_, hash });
  const named = (list) => ({ ...data, attachments: list.map(({ hash, name }) => ({ hash, name })) });
  try {
    return await client.command('send', session, named(await allStored(session, p.attachments, got)));
  } catch (err) {
    if (err.code !== 'not_found' || !lostThere(p.attachments)) throw err;
    return client.command('send', session, named(await allStored(session, p.attachments.map((a) => ({ ...a, hash: '' })), got)));
  }
}

function local(session, input) {
  if (state.view?.session === session) { push({ ...input, session }); return; }
  const other = state.views.get(session);
  if (other) state.views.set(session, reduce(other, [{ ...input, session }]));
}

/** Sends what the open conversation has not sent yet. */
export function deliverAll() {
  const { view } = state;
  for (const p of view.pending.values()) if (p.state === 'sending' || p.state === 'sent') deliver(view.session, p);
}

/** Creates the open conversation again if the connection was lost meanwhile. */
export function createAgain() {
  const p = state.view.pending.values().next().value;
  if (client.open && p.state === 'sending') create(p);
}

export function failPending(reason) {
  if (!state.view) return;
  for (const p of state.view.pending.values()) apply({ type: '@send_failed', client_msg_id: p.client_msg_id, error: reason });
  paint();
}

export function retry(row) {
  const attachments = row.attachments.filter((a) => !a.lost);
  if (!row.text.trim() && !attachments.length) { toast('Nothing is left of this message: discard it, and attach the files again.', { tone: 'bad' }); return; }
  for (const a of attachments) again(a.local);
  apply({ type: '@send', session: state.view.session, client_msg_id: row.client_msg_id, text: row.text, mode: row.mode, in_reply_to: row.in_reply_to, attachments, ts: row.ts });
  paint();
  if (client.stopped) client.start();
  dispatch(row.client_msg_id);
}

export function discard(row) {
  for (const a of row.attachments) giveUp(a.local);
  apply({ type: '@discard', session: state.view.session, client_msg_id: row.client_msg_id });
  if (state.view.session) keep();
  paint();
}

/** Brings back what this tab had not sent when it was loaded again. */
export function restoreOutbox() {
  let out = [];
  try { out = JSON.parse(stored('tab', `parley.outbox.${state.view.session}`) || '[]'); } catch { /* not ours */ }
  if (!Array.isArray(out)) return;
  for (const p of out) {
    // A file that was not uploaded is not here any more: its message waits for a person.
    const attachments = (p.attachments || []).map((a) => (a.hash ? a : { ...a, lost: true }));
    apply({ ...p, attachments, type: '@send' });
    const lost = attachments.filter((a) => a.lost).map((a) => a.name).join(', ');
    if (!lost) continue;
    const error = `${lost}: not uploaded before the page was loaded again. Retry sends the message without it.`;
    apply({ type: '@send_failed', client_msg_id: p.client_msg_id, error });
    toast(`The message was not sent. ${error}`, { tone: 'bad' });
  }
}

let typingOn = false;
let typingTimer = 0;
let typingSent = 0;
/** Tells the others of the conversation that this user writes, or stopped writing. */
export function typing(on) {
  const { view } = state;
  if (!view?.session) return;
  clearTimeout(typingTimer);
  if (on) {
    if (!typingOn || Date.now() - typingSent > 3000) { client.tell('typing', view.session, { on: true }); typingSent = Date.now(); }
    typingTimer = setTimeout(() => typing(false), 5000);
  } else if (typingOn) client.tell('typing', view.session, { on: false });
  typingOn = on;
}
