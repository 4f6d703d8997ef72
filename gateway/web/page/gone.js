// A conversation that was erased, or that this user may not see any more: what the
// page kept of it goes, whether it is open, was open lately, or is in the list only.

import { forgetFiles } from './attachments.js';
import { toast } from './dom.js';
import { box } from './messagebox.js';
import { erased, remembered } from './memory.js';
import { forgetSent } from './sending.js';
import { state } from './state.js';
import { seen } from './view.js';

const hearers = [];
/** Calls f(session) for each conversation that is gone, with those that were delegated from it. */
export function onGone(f) { hearers.push(f); }

export function gone(session, title = '') {
  const unsent = forgetSent(session);
  const kept = erased(session, unsent);
  const files = unsent.some((m) => m.attachments.length) ? ' Its files have to be attached again.' : '';
  forgetFiles(session);
  seen.delete(session);
  for (const f of hearers) f(session);
  if (!kept) return;
  if (!state.view?.session) box.value = remembered('');
  toast(`${title ? `“${title}”` : 'A conversation'} was erased. What you were writing there waits in a new conversation.${files}`, { ms: 12000 });
}

/** Whether it is open, or one that was delegated from it: then its own frames say that it is gone. */
export const isOpen = (session) => state.view?.session === session || !!state.view?.session.startsWith(`${session}/`);
