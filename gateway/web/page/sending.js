// Sending: a message is on the screen at once, and in the outbox until the server has
// it. A conversation is created by its first message.

import { choose, chosenFields } from './choices.js';
import { client } from './connection.js';
import { complain, newID, toast } from './dom.js';
import { remember, remembered } from './memory.js';
import { Outbox } from './outbox.js';
import { patiently } from './patience.js';
import { emptyView, reduce } from './store.js';
import { state, stored, storedWith } from './state.js';
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
  state.chat.stick = true;
  show({ client_msg_id: newID(), text, mode, in_reply_to, attachments, ts: new Date().toISOString() });
  state.chat.toEnd();
  typing(false);
  return true;
}

// Shows a message in the open conversation, and has it sent.
function show(m) {
  const { session, create } = state.view;
  apply({ type: '@send', session, ...m });
  if (session) keep();
  paint();
  outbox.post(session ? { session } : { create, fields: chosenFields() }, m);
}

const OUTBOX = 'parley.outbox.';
const outbox = new Outbox({
  create: (box) => patiently(() => client.command('create', '', { client_session_id: box.create, ...box.fields })).then((ok) => ok.session),
  send: (box, m) => patiently(() => sent(box, m)),
  keep: (key, text) => stored('tab', OUTBOX + key, text),
  kept: storedWith(OUTBOX),
  on: {
    created(box) {
      const here = isOpen({ session: '', create: box.create });
      if (here) {
        state.view = { ...state.view, session: box.session, create: '' };
        choose({ agent: '', mode: '' });
        // What was typed meanwhile belongs here, not to the next new conversation.
        remember(box.session, remembered(''));
        remember('', '');
        keep();
        history.replaceState(null, '', `#/s/${encodeURIComponent(box.session)}`);
        client.follow(box.session);
      }
      for (const f of created) f(box.session, here);
    },
    sent(box, m, ok) {
      tell(box, { type: '@sent', client_msg_id: m.client_msg_id, message: ok.message });
      for (const a of m.attachments) giveUp(a.local);
    },
    failed(box, m, err) {
      tell(box, { type: '@send_failed', client_msg_id: m.client_msg_id, error: m.error });
      if (err.code === 'given_up') return; // the banner says it
      complain(box.session ? 'The message was not sent.' : 'The conversation could not be created.', err);
      if (box.session || isOpen(box)) return;
      // Nowhere else would it be seen again.
      remember('', [remembered('').trim(), m.text.trim()].filter(Boolean).join('\n'));
      outbox.discard(box, m.client_msg_id);
    },
  },
});

/** Whether something that was sent to this conversation is still here. */
export const isWaiting = (session) => !!outbox.of(session);
export const isAnyWaiting = () => outbox.boxes.length > 0;

/** There is a connection: what has not been sent is sent, whichever conversation is open. */
export const sendAll = () => outbox.workAll();

/** There will be no connection: what has not been sent waits for a person. */
export function giveUpSending(reason) {
  outbox.failAll(Object.assign(new Error(reason), { code: 'given_up' }));
  paint();
}

/** A conversation was erased; gives the messages that were on their way there. */
export const forgetSent = (session) => outbox.forget(session);

const isOpen = ({ session, create }) => !!state.view && (session ? state.view.session === session : !state.view.session && state.view.create === create);

// Tells the view of a box what became of a message, if there is one.
function tell(box, input) {
  const { session } = box;
  if (isOpen(box)) {
    if (session) { push({ ...input, session }); return; }
    apply({ ...input, session });
    paint();
    return;
  }
  const other = session && state.views.get(session);
  if (other) state.views.set(session, reduce(other, [{ ...input, session }]));
}

// A message, behind its files. Those that the server has taken away again, because no
// message has named them for long, are uploaded once more.
async function sent(box, m) {
  const { session } = box;
  const data = { client_msg_id: m.client_msg_id, text: m.text };
  if (m.mode) data.mode = m.mode;
  if (m.in_reply_to) data.in_reply_to = m.in_reply_to;
  if (!m.attachments.length) return client.command('send', session, data);
  const got = (local, hash) => {
    outbox.uploaded(box, m.client_msg_id, local, hash);
    tell(box, { type: '@uploaded', client_msg_id: m.client_msg_id, local, hash });
  };
  const named = (list) => ({ ...data, attachments: list.map(({ hash, name }) => ({ hash, name })) });
  try {
    return await client.command('send', session, named(await allStored(session, m.attachments, got)));
  } catch (err) {
    if (err.code !== 'not_found' || !lostThere(m.attachments)) throw err;
    return client.command('send', session, named(await allStored(session, m.attachments.map((a) => ({ ...a, hash: '' })), got)));
  }
}

/** Sends a message again that was refused, behind those that wait. */
export function retry(row) {
  const attachments = row.attachments.filter((a) => !a.lost);
  if (!row.text.trim() && !attachments.length) { toast('Nothing is left of this message: discard it, and attach the files again.', { tone: 'bad' }); return; }
  for (const a of attachments) again(a.local);
  if (client.stopped) client.start();
  const { client_msg_id, text, mode, in_reply_to, ts } = row;
  show({ client_msg_id, text, mode, in_reply_to, attachments, ts });
}

export function discard(row) {
  for (const a of row.attachments) giveUp(a.local);
  outbox.discard(outbox.of(state.view.session, state.view.create), row.client_msg_id);
  apply({ type: '@discard', session: state.view.session, client_msg_id: row.client_msg_id });
  if (state.view.session) keep();
  paint();
}

/** Shows what was sent to the open conversation before this page was loaded, or before it was opened. */
export function showUnsent() {
  const { session, create } = state.view;
  for (const m of outbox.of(session, create)?.list || []) {
    apply({ ...m, type: '@send', session });
    if (m.error) apply({ type: '@send_failed', session, client_msg_id: m.client_msg_id, error: m.error });
  }
}

/** The view of a new conversation that was begun here and could not be created yet; null = there is none. */
export function begun() {
  const box = outbox.begun.at(-1);
  if (!box) return null;
  const view = emptyView('', state.hello?.user || '');
  view.create = box.create;
  return view;
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
