// The list of conversations as a drawer, where the screen is too narrow for both.

import { icon } from './dom.js';
import { $ } from './state.js';

let opener;
export function drawer(open, from) {
  const side = $('sidebar');
  if (side.classList.contains('open') === open) return;
  side.classList.toggle('open', open);
  $('shade').hidden = !open;
  for (const b of document.querySelectorAll('.menu-button')) b.setAttribute('aria-expanded', String(open));
  if (open) { opener = from; $('new').focus(); } else opener?.focus();
}
export const drawerOpen = () => $('sidebar').classList.contains('open');

const menu = document.querySelector('.menu-button');
menu.append(icon('menu'));
menu.addEventListener('click', () => drawer(true, menu));
$('shade').addEventListener('click', () => drawer(false));
