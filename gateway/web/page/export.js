// A conversation as a file: Markdown to read, JSON for programs.

import { sessions as api } from './api.js';
import { dialog } from './dialogs.js';
import { complain, h } from './dom.js';
import { markdownOf } from './transcript.js';
import { state } from './state.js';

const PAGE = 200; // the most that the route gives

/** Asks for the form, and saves the open conversation in it. */
export async function save() {
  const { session, title } = state.view;
  const name = title || 'Untitled conversation';
  const form = await ask(session);
  if (!form) return;
  try {
    const frames = await everything(session);
    if (form === 'json') file(`${plainName(name)}.json`, 'application/json', `${JSON.stringify({ session, title: name, events: frames }, null, 2)}\n`);
    else file(`${plainName(name)}.md`, 'text/markdown', markdownOf(name, frames));
  } catch (err) { complain('The conversation was not exported.', err); }
}

async function ask(session) {
  const { closed } = dialog({ 'aria-label': 'Export this conversation', 'data-session': session },
    h('h2', {}, 'Export this conversation'),
    h('p', {}, 'Markdown is for reading: what was said, by whom and when. JSON has every event, also those of tools, for programs.'),
    h('div', { class: 'dialog-actions' },
      h('button', { type: 'submit', class: 'plain-button', value: '' }, 'Cancel'),
      h('button', { type: 'submit', class: 'plain-button', value: 'json' }, 'JSON'),
      h('button', { type: 'submit', class: 'primary', value: 'markdown' }, 'Markdown')));
  return closed;
}

// All stored events, also those that are not on the screen.
async function everything(session) {
  const frames = [];
  for (let since = 0; ;) {
    const page = await api.events(session, since, PAGE);
    frames.push(...page.items);
    if (!page.next_cursor) return frames;
    since = page.next_cursor;
  }
}

/** A name that every file system takes. */
function plainName(name) {
  return name.normalize('NFC').replace(/[\u0000-\u001f\u007f<>:"/\\|?*.\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, ' ').replace(/\s+/g, ' ').trim().slice(0, 80).trim() || 'conversation';
}

function file(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
