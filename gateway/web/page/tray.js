// The waiting messages above the message box: edit, move, withdraw.

import { composer } from './composer.js';
import { h, icon, iconButton, toast } from './dom.js';
import { namesOf } from './files.js';
import { excerpt } from './store.js';

/**
 * One of them. Its element has patch(m), which gives false where it has to be made anew,
 * and leave(text, why), for when it goes away: what somebody was changing in it, if that is
 * not its text by now, is kept, and it is said why.
 */
export function waitingItem(m, actions, readonly) {
  const words = h('span', {}, excerpt(m.text, 140));
  const files = namesOf(m.attachments);
  const text = h('span', { class: 'tray-text' }, words, files ? h('span', { class: 'tray-files' }, icon('clip'), h('bdi', {}, files)) : null);
  const tools = h('span', { class: 'tray-tools' });
  const el = h('li', { 'data-message': m.message }, text, tools);
  el.patch = () => false;
  el.leave = () => {};
  if (readonly) return el;
  const up = iconButton('up', 'Move up', () => actions.moveUp(m.message), 'small');
  const edit = iconButton('edit', 'Edit this message', () => open(), 'small');
  tools.append(up, edit, iconButton('x', 'Withdraw this message', () => actions.withdraw(m.message), 'small'));
  draw();

  function draw() {
    words.textContent = excerpt(m.text, 140);
    up.hidden = !m.above;
    // Of a message that came before this page was opened only the beginning is known.
    edit.disabled = !!m.excerpt;
  }

  function open() {
    let was = m.text; // what the change began with
    const elsewhere = h('p', { class: 'hint', role: 'status', hidden: true });
    const c = composer({
      label: 'Edit the message', placeholder: 'Text', value: was, compact: true, sendLabel: 'Save', onEscape: close,
      submit: async (t) => {
        // Who has typed nothing does not take back what another one has changed meanwhile.
        if (t === was.trim() || await actions.edit(m.message, t)) close(t);
        return false; // what was refused stays in the box
      },
    });
    function close(saved) {
      if (!el.editing) return;
      el.editing = null;
      if (saved && saved !== was.trim()) m = { ...m, text: saved };
      draw();
      el.replaceChildren(text, tools);
      edit.focus();
    }
    el.editing = {
      changed() {
        if (m.text === was) return;
        if (c.value === was) c.value = m.text;
        else {
          elsewhere.textContent = `Changed elsewhere meanwhile: “${excerpt(m.text, 140)}”. Save replaces that.`;
          elsewhere.hidden = c.value.trim() === m.text.trim();
        }
        was = m.text;
      },
      left: (now) => (c.value.trim() === now.trim() || c.value.trim() === was.trim() ? '' : c.value),
    };
    el.replaceChildren(c.element, iconButton('x', 'Keep it as it was', () => close(), 'small'), elsewhere);
    c.focus();
  }

  el.patch = (next) => {
    if (!el.editing) return false;
    m = next;
    draw();
    el.editing.changed();
    return true;
  };
  el.leave = (now, why) => {
    const left = el.editing?.left(now);
    const inside = el.contains(document.activeElement);
    el.editing = null;
    if (!left) return;
    actions.keepText(left);
    if (inside) actions.toInput();
    toast(`${why} What you wrote is in the message box.`, { ms: 8000 });
  };
  return el;
}
