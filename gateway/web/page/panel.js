// What the open conversation is set to: who answers, on which model, and what messages do
// while work goes on. A choice counts at once; what others choose is shown as it comes.

import { sessions as api } from './api.js';
import { MODES, agents, called, choose, chosen, like, models, outside } from './choices.js';
import { dialog } from './dialogs.js';
import { h } from './dom.js';
import { state } from './state.js';
import { onPaint, paint } from './view.js';

let shown = null; // the panel that is open

/** Opens the panel of the open conversation, or of the new one. */
export function openPanel() {
  const session = state.view?.session || '';
  if (shown || state.view?.gone) return;
  const waits = {};  // key -> {value, head}: said here, and not seen in the conversation yet
  let asked = Promise.resolve();
  const wrong = h('p', { class: 'form-error', role: 'alert', hidden: true });
  const why = h('p', { class: 'hint' });
  const who = h('p', { class: 'panel-who' });
  const groups = [
    group('mode', 'While work is going on, a message will', [['', 'As the server is set up', ''], ...(state.hello?.modes || []).map((m) => [m, ...(MODES[m] || [m, ''])])]),
    group('agent', 'Who answers', agents().filter((a) => !a.like).map((a) => [a.name, (models(a.name).length > 1 ? [a.name] : called(a.name)).join(' · '), a.description || ''])),
    group('model', 'On which model', []),
  ];

  function group(key, title, choices) {
    const g = { key, inputs: [], set: h('fieldset', { class: 'panel-group' }, h('legend', {}, title)) };
    fill(g, choices);
    return g;
  }

  // Nothing to choose from is not shown; a mode has its server's beside it.
  function fill(g, choices) {
    g.of = JSON.stringify(choices);
    for (const input of g.inputs) input.parentNode.remove();
    // An agent on another model is another agent to the server.
    g.inputs = choices.map(([value]) => h('input', { type: 'radio', name: `panel-${g.key}`, value, onchange: () => change(g.key === 'mode' ? 'mode' : 'agent', value) }));
    g.set.append(...choices.map(([, label, hint], i) => h('label', { class: 'panel-choice' }, g.inputs[i],
      h('span', { class: 'menu-text' }, h('span', {}, label), hint ? h('span', { class: 'menu-hint' }, hint) : null))));
    g.set.hidden = choices.length <= (g.key === 'mode' ? 2 : 1);
  }

  // One after the other: the last one chosen is the one that stays.
  function change(key, value) {
    wrong.hidden = true;
    if (!session) {
      choose({ [key]: value });
      draw();
      paint();
      return;
    }
    const mine = waits[key] = { value, head: Infinity };
    asked = asked.then(async () => {
      try {
        const { head } = await api.patch(session, key === 'agent' ? { agent: value } : { policy: { 'inbox.mode': value || null } });
        mine.head = head;
      } catch (err) {
        if (waits[key] === mine) delete waits[key];
        wrong.textContent = `It was not changed. ${err.message}`;
        wrong.hidden = false;
        wrong.scrollIntoView({ block: 'nearest' }); // the panel may be scrolled
      }
      draw();
    });
  }

  function draw() {
    const view = session ? state.view : null;
    if (session && (view?.session !== session || view.gone)) { element.close(); return; }
    for (const [key, w] of Object.entries(waits)) if (view.last >= w.head) delete waits[key];
    const now = session ? { agent: view.agent, mode: view.policy['inbox.mode'] || '' } : { ...chosen() };
    if (!session) now.agent ||= agents()[0]?.name || '';
    const reason = session ? forbidden(view) : '';
    for (const [key, w] of Object.entries(waits)) now[key] = w.value;
    const of = { mode: now.mode, agent: like(now.agent), model: now.agent };
    for (const g of groups) {
      const others = g.key === 'model' ? models(now.agent) : [];
      const choices = others.length > 1 ? others.map(({ name, label }) => [name, label, '']) : [];
      if (g.key === 'model' && JSON.stringify(choices) !== g.of) fill(g, choices);
      for (const input of g.inputs) {
        if (input.checked !== (input.value === of[g.key])) input.checked = input.value === of[g.key];
        input.disabled = !!reason || (g.key !== 'mode' && outside(now.agent) && !!session);
      }
    }
    set(why, reason || (session ? 'A change counts from the next step of the work on.' : 'It counts for the conversation that your next message begins.'));
    set(who, session ? seers(view) : '');
  }

  const { element, closed } = dialog({ class: 'panel', 'aria-labelledby': 'panel-title', 'data-session': session || null },
    h('h2', { id: 'panel-title' }, session ? 'Settings of this conversation' : 'Settings of the new conversation'),
    wrong, groups.map((g) => g.set), why, who,
    h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'plain-button' }, 'Close')));
  shown = { draw };
  closed.then(() => { shown = null; });
  draw();
  element.querySelector('fieldset:not([hidden]) input:checked:enabled')?.focus();
}

function set(element, text) {
  element.hidden = !text;
  if (element.textContent !== text) element.textContent = text;
}

function forbidden(view) {
  if (view.session.includes('/')) return 'A delegated conversation can only be read.';
  if (view.closed) return 'This conversation is closed.';
  return view.owner === view.me || view.members[view.me] === 'owner' ? '' : `Only its owner${view.owner ? `, ${view.owner},` : ''} can change this.`;
}

function seers(view) {
  if (view.access === 'tenant') return 'Who can see this: everyone of the tenant.';
  const members = Object.entries(view.members).map(([user, role]) => `${user} (${role})`);
  const owner = view.owner === view.me ? 'you' : view.owner;
  return `Who can see this: ${members.length ? [owner, ...members].join(', ') : `only ${owner}`}.`;
}

onPaint(() => shown?.draw());
