// What a person sets for this browser: light or dark.

import { icon } from './dom.js';
import { $, stored } from './state.js';

const THEMES = { '': ['auto', 'Theme: as the system'], light: ['sun', 'Theme: light'], dark: ['moon', 'Theme: dark'] };
function drawTheme() {
  const [name, label] = THEMES[document.documentElement.dataset.theme || ''];
  const b = $('theme');
  b.replaceChildren(icon(name));
  b.title = label;
  b.setAttribute('aria-label', label);
}

/** Goes to the next of: as the system, light, dark. */
export function nextTheme() {
  const order = Object.keys(THEMES);
  const next = order[(order.indexOf(document.documentElement.dataset.theme || '') + 1) % order.length];
  if (next) document.documentElement.dataset.theme = next; else delete document.documentElement.dataset.theme;
  stored('browser', 'parley.theme', next);
  drawTheme();
}
$('theme').addEventListener('click', nextTheme);
drawTheme();
