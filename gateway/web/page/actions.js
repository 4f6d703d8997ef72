// What a person can do in the open conversation.

import { sessions as api } from './api.js';
import { client } from './connection.js';
import { complain, newID } from './dom.js';
import { use } from './lazy.js';
import { box, keepText, toInput } from './messagebox.js';
import { reply } from './replying.js';
import { discard, retry, send } from './sending.js';
import { waitingMessages } from './store.js';
import { state } from './state.js';
import { apply, markSeen, paint, readonly } from './view.js';

const [confirmed, showCall] = ['confirmed', 'showCall'].map(use);

/** Asks the server for something in the open conversation, or another one; what went wrong is said. */
export async function command(what, type, data, session = state.view.session) {
  try {
    await client.command(type, session, data);
    return true;
  } catch (err) {
    complain(what, err);
    return false;
  }
}

/** The actions of the rows, the questions and the waiting messages. */
export const actions = {
  readonly, retry, discard, toInput, keepText,
  show: (key) => state.chat.show(key),
  reply(row) { reply(row); box.focus(); },
  /** The message that an answer is for, if all of it is known here. */
  asked(row) {
    const m = state.view.messages.get(row.in_reply_to || row.source);
    return m && !m.excerpt ? m : null;
  },
  again(row) { send(actions.asked(row).text, { attachments: actions.asked(row).attachments, in_reply_to: row.in_reply_to || row.source }); },
  answer: (question, text) => command('The answer was not taken.', 'answer', { client_msg_id: newID(), question, text }),
  edit: (message, text) => command('The message was not changed.', 'edit', { message, text }),
  withdraw: (message) => command('The message was not withdrawn.', 'withdraw', { message }),
  moveUp(message) {
    const ids = waitingMessages(state.view).map((m) => m.message);
    const i = ids.indexOf(message);
    return i > 0 && command('The message was not moved.', 'move', { message, before: ids[i - 1] });
  },
  async dropWaiting() {
    const { session, title } = state.view; // while it is asked, another one may be opened
    if (await confirmed(session, `Stop the work in “${title || 'Untitled conversation'}”, and throw away the messages that wait? They are not answered then.`, 'Stop and throw away')) command('Nothing was stopped.', 'cancel', { waiting: 'drop' }, session);
  },
  openSession: (id) => { location.hash = `#/s/${encodeURIComponent(id)}`; },
  async showCall(call) {
    const { session } = state.view;
    try {
      const c = await api.call(session, call);
      if (state.view?.session === session && !document.querySelector('dialog')) showCall(session, c, call); // it may be pressed twice
    } catch (err) { complain('The call could not be loaded.', err); }
  },
  atEnd: (end) => { if (end) markSeen(); },
  async loadOlder() {
    const v = state.view;
    const since = Math.max(0, v.first - 201);
    try {
      const page = await api.events(v.session, since, Math.min(200, v.first - 1 - since));
      if (state.view?.session === v.session) {
        apply({ type: '@older', session: v.session, frames: page.items || [], from: since + 1 });
        paint();
      }
      return true;
    } catch (err) {
      complain('Earlier messages could not be loaded.', err);
      return false;
    }
  },
};
