// What is there before the first message, and where a conversation is gone.

import { agents, called, chosen } from './choices.js';
import { h, icon } from './dom.js';
import { use } from './lazy.js';
import { send } from './sending.js';
import { $, state } from './state.js';
import { fresh, onPaint } from './view.js';

// What the scripted model is good for; they are no promise of another one.
const DEMO = [
  ['Two things at once', 'Fix the login bug', 'Delegated to a developer; ask something else meanwhile.'],
  ['A question on the side', 'Set up auth', 'Asks which provider; other messages go on meanwhile.'],
  ['A simple tool call', 'What is 17 * 23?', 'Answered with the calculator.'],
];

onPaint((view) => {
  if (view?.gone) $('empty').replaceChildren(h('p', { class: 'empty-note' }, view.gone), h('a', { class: 'primary', href: '#/' }, 'New conversation'));
  else if (fresh(view)) draw(starters());
});

// [name, text, why] of each; only the scripted model's have a name and a reason.
function starters() {
  const { hello } = state;
  if (!hello) return [];
  if (hello.starters?.length) return hello.starters.map((text) => ['', text, '']);
  return hello.model === 'scripted' ? DEMO : [];
}

function draw(list) {
  const line = chooserLine();
  const of = `${line ? 'who' : ''}\n${list.map(([, text]) => text).join('\n')}`;
  if ($('empty').dataset.of === of && $('empty').querySelector('h2')) return;
  $('empty').dataset.of = of;
  $('empty').replaceChildren(
    h('h2', {}, 'What can I do for you?'),
    h('p', { class: 'hint' }, 'Write at any time, also while something is being worked on. Each message gets its own answer.'),
    line,
    h('ul', { class: 'examples', hidden: list.length === 0 }, list.map(([name, text, why]) => h('li', {}, h('button', { type: 'button', class: 'example', onclick: () => send(text) },
      name ? h('span', { class: 'example-name' }, name) : null, h('span', { class: 'example-text' }, text), why ? h('span', { class: 'example-why' }, why) : null)))));
}

const name = h('span');
const openPanel = use('openPanel');
const chooser = h('button', { type: 'button', class: 'chooser', 'aria-haspopup': 'dialog', title: 'Settings of the new conversation', onclick: () => openPanel() }, name, icon('down'));

// The line that says who will answer, and opens the panel; null where there is no choice.
function chooserLine() {
  if (agents().length < 2) return null;
  const text = `Answered by ${called(chosen().agent || agents()[0].name).join(' · ')}`;
  if (name.textContent !== text) name.textContent = text;
  return chooser;
}
