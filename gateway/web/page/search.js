// The search above the list: while something stands in it, what was found stands
// in the list's place. Arrow keys walk through it.

import { sessions as api } from './api.js';
import { h } from './dom.js';
import { Finder, outcomeOf } from './finder.js';
import { resultsOf } from './found.js';
import { onGone } from './gone.js';
import { $ } from './state.js';

const input = $('search');
const finder = new Finder({ titles: api.titled, messages: api.said, show: draw });

onGone((session) => finder.forget(session));

function draw(found) {
  const on = !!found.query;
  $('list').hidden = on;
  $('found').hidden = !on;
  $('found-state').textContent = outcomeOf(found);
  const focused = document.activeElement?.dataset?.found;
  let section = '';
  const out = [];
  for (const r of resultsOf(found)) {
    if (r.section !== section) out.push(h('li', { class: 'day' }, section = r.section));
    out.push(h('li', {}, h('a', { href: r.href, 'data-found': r.key }, r.body)));
  }
  $('found-list').replaceChildren(...out);
  $('found-list').hidden = !out.length;
  $('found-more').hidden = !found.next || found.busy;
  if (focused) $('found-list').querySelector(`[data-found="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

input.addEventListener('input', () => finder.ask(input.value));
$('found-more').addEventListener('click', () => { input.focus(); finder.more(); });

const links = () => [...$('found-list').querySelectorAll('a')];
input.addEventListener('keydown', (e) => {
  if (e.isComposing || e.keyCode === 229) return;
  if (e.key === 'Escape' && input.value) {
    e.stopPropagation();
    input.value = '';
    finder.ask('');
  } else if (e.key === 'ArrowDown') {
    (links()[0] || document.querySelector('#list:not([hidden]) a'))?.focus();
  } else if (e.key === 'Enter' && links().length) links()[0].click();
  else return;
  e.preventDefault();
});

// Up and down through rows, found or listed; up from the first one into the box.
$('rows').addEventListener('keydown', (e) => {
  if (!['ArrowDown', 'ArrowUp', 'Home', 'End'].includes(e.key) || !e.target.matches('a')) return;
  const all = [...$('rows').querySelectorAll('a')].filter((a) => a.checkVisibility());
  const i = all.indexOf(e.target);
  const to = { ArrowDown: all[i + 1], ArrowUp: i > 0 ? all[i - 1] : input, Home: all[0], End: all.at(-1) }[e.key];
  if (to) { e.preventDefault(); to.focus(); }
});

if (input.value) finder.ask(input.value); // typed before this was there
