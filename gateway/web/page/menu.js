// A menu that a button opens: arrow keys, first letters, Escape, and a tap
// elsewhere closes it.

import { h, icon } from './dom.js';

let close = () => {};

/** Makes a button open a menu; items() gives [{label, icon, hint, checked, danger, run}] each time. */
export function menuButton(button, label, items) {
  button.setAttribute('aria-haspopup', 'menu');
  button.setAttribute('aria-expanded', 'false');
  const open = (last) => show(button, label, items(), last);
  button.addEventListener('click', (e) => { e.preventDefault(); if (button.getAttribute('aria-expanded') === 'true') close(); else open(false); });
  button.addEventListener('keydown', (e) => {
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
    e.preventDefault();
    open(e.key === 'ArrowUp');
  });
}

export const menuOpen = () => !!document.querySelector('.menu');

function show(button, label, items, last) {
  close();
  const choice = items.some((i) => i.checked !== undefined);
  const buttons = items.map((i) => h('button', {
    type: 'button', class: `menu-item${i.danger ? ' danger-item' : ''}`, role: choice ? 'menuitemradio' : 'menuitem', tabIndex: -1,
    'aria-checked': choice ? String(!!i.checked) : null, onclick: () => { close(); i.run(); },
  }, i.icon ? icon(i.icon) : null, h('span', { class: 'menu-text' }, h('span', {}, i.label), i.hint ? h('span', { class: 'menu-hint' }, i.hint) : null)));
  const menu = h('div', { class: 'menu', role: 'menu', 'aria-label': label }, buttons);
  const outside = (e) => { if (!menu.contains(e.target) && !button.contains(e.target)) close(); };
  const away = () => close();
  close = () => {
    close = () => {};
    const inside = menu.contains(document.activeElement);
    menu.remove();
    button.setAttribute('aria-expanded', 'false');
    removeEventListener('pointerdown', outside, true);
    removeEventListener('resize', away);
    if (inside && button.isConnected) button.focus();
  };
  menu.addEventListener('keydown', (e) => {
    const i = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: -1 }[e.key];
    if (to !== undefined) buttons.at(to % buttons.length).focus();
    else if (e.key === 'Escape') close();
    else if (e.key === 'Tab') { close(); return; }
    else if (e.key.length === 1 && e.key !== ' ' && !e.ctrlKey && !e.metaKey && !e.altKey) {
      [...buttons.slice(i + 1), ...buttons.slice(0, i + 1)].find((b) => b.textContent.toLowerCase().startsWith(e.key.toLowerCase()))?.focus();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  });
  // Behind the button in the document, so that Tab goes on from there; a menu that
  // would stand out of the screen opens upwards.
  (button.closest('li, .composer, .side-foot, header') || document.body).append(menu);
  const at = button.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  menu.style.top = `${Math.max(8, at.bottom + size.height + 12 > innerHeight ? at.top - size.height - 4 : at.bottom + 4)}px`;
  menu.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
  button.setAttribute('aria-expanded', 'true');
  addEventListener('pointerdown', outside, true);
  addEventListener('resize', away);
  (buttons.find((b) => b.getAttribute('aria-checked') === 'true') || buttons.at(last ? -1 : 0)).focus();
}
