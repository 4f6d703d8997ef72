// What somebody was writing in the card of a question that is still open: it is there
// again when its conversation is.

import { onGone } from './gone.js';

const all = new Map(); // conversation and question -> {reply, args}
const keyOf = (session, question) => `${session}/?${question}`;

/** What is written in this card, to be changed in place: {reply, args}. */
export function unfinished(session, question) {
  const key = keyOf(session, question);
  if (!all.has(key)) all.set(key, { reply: '', args: '' });
  return all.get(key);
}

/** The question is answered or closed. */
export function finished(session, question) { all.delete(keyOf(session, question)); }

onGone((session) => { for (const key of [...all.keys()]) if (key.startsWith(`${session}/`)) all.delete(key); });
