// The bar above the message box while questions wait that are not on the screen:
// what is asked, its choices, and the way to its card.

import { actions } from './actions.js';
import { h, icon } from './dom.js';
import { excerpt, openQuestions } from './store.js';
import { $, state } from './state.js';
import { onPaint, readonly } from './view.js';

const MOST_CHOICES = 4;
const ROOM = 120; // characters of them
const text = h('span', { class: 'ask-text' });
const choices = h('span', { class: 'ask-choices' });
const go = h('button', { type: 'button', class: 'link-button ask-go' }, 'Show', icon('up'));
const bar = h('div', { class: 'ask-bar', role: 'group', 'aria-label': 'Waiting for your answer', hidden: true }, text, choices, go);
$('tray').before(bar);

let shown = '';
function draw(view) {
  const open = view && !readonly() && view.synced ? openQuestions(view) : [];
  const hidden = open.filter((q) => !onScreen(q.key));
  const q = hidden.at(-1);
  // Who works by keyboard in it goes on in the message box.
  if (!q && bar.contains(document.activeElement)) actions.toInput();
  bar.hidden = !q;
  if (!q) { shown = ''; return; }
  const sign = `${q.key}|${open.length}|${q.text}`;
  if (sign === shown) return;
  shown = sign;
  const what = q.approval ? 'approval' : 'question';
  text.replaceChildren(
    h('strong', {}, open.length > 1 ? `${open.length} questions wait` : `1 ${what} waits`), ': ', h('bdi', {}, excerpt(q.text, 140)));
  // What an approval is about has to be seen first.
  const few = q.approval ? [] : fitting(q.choices);
  const more = q.approval ? 0 : q.choices.length - few.length;
  go.firstChild.data = few.length && more ? `${more} more` : 'Show';
  let busy = false;
  choices.replaceChildren(...few.map((c) => h('button', {
    type: 'button', class: 'choice', onclick: async () => {
      if (busy) return;
      busy = true;
      busy = await actions.answer(q.question, c);
    },
  }, c)));
  go.setAttribute('aria-label', `${few.length && more ? `${more} more: show` : 'Show'} the ${what}: ${excerpt(q.text, 60)}`);
  go.onclick = () => { actions.show(q.key); focusCard(q.question); };
}

// As many as there is room for; the card has the others.
function fitting(choices) {
  let room = ROOM;
  return choices.slice(0, choices.length > MOST_CHOICES ? MOST_CHOICES - 1 : MOST_CHOICES).filter((c) => (room -= c.length + 4) >= 0);
}

// The first thing in the card that can be pressed or filled in.
function focusCard(question) {
  const card = $('log').querySelector(`[data-question="${CSS.escape(question)}"]`);
  card?.querySelector('.question-foot button, .question-foot textarea')?.focus({ preventScroll: true });
}

function onScreen(key) {
  const el = state.chat.rows.get(key)?.el;
  if (!el) return false;
  const card = el.getBoundingClientRect();
  const view = state.chat.scroller.getBoundingClientRect();
  return card.bottom > view.top + 40 && card.top < view.bottom - 40;
}

onPaint(draw);
let waiting = 0;
$('scroller').addEventListener('scroll', () => {
  if (waiting) return;
  waiting = requestAnimationFrame(() => { waiting = 0; draw(state.view); });
}, { passive: true });
