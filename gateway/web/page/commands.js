// What a person can ask the page for by name or by key, in one table: the
// palette lists it, the sheet of shortcuts shows it.

import { save } from './export.js';
import { clear, rename } from './head.js';
import { COMMAND, newConversation, toSearch } from './keys.js';
import { use } from './lazy.js';
import { entryFor } from './list.js';
import { archive, pin, remove } from './manage.js';
import { box, cancel, stop } from './messagebox.js';
import { openPanel } from './panel.js';
import { calls, nextTheme, setCalls } from './settings.js';
import { $, state } from './state.js';
import { fresh } from './view.js';

const current = () => (!$('conversation').hidden && state.view?.session && !state.view.gone && !state.view.session.includes('/') ? state.view.session : '');
const entry = () => entryFor(current());

/** Every command {name, keys?, when?, run}; name may depend on what is open. */
export const COMMANDS = [
  { name: () => 'New conversation', keys: [COMMAND, 'Shift', 'O'], icon: 'plus', run: newConversation },
  { name: () => 'Search conversations and messages', keys: ['/'], icon: 'search', run: toSearch },
  { name: () => 'Go to tasks', icon: 'tasks', run: () => { location.hash = '#/tasks'; } },
  { name: () => 'Stop the work', keys: ['Esc'], icon: 'stop', when: () => !stop.hidden && !stop.disabled, run: cancel },
  { name: () => 'Write a message', icon: 'send', when: () => !!current() && !box.element.hidden, run: () => box.focus() },
  { name: () => (current() ? 'Settings of this conversation' : 'Settings of the new conversation'), icon: 'settings', when: () => !!current() || (!$('conversation').hidden && fresh(state.view)), run: openPanel },
  { name: () => 'Rename this conversation', icon: 'edit', when: () => !!current(), run: rename },
  { name: () => (entry()?.pinned ? 'Unpin this conversation' : 'Pin this conversation on top'), icon: 'pin', when: () => !!entry(), run: () => pin(current(), !entry().pinned) },
  { name: () => (entry()?.archived ? 'Put this conversation back into the list' : 'Archive this conversation'), icon: 'archive', when: () => !!entry(), run: () => archive(current(), !entry().archived) },
  { name: () => 'Export this conversation…', icon: 'save', when: () => !!current(), run: save },
  { name: () => 'Clear: the agent forgets what is above…', icon: 'clear', when: () => !!current(), run: clear },
  { name: () => 'Delete this conversation…', icon: 'trash', when: () => !!current(), run: () => remove(current()) },
  { name: () => 'Change theme: light, dark, as the system', icon: 'moon', run: nextTheme },
  { name: () => (calls() ? 'Turn notifications off' : 'Turn notifications on'), icon: 'bell', run: () => setCalls(!calls()) },
  { name: () => 'Show the keyboard shortcuts', keys: ['?'], icon: 'keys', run: use('openSheet') },
];
