// The keyboard: what works everywhere. A key that a box of text could want is left
// to it, and so is everything that an input method is composing.

import { drawer, drawerOpen } from './drawer.js';
import { later, use } from './lazy.js';
import { menuOpen } from './menu.js';
import { box, cancel, stop } from './messagebox.js';
import { $, state } from './state.js';
import { waitingMessages } from './store.js';

const mac = /Mac|iPhone|iPad/.test(navigator.platform);
/** The key that commands go with on this system. */
export const COMMAND = mac ? '⌘' : 'Ctrl';
const commandKey = (e) => (mac ? e.metaKey && !e.ctrlKey : e.ctrlKey && !e.metaKey);

export const newConversation = () => $('new').click();

export function toSearch() {
  if (!$('sidebar').checkVisibility({ visibilityProperty: true })) drawer(true, document.querySelector('.menu-button'));
  $('search').focus();
  $('search').select();
}

const openSheet = use('openSheet');
const openPalette = use('openPalette');

// What is typed before the palette is there, is typed in it then.
let holding = null;
async function palette() {
  if (holding) return;
  const typed = holding = [];
  const hold = (e) => {
    if (e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    typed.push(e.key);
  };
  const nothing = (e) => e.preventDefault();
  addEventListener('keydown', hold, true);
  addEventListener('keypress', nothing, true); // of some keyboards it comes by itself
  await later().catch(() => {}); // openPalette says it
  removeEventListener('keydown', hold, true);
  removeEventListener('keypress', nothing, true);
  holding = null;
  if (!typed.includes('Escape')) await openPalette(typed);
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
  if (commandKey(e) && !e.altKey && !e.shiftKey && key === 'k') { e.preventDefault(); palette(); return; }
  if (document.querySelector('dialog[open]') || menuOpen()) return;
  if (commandKey(e) && !e.altKey && e.shiftKey && key === 'o') { e.preventDefault(); newConversation(); return; }
  if (e.key === 'Escape') {
    if (drawerOpen()) drawer(false);
    else if (e.target === box.input && !box.value && !stop.hidden && !stop.disabled) cancel();
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === box.input && e.key === 'ArrowUp' && !e.shiftKey && !box.value && editWaiting()) { e.preventDefault(); return; }
  if (editable(e.target)) return;
  if (e.key === '/') { e.preventDefault(); toSearch(); }
  if (e.key === '?') { e.preventDefault(); openSheet(); }
});
