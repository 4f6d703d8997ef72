// The rows of a conversation as elements, changed in place where that spares a
// screen reader the same words twice: patch(row, old) gives false if the element
// has to be made anew.

import { composer } from './composer.js';
import { duration, h, time } from './dom.js';
import { render as formatted } from './format.js';
import { activitySummary, became, excerpt, outcome } from './store.js';

// lead stands before the quote where its place does not say what it is.
function quoteChip(quote, actions, label, lead = '') {
  if (!quote) return null;
  return h('button', { type: 'button', class: 'quote', 'aria-label': `${label}: ${quote.text}`, disabled: !quote.key, onclick: () => actions.show(quote.key) }, h('span', {}, lead, h('bdi', {}, quote.text)));
}

export function userRow(row, actions) {
  const state = h('span', { class: 'state', 'aria-live': 'off' });
  const body = h('div', { class: 'text' });
  const stamp = h('span', { class: 'stamp' });
  const controls = h('span', { class: 'controls' });
  const who = h('div', { class: 'who' });
  const chip = h('div', { class: 'chip-slot' });
  const bubble = h('div', { class: 'bubble' }, chip, body);
  const el = h('article', { class: 'row user' }, who, bubble, h('div', { class: 'meta' }, state, controls, stamp));
  let shown = {};
  el.patch = (r) => {
    el.classList.toggle('mine', !!r.mine);
    el.setAttribute('aria-label', r.mine ? 'You' : r.author || 'Someone');
    if (shown.mine !== r.mine || shown.author !== r.author) {
      who.hidden = !!r.mine;
      who.textContent = r.via === 'delegation' ? 'Objective' : r.author || '';
    }
    if (shown.text !== r.text) body.replaceChildren(formatted(r.text));
    if (JSON.stringify(shown.quote) !== JSON.stringify(r.quote)) chip.replaceChildren(...[quoteChip(r.quote, actions, r.question ? 'Answers the question' : 'In reply to')].filter(Boolean));
    if (shown.ts !== r.ts) stamp.replaceChildren(time(r.ts));
    const b = became(r);
    const text = (b.text + (r.edited ? ' · edited' : '') + (r.via && !['websocket', 'http', 'delegation'].includes(r.via) ? ` · via ${r.via}` : ''));
    if (state.textContent !== text) state.textContent = text;
    state.dataset.tone = b.tone;
    if (b.title) state.title = b.title; else state.removeAttribute('title');
    el.dataset.state = r.state;
    el.dataset.message = r.message || '';
    if (shown.state !== r.state || !shown.key) {
      controls.replaceChildren();
      if (r.pending && r.state === 'failed') {
        state.title = r.error || '';
        controls.append(
          h('button', { type: 'button', class: 'link-button', onclick: () => actions.retry(r) }, 'Retry'),
          h('button', { type: 'button', class: 'link-button', onclick: () => actions.discard(r) }, 'Discard'));
      }
    }
    shown = r;
    return true;
  };
  el.patch(row);
  return el;
}

const KINDS = { error: 'Error', limit: 'Step limit reached', empty: 'No answer' };

export function partRow(row, actions) {
  const body = h('div', { class: 'text' });
  const el = h('article', { class: 'row assistant', 'aria-label': 'Assistant' },
    h('div', { class: 'bubble' }, quoteChip(row.quote, actions, 'In reply to'), row.kind ? h('div', { class: 'kind' }, KINDS[row.kind] || row.kind) : null, body),
    h('div', { class: 'meta' }, row.stopped ? h('span', { class: 'stopped' }, 'Stopped here') : null,
      row.lines.length ? fold(row.lines, actions) : null, h('span', { class: 'stamp' }, time(row.ts))));
  body.append(formatted(row.text));
  mark(row);
  function mark(r) {
    el.dataset.message = r.message;
    el.dataset.final = r.final ? 'true' : 'false';
    el.dataset.kind = r.kind || '';
  }
  el.patch = (r, old) => {
    if (r.text !== old.text || r.kind !== old.kind || r.lines !== old.lines || r.quote !== old.quote) return false;
    mark(r);
    return true;
  };
  return el;
}

