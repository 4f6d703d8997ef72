// What the next message replies to: a line above the message box, until it is sent.

import { h, iconButton, toast } from './dom.js';
import { wordsOf } from './files.js';
import { excerpt } from './store.js';
import { $, state } from './state.js';
import { onPaint } from './view.js';

let to = null;    // {session, message, text, key}
const words = h('button', { type: 'button', class: 'quote', onclick: () => state.chat.show(to.key) });
const line = h('div', { class: 'replying', hidden: true }, words, iconButton('x', 'Do not reply to this message', () => reply(null), 'small'));
$('composer-slot').before(line);

/** The next message of this conversation replies to a row; null = to nothing. */
export function reply(row) {
  to = row && { session: state.view.session, message: row.message, text: wordsOf(row.text, row.attachments), key: row.key };
  draw(state.view);
}

/** The message that the next one replies to; '' = to nothing. */
export function replyingTo() { return to && to.session === state.view?.session ? to.message : ''; }

function draw(view) {
  if (to && to.session === view?.session && view.messages.get(to.message)?.state === 'withdrawn') {
    to = null;
    toast('The message that you were replying to was withdrawn.');
  }
  const here = to && to.session === view?.session && !view.gone;
  line.hidden = !here;
  if (here) words.replaceChildren(h('span', {}, 'In reply to: ', h('bdi', {}, excerpt(to.text, 80))));
}
onPaint(draw);
