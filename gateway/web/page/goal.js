// Opens a conversation at one of its messages, however far back that stands.

import { sessions as api } from './api.js';
import { complain, toast } from './dom.js';
import { state } from './state.js';
import { apply, onPaint, paint } from './view.js';

let goal = null; // {session, message, seq}
let loading = false;

/** The next time this conversation is on the screen, it shows this message. */
export function aim(session, where) {
  const [, message = '', seq = '0'] = /^(.*)\.(\d+)$/.exec(where) || [];
  goal = message ? { session, message, seq: Number(seq) } : null;
}

onPaint((view) => {
  if (goal && view?.session === goal.session && view.synced && !loading) reach(view, goal);
});

const rowOf = (view, message) => [...view.rows.values()].find((r) => r.message === message && (r.type === 'user' || r.type === 'part')) || [...view.rows.values()].find((r) => r.question === message);

async function reach(view, to) {
  let row = rowOf(view, to.message);
  if (!row && to.seq && view.first > to.seq) {
    loading = true;
    try { await loadTo(view.session, to.seq); } catch (err) { complain('This message could not be loaded.', err); } finally { loading = false; }
    if (goal !== to || state.view?.session !== to.session) return;
    goal = null;
    state.chat.stick = false;
    paint();
    row = rowOf(state.view, to.message);
  }
  goal = null;
  if (!row) { toast('This message is not shown: it may have been withdrawn or changed.'); return; }
  const { key } = row;
  state.chat.stick = false;
  requestAnimationFrame(() => state.chat.show(key));
}

// All pages from a little before seq to what is there already, taken in at once.
async function loadTo(session, seq) {
  let since = Math.max(0, seq - 40);
  const from = since + 1;
  const frames = [];
  for (const first = state.view.first; since < first - 1;) {
    const page = await api.events(session, since, Math.min(200, first - 1 - since));
    const items = page.items || [];
    frames.push(...items);
    if (state.view?.session !== session || !items.length) break;
    since = items.at(-1).seq;
  }
  if (state.view?.session === session) apply({ type: '@older', session, frames, from });
}