export function draft(d) {
  const body = h('div', { class: 'text' });
  const el = h('div', { class: 'row assistant draft' }, h('div', { class: 'bubble' }, body));
  el.patch = (x) => {
    // A very long draft is not parsed again for every word of it.
    if (x.text.length < 6000) body.replaceChildren(formatted(x.text)); else body.textContent = x.text;
    return true;
  };
  el.patch(d);
  return el;
}

export function questionRow(row, actions) {
  const title = row.approval ? (row.asker ? `${row.asker} needs your approval` : 'Approval needed') : row.asker ? `${row.asker} asks` : 'Question';
  const badge = h('span', { class: 'badge working-badge' }, 'still working');
  const body = h('div', { class: 'text' }, formatted(row.text));
  const box = h('div', { class: 'bubble' });
  const el = h('article', { class: `row question${row.approval ? ' approval' : ''}`, 'aria-label': title }, box, h('div', { class: 'meta' }, row.lines.length ? fold(row.lines, actions) : null, h('span', { class: 'stamp' }, time(row.ts))));
  el.dataset.question = row.question;
  const head = h('div', { class: 'question-head' }, h('span', { class: 'question-title' }, title), badge);
  const foot = h('div', { class: 'question-foot' });
  const chip = h('div', { class: 'chip-slot' });
  box.append(head, chip, body);
  if (row.approval) {
    box.append(callBlock(row.approval));
  }
  box.append(foot);

  // One answer at a time. A disabled button would lose the focus, so it is only said.
  let busy = false;
  const act = async (buttons, work) => {
    if (busy) return;
    busy = true;
    for (const b of buttons) b.setAttribute('aria-disabled', 'true');
    const ok = await work();
    busy = false;
    if (!ok) for (const b of buttons) b.removeAttribute('aria-disabled');
  };
  function open(r) {
    const controls = h('div', { class: 'choices' });
    const buttons = [];
    const choice = (label, work, cls = '') => {
      const b = h('button', { type: 'button', class: `choice ${cls}`, onclick: () => act(buttons, work) }, label);
      buttons.push(b);
      controls.append(b);
    };
    const under = [];
    if (r.approval) {
      choice('Approve', () => actions.answer(r.question, 'yes'), 'good');
      choice('Decline', () => actions.answer(r.question, 'no'), 'bad');
      const editor = h('div', { class: 'editor', hidden: true });
      const wrong = h('p', { class: 'form-error', role: 'alert', hidden: true });
      const edit = h('button', { type: 'button', class: 'choice', 'aria-expanded': 'false', onclick: () => {
        editor.hidden = !editor.hidden;
        edit.setAttribute('aria-expanded', String(!editor.hidden));
        if (!editor.hidden) { c.refresh(); c.focus(); }
      } }, 'Edit arguments');
      controls.append(edit);
      const c = composer({
        label: 'Arguments', placeholder: 'Arguments', value: pretty(r.approval.args), compact: true, multiline: true, sendLabel: 'Approve',
        submit: async (text) => {
          const [args, problem] = readArguments(text);
          if (!problem) return actions.answer(r.question, JSON.stringify({ approve: true, args }));
          wrong.textContent = problem;
          wrong.hidden = false;
          c.input.setAttribute('aria-invalid', 'true');
          c.focus();
          return false;
        },
        onInput: () => { wrong.hidden = true; c.input.removeAttribute('aria-invalid'); },
        onEscape: () => { editor.hidden = true; edit.setAttribute('aria-expanded', 'false'); edit.focus(); },
      });
      c.input.setAttribute('aria-describedby', wrong.id = `wrong-${r.question}`);
      editor.append(h('p', { class: 'hint' }, 'The call is made with these arguments instead.', h('span', { class: 'keys' }, ' Ctrl+Enter approves.')), c.element, wrong);
      under.push(editor);
    } else {
      for (const c of r.choices) choice(c, () => actions.answer(r.question, c));
      const c = composer({ label: `Answer: ${excerpt(r.text, 60)}`, placeholder: 'Type your reply...', compact: true, sendLabel: 'Reply', submit: (text) => actions.answer(r.question, text) });
      under.push(c.element);
    }
    if (r.expires_at) under.push(h('p', { class: 'hint' }, 'Open until ', time(r.expires_at), r.default !== null ? `; then “${excerpt(r.default, 40)}” counts` : ''));
    foot.replaceChildren(...(buttons.length ? [controls] : []), ...under);
  }
  function closed(r) {
    const o = outcome(r);
    const line = h('p', { class: 'outcome', 'data-tone': o.tone, tabIndex: -1 }, h('strong', {}, o.label), o.text ? h('bdi', {}, excerpt(o.text, 200)) : null);
    // Whoever answered by keyboard stands on a control that goes away now.
    const inside = foot.contains(document.activeElement);
    foot.replaceChildren(line);
    if (inside) line.focus({ preventScroll: true });
  }
  el.patch = (r, old) => {
    el.dataset.state = r.state;
    // In its slot, because a second question brings it to a card in which somebody may be typing.
    if (!old || r.quote !== old.quote) chip.replaceChildren(...[quoteChip(r.quote, actions, 'About', 'About: ')].filter(Boolean));
    badge.hidden = !(r.state === 'open' && !r.blocking && r.working);
    if (!old || r.state !== old.state || r.answer !== old.answer) {
      if (r.state === 'open' && !actions.readonly()) open(r); else if (r.state === 'open') foot.replaceChildren(); else closed(r);
    }
    return !old || (r.text === old.text && r.lines === old.lines);
  };
  el.patch(row);
  return el;
}

