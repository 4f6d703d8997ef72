// The sheet of keyboard shortcuts.

import { COMMANDS } from './commands.js';
import { dialog } from './dialogs.js';
import { h } from './dom.js';
import { COMMAND } from './keys.js';
import { keysOf } from './palette.js';

const SHEET = [
  ['Everywhere', [
    [[COMMAND, 'K'], 'Search and commands'],
    ...COMMANDS.filter((c) => c.keys && !['Esc', '?'].includes(c.keys[0])).map((c) => [c.keys, c.name()]),
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
