// What can be done with one message: copy it, ask it again, reply to it.

import { h, iconButton, toast } from './dom.js';

/**
 * The buttons of a row: an element with offer({again, reply}), which of them make sense
 * for it now. row() gives the row as it is shown. actions: again(row), reply(row).
 */
export function toolsOf(row, actions) {
  const copy = iconButton('copy', 'Copy this message', () => clip(row().text), 'small');
  const again = iconButton('again', 'Ask this again', () => actions.again(row()), 'small');
  const reply = iconButton('reply', 'Reply to this message', () => actions.reply(row()), 'small');
  const el = h('span', { class: 'tools' }, copy, again, reply);
  el.offer = (can) => { again.hidden = !can.again; reply.hidden = !can.reply; };
  return el;
}

async function clip(text) {
  if (await copied(text)) toast('Copied.', { ms: 1500 });
  else toast('The browser did not let the page copy this.', { tone: 'bad' });
}

/** Puts a text on the clipboard; whether it is there. */
export async function copied(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* without a secure connection there is only the old way */ }
  const at = document.activeElement;
  const box = h('textarea', { class: 'visually-hidden', 'aria-hidden': 'true', tabIndex: -1 });
  document.body.append(box);
  box.value = text;
  box.select();
  const ok = document.execCommand('copy');
  box.remove();
  at?.focus({ preventScroll: true });
  return ok;
}
