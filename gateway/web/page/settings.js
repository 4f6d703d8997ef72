// What a person sets for this browser: light or dark, and whether it calls.

import { icon, toast } from './dom.js';
import { $, stored } from './state.js';

const THEMES = { '': ['auto', 'Theme: as the system'], light: ['sun', 'Theme: light'], dark: ['moon', 'Theme: dark'] };

function label(button, name, text) {
  button.replaceChildren(icon(name));
  button.title = text;
  button.setAttribute('aria-label', text);
}
function drawTheme() { label($('theme'), ...THEMES[document.documentElement.dataset.theme || '']); }

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

const able = 'Notification' in globalThis;
/** Whether this browser shall call when a conversation waits or is finished. */
export const calls = () => able && Notification.permission === 'granted' && stored('browser', 'parley.notify') === 'on';

function drawCalls() {
  label($('notify'), calls() ? 'bell' : 'bellOff', 'Notify me when a conversation waits for me or is finished');
  $('notify').setAttribute('aria-pressed', String(calls()));
}

/** Turns notifications on or off. Only this asks the browser for the permission. */
export async function setCalls(on) {
  if (on && !able) { toast('This browser has no notifications for pages.', { tone: 'bad' }); return; }
  if (on && Notification.permission !== 'granted' && await Notification.requestPermission() !== 'granted') {
    toast('The browser does not allow notifications for this page. You can change that in its settings for this site.', { tone: 'bad' });
    return;
  }
  stored('browser', 'parley.notify', on ? 'on' : '');
  drawCalls();
  toast(on ? 'You are told when a conversation waits for you or is finished.' : 'Notifications are off.');
}
$('notify').addEventListener('click', () => setCalls(!calls()));
addEventListener('storage', drawCalls); // another tab
drawCalls();
