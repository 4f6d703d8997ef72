// What can be chosen for a conversation, in words, and what was chosen for one
// that its first message has yet to create.

import { state, stored } from './state.js';

/** What a message does while work goes on: the protocol's modes. */
export const MODES = {
  steer: ['Join in', 'The work goes on and takes your message in.'],
  queue: ['Wait for its turn', 'Your message is read when the work is done.'],
  collect: ['Wait together', 'As before; messages that come soon after each other are read as one.'],
  interrupt: ['Interrupt', 'The work stops, and your message is read at once.'],
  reject: ['Not now', 'Your message is refused while work goes on.'],
};

/** Whether a runtime outside of the server answers. */
export const outside = (agent) => /^outside(:|$)/.test(agent);

/**
 * Who can answer here. A runtime outside neither gives nor takes a conversation, but
 * a new one may be its own.
 */
export function agents() {
  const { hello, view } = state;
  return (hello?.agents || []).filter((a) => !view?.session || a.name === view.agent || !outside(a.name));
}

/** An agent and what it runs on; that the scripted model is one, the badge says. */
export function called(name) {
  const model = (state.hello?.agents || []).find((a) => a.name === name)?.model || '';
  return !model || model === 'scripted' || model === name ? [name] : [name, model];
}

/** {agent?, mode?} for the new conversation, as far as the server still has them. */
export function chosen() {
  let c = {};
  try { c = JSON.parse(stored('tab', 'parley.chosen') || '{}') || {}; } catch { /* not ours */ }
  const { agents = [], modes = [] } = state.hello || {};
  return { agent: agents.some((a) => a.name === c.agent) ? c.agent : '', mode: modes.includes(c.mode) ? c.mode : '' };
}

export function choose(fields) {
  const next = { ...chosen(), ...fields };
  stored('tab', 'parley.chosen', next.agent || next.mode ? JSON.stringify(next) : '');
}

/** The same as the members of the command that creates it. */
export function chosenFields() {
  const { agent, mode } = chosen();
  return { ...(agent ? { agent } : {}), ...(mode ? { policy: { 'inbox.mode': mode } } : {}) };
}
