// The line above the conversation: its title, what it is, and what can be done
// with it as a whole.

import { command } from './actions.js';
import { called } from './choices.js';
import { icon, iconButton } from './dom.js';
import { use } from './lazy.js';
import { entries, entryFor, onList, titleInput } from './list.js';
import { waiting } from './listing.js';
import { $, state } from './state.js';
import { onPaint } from './view.js';

const [confirmed, openPanel, remove, retitle, save] = ['confirmed', 'openPanel', 'remove', 'retitle', 'save'].map(use);

let title = '';
function draw() {
  const { view, hello } = state;
  // Until the conversation itself is here, the list knows its title.
  const name = !view || !view.session ? 'New conversation' : view.gone ? 'No longer here' : view.title || entryFor(view.session)?.title || 'Untitled conversation';
  if (!renaming && $('title').textContent !== name) $('title').textContent = name;
  const sub = [];
  if (view?.session.includes('/')) sub.push(`Delegated to ${view.agent || 'an agent'}, read only`);
  else if (view?.agent) sub.push(...called(view.agent));
  if (view?.closed) sub.push('closed');
  if (view?.access === 'tenant') sub.push('shared with everyone of the tenant');
  if (view?.owner && hello && view.owner !== hello.user) sub.push(`owned by ${view.owner}`);
  const parent = view?.session.includes('/') ? view.session.slice(0, view.session.lastIndexOf('/')) : '';
  $('parent').hidden = !parent;
  if (parent) $('parent').href = `#/s/${encodeURIComponent(parent)}`;
  $('subtitle').textContent = sub.join(' · ');
  $('head-tools').hidden = !view?.session || !!view.gone || view.session.includes('/');
  const count = waiting(entries.values());
  const t = `${count ? `(${count}) ` : ''}${state.tasks.visible ? 'Tasks' : name} · parley`;
  if (t !== title) document.title = title = t;
}
onPaint(draw);
onList(draw);

let renaming = false;
/** Another conversation is opened: a title that is being typed is given up. */
export function endRename() { renaming = false; }

export function rename() {
  if (renaming || !state.view?.session || state.view.gone) return;
  renaming = true;
  const { session, title: before } = state.view;
  const from = document.activeElement;
  const input = titleInput(before, (value, typed) => {
    if (!renaming) return;
    renaming = false;
    $('title').textContent = '';
    draw();
    if (typed) (from?.isConnected && from !== document.body ? from : $('message')).focus({ preventScroll: true });
    if (value !== null && value !== before) retitle(session, value);
  });
  $('title').replaceChildren(input);
  input.select();
}

/** Makes the agent forget what was said, after a question. */
export async function clear() {
  const { session, title: name } = state.view; // while it is asked, another one may be opened
  if (await confirmed(session, `Clear “${name || 'Untitled conversation'}”? From here on the agent sees nothing of what is above. The conversation itself stays.`, 'Clear')) command('It was not cleared.', 'clear', {}, session);
}

$('parent').append(icon('back'));
$('head-tools').append(
  iconButton('edit', 'Rename', rename),
  iconButton('settings', 'Settings of this conversation', () => openPanel()),
  iconButton('save', 'Export this conversation', () => save()),
  iconButton('clear', 'Clear: the agent forgets what is above', clear),
  iconButton('trash', 'Delete this conversation', () => remove(state.view.session)));
