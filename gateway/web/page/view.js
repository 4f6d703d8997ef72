// The conversation that is open: from what comes in to what is on the screen,
// and how far it was read.

import { client } from './connection.js';
import { reduce } from './store.js';
import { $, state } from './state.js';

const VIEWS_KEPT = 6;
const inputs = [];        // what came since the last frame that was painted
const painters = [];

/** Calls f each time the conversation on the screen changes, with the view or null. */
export function onPaint(f) { painters.push(f); }

let scheduled = 0;
/** Takes in an event of the open conversation, or what the page itself did. */
export function push(input) {
  inputs.push(input);
  if (scheduled) return;
  scheduled = 1;
  // A page in the background gets no animation frames, but must not fall behind.
  if (document.visibilityState === 'visible') requestAnimationFrame(flush); else setTimeout(flush, 100);
}

/** Forgets what was taken in and not yet shown: another conversation is opened. */
export function forget() { inputs.length = 0; }

export function flush() {
  scheduled = 0;
  if (!state.view || inputs.length === 0) { inputs.length = 0; return; }
  const batch = inputs.splice(0);
  for (const i of batch) {
    if (i.type === 'typing' && i.data?.on) { const { user } = i.data; setTimeout(() => push({ type: '@quiet', session: i.session, user }), 6000); }
  }
  apply(...batch);
  keep();
  // Replayed events are painted once, when all of them are there.
  if (state.view.synced || state.view.pending.size || state.view.gone) paint();
}

/** Changes the open conversation at once, without painting it. */
export function apply(...batch) { state.view = reduce(state.view, batch); }

/** Keeps the open conversation for when it is opened again. */
export function keep() {
  const { view, views } = state;
  views.delete(view.session);
  if (view.gone) return;
  views.set(view.session, view);
  for (const key of views.keys()) { if (views.size <= VIEWS_KEPT) break; views.delete(key); }
}

export const readonly = () => !state.view || state.view.session.includes('/') || state.view.closed || !!state.view.gone;

/** Nothing is in it: not created yet, nothing sent. */
export const fresh = (view) => !view || (!view.session && !view.pending.size);

export function paint() {
  if ($('conversation').hidden) return;
  const { view, chat } = state;
  const nothing = fresh(view) || !!view?.gone;
  $('empty').hidden = !nothing;
  chat.scroller.classList.toggle('is-empty', nothing);
  if (view) chat.update(view);
  for (const f of painters) f(view);
  markSeen();
}

// ---- how far it was read ----------------------------------------------------

let seenTimer = 0;
let lastSeen = '';
/** session -> how far this page has shown it; the list may be older. */
export const seen = new Map();
const seers = [];
/** Calls f after a conversation was read further. */
export function onSeen(f) { seers.push(f); }

function seenNow() {
  const { view, chat } = state;
  return view?.session && view.synced && view.last && document.visibilityState === 'visible' && chat.stick && !$('conversation').hidden ? `${view.session}@${view.last}` : '';
}

// The cursor of what this user has read; told a little later, because it moves a lot.
export function markSeen() {
  const mark = seenNow();
  if (mark && mark !== lastSeen && !seenTimer) seenTimer = setTimeout(tellSeen, 600);
}

export function tellSeen() {
  clearTimeout(seenTimer);
  seenTimer = 0;
  const mark = seenNow();
  if (!mark || mark === lastSeen) return;
  lastSeen = mark;
  client.tell('seen', state.view.session, { seq: state.view.last });
  seen.set(state.view.session, state.view.last);
  for (const f of seers) f();
}