/** The call that an approval is about: its tool and its arguments. */
export function callBlock({ tool, args }) {
  return h('div', { class: 'code' }, h('div', { class: 'code-head' }, h('span', {}, tool)), h('pre', { tabIndex: 0, 'aria-label': `Arguments of ${tool}` }, h('code', {}, pretty(args))));
}

// The arguments that a person typed: [object, ''] or [null, what is wrong].
function readArguments(text) {
  try {
    const args = JSON.parse(text);
    if (args && typeof args === 'object' && !Array.isArray(args)) return [args, ''];
  } catch (err) { return [null, `This is not valid JSON, nothing was sent. ${err.message}`]; }
  return [null, 'The arguments must be a JSON object, {…}. Nothing was sent.'];
}

function pretty(args) {
  if (args && typeof args === 'object') return JSON.stringify(args, null, 2);
  try { return JSON.stringify(JSON.parse(args), null, 2); } catch { return String(args ?? ''); }
}

const ENDINGS = { ok: 'done', error: 'failed', failed: 'failed', timeout: 'timed out', cancelled: 'cancelled', denied: 'declined', unknown: 'outcome unknown', started: 'started', running: 'running' };

export function fold(lines, actions) {
  const running = lines.some((l) => l.status === 'running');
  const bad = lines.some((l) => ['error', 'failed', 'timeout', 'unknown', 'denied'].includes(l.status));
  const details = h('details', { class: `activity${running ? ' running' : ''}${bad ? ' bad' : ''}` }, h('summary', {}, activitySummary(lines)));
  const ul = h('ul', {});
  for (const l of lines) ul.append(activityLine(l, actions));
  details.append(ul);
  return details;
}

function activityLine(l, actions) {
  const status = l.status === 'note' ? '' : ENDINGS[l.status] || l.status;
  const what = [h('span', { class: 'name' }, (l.within ? `${l.within} › ` : '') + (l.kind === 'delegation' ? `→ ${l.name}` : l.name))];
  if (status) what.push(h('span', { class: 'ending' }, status + (l.ms !== undefined ? ` · ${duration(l.ms)}` : '')));
  if (l.sub && !l.ended) what.push(h('button', { type: 'button', class: 'link-button', onclick: () => actions.openSession(l.sub) }, 'Open'));
  if (l.call && l.ended !== true && l.status !== 'running' && l.status !== 'started') what.push(h('button', { type: 'button', class: 'link-button', onclick: () => actions.showCall(l.call) }, 'Details'));
  return h('li', { 'data-status': l.status, 'data-kind': l.kind },
    h('div', { class: 'line-head' }, ...what),
    l.text ? h('div', { class: 'line-text' }, excerpt(l.text, 300)) : null,
    l.result ? h('div', { class: 'line-text result' }, excerpt(l.result, 300)) : null);
}
