// What is there before the first message, and where a conversation is gone.

import { h } from './dom.js';
import { send } from './sending.js';
import { $ } from './state.js';
import { fresh, onPaint } from './view.js';

const EXAMPLES = [
  ['Two things at once', 'Fix the login bug', 'Delegated to a developer; ask something else meanwhile.'],
  ['A question on the side', 'Set up auth', 'Asks which provider; other messages go on meanwhile.'],
  ['A simple tool call', 'What is 17 * 23?', 'Answered with the calculator.'],
];

onPaint((view) => {
  if (view?.gone) $('empty').replaceChildren(h('p', { class: 'empty-note' }, view.gone), h('a', { class: 'primary', href: '#/' }, 'New conversation'));
  else if (fresh(view)) draw();
});

function draw() {
  if ($('empty').querySelector('.examples')) return;
  $('empty').replaceChildren(
    h('h2', {}, 'What can I do for you?'),
    h('p', { class: 'hint' }, 'Write at any time, also while something is being worked on. Each message gets its own answer.'),
    h('ul', { class: 'examples' }, EXAMPLES.map(([name, text, why]) => h('li', {}, h('button', { type: 'button', class: 'example', onclick: () => send(text) },
      h('span', { class: 'example-name' }, name), h('span', { class: 'example-text' }, text), h('span', { class: 'example-why' }, why))))));
}
