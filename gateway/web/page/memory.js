// What this tab keeps of conversations beside the server: views that were open
// lately and texts that were typed and not sent. The texts outlive a reload.

import { state, stored } from './state.js';

/** Keeps what is typed in a conversation, '' for the new one, until it is sent. */
export function remember(session, text) {
  if (text) state.drafts.set(session, text); else state.drafts.delete(session);
  stored('tab', `parley.unsent.${session}`, text);
}

export const remembered = (session) => state.drafts.get(session) ?? stored('tab', `parley.unsent.${session}`);

/**
 * Of a conversation that was erased nothing stays, nor of those that were delegated
 * from it. What somebody was writing in it, or could not send (unsent), is theirs: it waits
 * in the new one, below what is there. Gives whether there was such a text.
 */
export function erased(session, unsent = []) {
  const of = (id) => id === session || id.startsWith(`${session}/`);
  for (const id of [...state.views.keys()]) if (of(id)) state.views.delete(id);
  const text = [...unsent.map((m) => m.text.trim()), remembered(session).trim()].filter(Boolean).join('\n');
  if (text) remember('', [remembered('').trim(), text].filter(Boolean).join('\n'));
  for (const id of [session, ...state.drafts.keys()]) if (of(id)) remember(id, '');
  return !!text;
}
