// The waiting messages above the message box: edit, move, withdraw.

import { composer } from './composer.js';
import { h, icon, iconButton } from './dom.js';
import { namesOf } from './files.js';
import { excerpt } from './store.js';

export function waitingItem(m, actions, readonly) {
  const words = h('span', {}, excerpt(m.text, 140));
  const files = namesOf(m.attachments);
  const text = h('span', { class: 'tray-text' }, words, files ? h('span', { class: 'tray-files' }, icon('clip'), h('bdi', {}, files)) : null);
  const tools = h('span', { class: 'tray-tools' });
  const el = h('li', { 'data-message': m.message }, text, tools);
  if (readonly) return el;
  const edit = iconButton('edit', 'Edit this message', () => {
    el.editing = true;
    const done = () => { el.editing = false; el.replaceChildren(text, tools); edit.focus(); };
    const c = composer({
      label: 'Edit the message', placeholder: 'Text', value: m.text, compact: true, sendLabel: 'Save', onEscape: done,
      submit: async (t) => { const ok = await actions.edit(m.message, t); if (ok) words.textContent = excerpt(t, 140); done(); return false; },
    });
    el.replaceChildren(c.element, iconButton('x', 'Keep it as it was', done, 'small'));
    c.focus();
  }, 'small');
  // Of a message that came before this page was opened only the beginning is known.
  if (m.excerpt) edit.disabled = true;
  if (m.above) tools.append(iconButton('up', 'Move up', () => actions.moveUp(m.message), 'small'));
  tools.append(
    edit,
    iconButton('x', 'Withdraw this message', () => actions.withdraw(m.message), 'small'));
  return el;
}
