// Where the page is: a conversation, a new one, the tasks or one of them. The
// address says it, so that back, forward and a link work.

import { client } from './connection.js';
import { complain } from './dom.js';
import { drawer } from './drawer.js';
import { aim } from './goal.js';
import { endRename } from './head.js';
import { later } from './lazy.js';
import { drawList } from './list.js';
import { box, toInput } from './messagebox.js';
import { remembered } from './memory.js';
import { begun, showUnsent } from './sending.js';
import { emptyView } from './store.js';
import { $, state } from './state.js';
import { flush, forget, paint, tellSeen } from './view.js';

const { watched } = state;

// Stands for the view of the tasks, which comes later.
state.tasks = {
  visible: false,
  id: '',
  coming: null,
  hint() {},
  hide() { this.visible = false; },
  show(id) {
    Object.assign(this, { visible: true, id });
    this.coming ||= later().then(({ Tasks }) => {
      state.tasks = new Tasks({ root: $('tasks'), menu: (from) => drawer(true, from), watch });
      if (this.visible) state.tasks.show(this.id);
    }, () => { this.coming = null; complain('The tasks could not be loaded.', { message: 'Try again.' }); });
  },
};

// Asks to be told when these sessions change.
function watch(sessions) {
  for (const s of watched) if (!sessions.includes(s)) { watched.delete(s); if (state.view?.session !== s) client.unfollow(s); }
  for (const s of sessions) if (!watched.has(s)) { watched.add(s); client.follow(s, { tail: 1 }); }
}

export function route() {
  let [, kind = '', id = ''] = /^#\/([^/]*)\/?(.*)$/.exec(location.hash) || [];
  const [, session, place] = /^([^/]+)\/at\/(.+)$/.exec(id) || [];
  if (place && kind === 's') { // a message of a conversation; the address stays that of the conversation
    history.replaceState(null, '', `#/s/${id = session}`);
    aim(decode(session), decode(place));
  }
  drawer(false);
  const onTasks = kind === 'tasks';
  flush();
  tellSeen();
  $('conversation').hidden = onTasks;
  $('tasks').hidden = !onTasks;
  if (onTasks) $('tasks-link').setAttribute('aria-current', 'page'); else $('tasks-link').removeAttribute('aria-current');
  if (onTasks) { state.tasks.show(decode(id)); drawList(); return; }
  if (state.tasks.visible) state.tasks.hide();
  open(kind === 's' ? decode(id) : '');
  drawList();
}
function decode(s) { try { return decodeURIComponent(s); } catch { return s; } }

function open(session) {
  const { view, views, hello } = state;
  if (view?.session && view.session === session) { paint(); return; }
  if (view && !view.session && !session && view.pending.size) { paint(); return; } // it is being created
  if (view?.session && !watched.has(view.session)) client.unfollow(view.session);
  flush();
  forget();
  endRename();
  state.chat.reset();
  $('jump').hidden = true; // nobody has scrolled up here yet
  if (!session) {
    // One that could not be created yet is there, until another new one is wanted.
    state.view = fresh ? null : begun();
    if (state.view) showUnsent();
  } else {
    fresh = false;
    const kept = views.get(session);
    state.view = kept && !kept.gone ? kept : emptyView(session, hello?.user || '');
    state.view.me = hello?.user || state.view.me;
    if (!kept) showUnsent();
    if (watched.has(session)) client.unfollow(session);
    client.follow(session, { last: state.view.last, log: state.view.log });
  }
  box.value = remembered(session);
  paint();
  toInput();
}

let fresh = false; // somebody wants another new conversation
/** Leaves a new conversation that was begun, for another new one. */
export function startNew() {
  fresh = true;
  if (state.view && !state.view.session) { state.view = null; state.chat.reset(); $('jump').hidden = true; }
  setTimeout(() => box.focus());
}
