// The keyboard: what works everywhere, and the sheet that shows it. A key that a
// box of text could want is left to it, and so is everything that an input
// method is composing.

import { COMMAND, COMMANDS, commandKey } from './commands.js';
import { dialog } from './dialogs.js';
import { h } from './dom.js';
import { drawer, drawerOpen } from './drawer.js';
import { menuOpen } from './menu.js';
import { box, cancel, stop } from './messagebox.js';
import { keysOf, openPalette } from './palette.js';
import { $, state } from './state.js';
import { waitingMessages } from './store.js';

const MORE = [
  { name: () => 'Show the keyboard shortcuts', keys: ['?'], icon: 'keys', run: () => openSheet() },
];

const SHEET = [
  ['Everywhere', [
    [[COMMAND, 'K'], 'Search and commands'],
    ...COMMANDS.filter((c) => c.keys && c.keys[0] !== 'Esc').map((c) => [c.keys, c.name()]),
    [['?'], 'This sheet'],
  ]],
  ['In the message box', [
    [['Enter'], 'Send'], [['Shift', 'Enter'], 'A new line'], [['↑'], 'Edit your last waiting message, if the box is empty'], [['Esc'], 'Stop the work, if the box is empty'],
  ]],
  ['In lists and menus', [[['↑', '↓'], 'Go through them'], [['Enter'], 'Open'], [['Esc'], 'Close, or clear the search']]],
];

export function openSheet() {
  if (document.querySelector('dialog[open]')) return;
  dialog({ class: 'sheet', 'aria-labelledby': 'sheet-title' },
    h('h2', { id: 'sheet-title' }, 'Keyboard shortcuts'),
    SHEET.map(([name, rows]) => [h('h3', {}, name), h('dl', { class: 'shortcuts' }, rows.map(([keys, what]) => h('div', {}, h('dt', {}, keysOf(keys)), h('dd', {}, what))))]).flat(),
    h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'plain-button', autofocus: true }, 'Close')));
}

const editable = (e) => !!e.closest?.('input, textarea, select, [contenteditable]');

// The last message of this user that waits and can be edited.
function editWaiting() {
  const last = state.view && waitingMessages(state.view).findLast((m) => m.author === state.view.me && !m.excerpt);
  const button = last && $('tray').querySelector(`[data-message="${CSS.escape(last.message)}"] [aria-label="Edit this message"]`);
  button?.click();
  return !!button;
}

document.addEventListener('keydown', (e) => {
  if (e.isComposing || e.keyCode === 229 || e.defaultPrevented) return;
  const key = e.key.toLowerCase();
  if (commandKey(e) && !e.altKey && !e.shiftKey && key === 'k') { e.preventDefault(); openPalette(MORE); return; }
  if (document.querySelector('dialog[open]') || menuOpen()) return;
  if (commandKey(e) && !e.altKey && e.shiftKey && key === 'o') { e.preventDefault(); COMMANDS[0].run(); return; }
  if (e.key === 'Escape') {
    if (drawerOpen()) drawer(false);
    else if (e.target === box.input && !box.value && !stop.hidden && !stop.disabled) cancel();
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === box.input && e.key === 'ArrowUp' && !e.shiftKey && !box.value && editWaiting()) { e.preventDefault(); return; }
  if (editable(e.target)) return;
  if (e.key === '/') { e.preventDefault(); COMMANDS[1].run(); }
  if (e.key === '?') { e.preventDefault(); openSheet(); }
});
