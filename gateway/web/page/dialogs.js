// The dialogs: they ask, and give the answer to whoever opened them.

import { h } from './dom.js';
import { pretty } from './exact.js';
import { onGone } from './gone.js';

/**
 * Opens a dialog and closes it for good; its returnValue says how it ended. It closes, too,
 * when another place of the page is opened (Back), unless it stays, and, if data-session
 * says what it shows or asks about, when that is erased.
 */
export function dialog({ stays = false, ...props }, ...content) {
  const element = h('dialog', { ...props, class: `dialog ${props.class || ''}`.trim() }, h('form', { method: 'dialog' }, ...content));
  const away = () => element.close();
  const closed = new Promise((resolve) => {
    element.addEventListener('close', () => {
      removeEventListener('hashchange', away);
      element.remove();
      resolve(element.returnValue);
    });
  });
  if (!stays) addEventListener('hashchange', away);
  document.body.append(element);
  element.showModal();
  return { element, closed };
}

onGone((session) => {
  for (const e of document.querySelectorAll('dialog[data-session]')) if (`${e.dataset.session}/`.startsWith(`${session}/`)) e.close();
});

/** Asks for an access key. refused says why the last one was not taken; it is null at the first time. */
export async function askKey(refused) {
  const input = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const { element, closed } = dialog({ 'aria-labelledby': 'sign-in-title', stays: true },
    h('h2', { id: 'sign-in-title' }, 'Sign in'),
    h('p', {}, refused === null ? 'This server asks for an access key or token.' : `That did not work: ${refused || 'the key was refused'}.`),
    h('label', { for: 'token' }, 'Access key'), input,
    h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'primary' }, 'Sign in')));
  element.addEventListener('cancel', (e) => e.preventDefault());
  await closed;
  return input.value.trim();
}

/** Asks before something that cannot be undone in a session; true if action was chosen. */
export async function confirmed(session, text, action) {
  const { closed } = dialog({ 'aria-label': action, 'data-session': session }, h('p', {}, text),
    h('div', { class: 'dialog-actions' },
      h('button', { type: 'submit', class: 'plain-button', value: '' }, 'Keep'),
      h('button', { type: 'submit', class: 'danger', value: 'yes' }, action)));
  return await closed === 'yes';
}

/** Shows what a tool was given and what it gave back. */
export function showCall(session, call, id) {
  dialog({ class: 'wide', 'aria-label': call.tool || 'Tool call', 'data-session': session },
    h('h2', {}, call.tool || id),
    h('h3', {}, 'Arguments'), h('pre', { tabIndex: 0 }, text(call.args)),
    h('h3', {}, 'Result'), h('pre', { tabIndex: 0 }, text(call.result ?? call.summary)),
    h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'plain-button' }, 'Close')));
}

function text(x) {
  if (x && typeof x === 'object') return x.redacted ? '(hidden)' : pretty(x);
  return String(x ?? '');
}
