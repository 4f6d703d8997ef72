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

/** The agent that this one is like, on another model; itself, if it is one of its own. */
export const like = (name) => (state.hello?.agents || []).find((a) => a.name === name)?.like || name;

/** Those that are like an agent, each on its model, the agent itself first: [{name, label}]. */
export function models(name) {
  const of = like(name);
  const all = agents().filter((a) => a.name === of || a.like === of);
  const one = (a) => all.filter((b) => b.model === a.model).length === 1;
  // Two that are labelled the same go by their names in the configuration.
  return all.map((a) => ({ name: a.name, label: one(a) || !a.like ? a.model : a.name.slice(of.length + 1) }));
}

/** An agent and what it runs on; that the scripted model is one, the badge says. */
export function called(name) {
  const of = like(name);
  const label = models(name).find((m) => m.name === name)?.label || '';
  return !label || (label === 'scripted' && of === name) || label === of ? [of] : [of, label];
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
