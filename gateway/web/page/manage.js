// What can be done with a conversation as a whole, wherever it is asked for: in
// its row, above it, in the palette.

import { sessions as api } from './api.js';
import { client } from './connection.js';
import { confirmed } from './dialogs.js';
import { complain, h, toast } from './dom.js';
import { gone } from './gone.js';
import { changed, entryFor, removed } from './list.js';
import { state } from './state.js';

const titleOf = (id) => entryFor(id)?.title || (state.view?.session === id && state.view.title) || 'Untitled conversation';

async function patch(id, fields, what) {
  try {
    await api.patch(id, fields);
    changed(id, fields);
    return true;
  } catch (err) {
    complain(what, err);
    return false;
  }
}

export const retitle = (id, title) => patch(id, { title }, 'The title was not changed.');
export const pin = (id, on) => patch(id, { pinned: on }, on ? 'It was not pinned.' : 'It was not unpinned.');

/** Puts a conversation out of the way, or back; nothing of it is lost. */
export async function archive(id, on) {
  if (!(await patch(id, { archived: on }, on ? 'It was not archived.' : 'It was not put back.'))) return;
  const undo = h('button', { type: 'button', class: 'link-button', onclick: (e) => { e.currentTarget.closest('.toast')?.remove(); archive(id, !on); } }, 'Undo');
  toast([`“${titleOf(id)}” ${on ? 'was archived' : 'is in the list again'}. `, undo]);
}

/** Erases a conversation after a question. */
export async function remove(id) {
  const archived = entryFor(id)?.archived;
  if (!(await confirmed(id, `Delete “${titleOf(id)}” with everything in it? Nothing of it can be brought back.${archived ? '' : ' To have it out of the way and keep it, archive it.'}`, 'Delete'))) return;
  const open = state.view?.session === id;
  try {
    if (open) client.unfollow(id);
    await api.remove(id);
    gone(id, entryFor(id)?.title);
    if (state.view?.session === id) location.hash = '#/';
    removed(id);
  } catch (err) {
    if (open && state.view?.session === id) client.follow(id, { last: state.view.last, log: state.view.log });
    complain('It was not deleted.', err);
  }
}
