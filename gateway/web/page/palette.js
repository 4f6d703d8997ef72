// The palette (Ctrl+K): commands, conversations and messages by what is typed.
// The cursor stays in the box; the chosen row is said to be active.

import { sessions as api } from './api.js';
import { COMMANDS } from './commands.js';
import { h, icon } from './dom.js';
import { Finder, outcomeOf } from './finder.js';
import { marked, resultsOf } from './found.js';
import { onGone } from './gone.js';
import { entries } from './list.js';
import { stampOf } from './listing.js';
import { $, state } from './state.js';
import { marksOf, matches } from './words.js';

const RECENT = 6;
let palette = null;
let finder = null; // of the palette that is open
onGone((session) => finder?.forget(session));

/** Opens it, or closes it; typed are keys that were pressed while it was on its way. */
export function openPalette(typed = []) {
  if (palette) { palette.close(); return; }
  if (document.querySelector('dialog[open]')) return;
  const input = h('input', {
    type: 'text', class: 'palette-input', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-autocomplete': 'list',
    'aria-label': 'Search or command', placeholder: 'Search, or type a command', autocomplete: 'off', spellcheck: 'false',
  });
  const listbox = h('div', { class: 'palette-list', role: 'listbox', id: 'palette-list', 'aria-label': 'Results' });
  const status = h('p', { class: 'hint palette-state', role: 'status' });
  palette = h('dialog', { class: 'dialog palette', 'aria-label': 'Commands and search' }, input, listbox, status);
  finder = new Finder({ titles: api.titled, messages: api.said, show: draw });
  let options = [];
  let active = 0;

  function all(found) {
    const query = input.value.trim();
    const commands = COMMANDS.filter((c) => (!c.when || c.when()) && matches(c.name(), query))
      .map((c) => ({ key: `c:${c.name()}`, section: 'Commands', run: c.run, icon: c.icon, body: [h('span', { class: 'palette-name' }, marked(c.name(), marksOf(c.name(), query))), keysOf(c.keys)] }));
    const go = (href) => () => { location.hash = href; };
    if (query) return [...commands, ...resultsOf(found).map((r) => ({ ...r, run: go(r.href) }))];
    const here = $('conversation').hidden ? '' : state.view?.session; // nobody has to go there
    const recent = [...entries.values()].filter((e) => !e.archived && e.id !== here).sort((a, b) => (a.activity < b.activity ? 1 : -1)).slice(0, RECENT)
      .map((e) => ({ key: `t:${e.id}`, section: 'Recent conversations', run: go(`#/s/${encodeURIComponent(e.id)}`), body: [h('span', { class: 'session-title' }, e.title || 'Untitled conversation'), h('span', { class: 'session-meta' }, stampOf(e.activity))] }));
    return [...recent, ...commands];
  }

  function draw(found) {
    const was = options[active]?.key;
    options = all(found);
    // New results must not move what was chosen; a new question begins at its top.
    active = Math.max(0, options.findIndex((o) => o.key === was && active > 0));
    const groups = new Map();
    options.forEach((o, i) => {
      if (!groups.has(o.section)) groups.set(o.section, []);
      groups.get(o.section).push(h('div', {
        class: 'option', role: 'option', id: `option-${i}`, 'aria-selected': 'false', onclick: () => choose(i), onpointermove: () => { if (active !== i) mark(i, false); },
      }, o.icon ? icon(o.icon) : null, h('span', { class: 'option-text' }, o.body)));
    });
    listbox.replaceChildren(...[...groups].map(([name, items], i) => h('div', { role: 'group', 'aria-labelledby': `group-${i}` }, h('div', { class: 'day', id: `group-${i}`, role: 'presentation' }, name), items)));
    listbox.hidden = !options.length;
    input.setAttribute('aria-expanded', String(options.length > 0));
    status.textContent = outcomeOf(found);
    status.hidden = !status.textContent;
    mark(active, false);
  }

  function mark(i, scroll = true) {
    active = i;
    for (const e of listbox.querySelectorAll('[aria-selected="true"]')) e.setAttribute('aria-selected', 'false');
    const e = listbox.querySelector(`#option-${i}`);
    if (!e) { input.removeAttribute('aria-activedescendant'); return; }
    e.setAttribute('aria-selected', 'true');
    input.setAttribute('aria-activedescendant', e.id);
    if (scroll) e.scrollIntoView({ block: 'nearest' });
  }

  function choose(i) {
    const o = options[i];
    if (!o) return;
    palette.close();
    o.run();
  }

  input.addEventListener('input', () => { active = 0; options = []; finder.ask(input.value); draw(finder.found); });
  input.addEventListener('keydown', (e) => {
    if (e.isComposing || e.keyCode === 229) return;
    const n = options.length;
    if (e.key === 'ArrowDown' && n) mark((active + 1) % n);
    else if (e.key === 'ArrowUp' && n) mark((active + n - 1) % n);
    else if (e.key === 'PageDown' && n) mark(Math.min(n - 1, active + 8));
    else if (e.key === 'PageUp' && n) mark(Math.max(0, active - 8));
    else if (e.key === 'Enter') choose(active);
    else return;
    e.preventDefault();
  });
  const element = palette;
  const away = () => element.close(); // another place is opened
  addEventListener('hashchange', away);
  element.addEventListener('close', () => { removeEventListener('hashchange', away); finder.ask(''); element.remove(); palette = finder = null; });
  element.addEventListener('click', (e) => { if (e.target === element) element.close(); }); // beside it
  document.body.append(element);
  element.showModal();
  draw(finder.found);
  for (const key of typed) type(input, key);
}

// A key that was pressed before the box was there.
function type(input, key) {
  if ([...key].length === 1) input.value += key;
  else if (key === 'Backspace') input.value = [...input.value].slice(0, -1).join('');
  else { input.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })); return; }
  input.dispatchEvent(new Event('input', { bubbles: true }));
}

/** Keys as they stand on a keyboard. */
export function keysOf(keys) {
  return keys ? h('span', { class: 'keys key-row' }, keys.map((k) => h('kbd', {}, k))) : null;
}
