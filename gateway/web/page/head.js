// The line above the conversation: its title, what it is, and what can be done
// with it as a whole.

import { command } from './actions.js';
import { sessions as api } from './api.js';
import { client } from './connection.js';
import { confirmed } from './dialogs.js';
import { complain, h, icon, iconButton } from './dom.js';
import { save } from './export.js';
import { list, onList, refreshList } from './list.js';
import { erased } from './memory.js';
import { $, state } from './state.js';
import { onPaint } from './view.js';

let title = '';
function draw() {
  const { view, hello } = state;
  // Until the conversation itself is here, the list knows its title.
  const name = !view || !view.session ? 'New conversation' : view.gone ? 'No longer here' : view.title || list.entries.find((e) => e.id === view.session)?.title || 'Untitled conversation';
  if (!renaming && $('title').textContent !== name) $('title').textContent = name;
  const sub = [];
  if (view?.session.includes('/')) sub.push(`Delegated to ${view.agent || 'an agent'}, read only`);
  else if (view?.agent) sub.push(...who(view.agent));
  if (view?.closed) sub.push('closed');
  if (view?.access === 'tenant') sub.push('shared with everyone of the tenant');
  if (view?.owner && hello && view.owner !== hello.user) sub.push(`owned by ${view.owner}`);
  const parent = view?.session.includes('/') ? view.session.slice(0, view.session.lastIndexOf('/')) : '';
  $('parent').hidden = !parent;
  if (parent) $('parent').href = `#/s/${encodeURIComponent(parent)}`;
  $('subtitle').textContent = sub.join(' · ');
  $('head-tools').hidden = !view?.session || !!view.gone || view.session.includes('/');
  const count = list.entries.reduce((n, e) => n + (e.awaiting > 0 ? 1 : 0), 0);
  const t = `${count ? `(${count}) ` : ''}${state.tasks.visible ? 'Tasks' : name} · parley`;
  if (t !== title) document.title = title = t;
}
onPaint(draw);
onList(draw);

// The agent and what it runs on; that the scripted model is one, the badge says.
function who(agent) {
  const model = (state.hello?.agents || []).find((a) => a.name === agent)?.model || '';
  return !model || model === 'scripted' || model === agent ? [agent] : [agent, model];
}


let renaming = false;
/** Another conversation is opened: a title that is being typed is given up. */
export function endRename() { renaming = false; }

export function rename() {
  if (renaming || !state.view?.session) return;
  renaming = true;
  const { session } = state.view;
  const input = h('input', { class: 'rename', 'aria-label': 'Title', maxlength: '200', value: state.view.title });
  const done = async (save) => {
    if (!renaming) return;
    renaming = false;
    const value = input.value.trim();
    $('title').textContent = '';
    draw();
    if (!save || value === state.view?.title) return;
    try { await api.patch(session, { title: value }); refreshList(); } catch (err) { complain('The title was not changed.', err); }
  };
  input.addEventListener('keydown', (e) => {
    if (e.isComposing) return;
    if (e.key === 'Enter') done(true);
    if (e.key === 'Escape') { e.stopPropagation(); done(false); }
  });
  input.addEventListener('blur', () => done(true));
  $('title').replaceChildren(input);
  input.select();
}

async function clear() {
  if (await confirmed('From here on the agent sees nothing of what is above. The conversation itself stays.', 'Clear')) command('It was not cleared.', 'clear', {});
}

async function remove() {
  const { session } = state.view;
  if (!(await confirmed('Delete this conversation with everything in it? This cannot be undone.', 'Delete'))) return;
  try {
    client.unfollow(session);
    await api.remove(session);
    erased(session);
    if (state.view?.session === session) location.hash = '#/';
    refreshList();
  } catch (err) {
    client.follow(session);
    complain('It was not deleted.', err);
  }
}

$('parent').append(icon('back'));
$('head-tools').append(
  iconButton('edit', 'Rename', rename),
  iconButton('save', 'Export this conversation', save),
  iconButton('clear', 'Clear: the agent forgets what is above', clear),
  iconButton('trash', 'Delete this conversation', remove));
