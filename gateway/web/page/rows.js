// The rows of a conversation as elements, changed in place where that spares a
// screen reader the same words twice: patch(row, old) gives false if the element
// has to be made anew.

import { composer } from './composer.js';
import { duration, h, time } from './dom.js';
import { causeOf } from './causes.js';
import { pretty, wrongArguments } from './exact.js';
import { paint } from './markdown.js';
import { activitySummary, became, excerpt, outcome } from './store.js';
import { attachment } from './pictures.js';
import { state as page } from './state.js';
import { toolsOf } from './tools.js';
import { finished, unfinished } from './unfinished.js';

// lead stands before the quote where its place does not say what it is.
function quoteChip(quote, actions, label, lead = '') {
  if (!quote) return null;
  return h('button', { type: 'button', class: 'quote', 'aria-label': `${label}: ${quote.text}`, disabled: !quote.key, onclick: () => actions.show(quote.key) }, h('span', {}, lead, h('bdi', {}, quote.text)));
}

export function userRow(row, actions) {
  const state = h('span', { class: 'state', 'aria-live': 'off' });
  const text = longText(FOLD_MINE, row.via !== 'delegation'); // an objective is a model's
  const stamp = h('span', { class: 'stamp' });
  const controls = h('span', { class: 'controls' });
  const who = h('div', { class: 'who' });
  const chip = h('div', { class: 'chip-slot' });
  const files = h('ul', { class: 'attached', 'aria-label': 'Attached files', hidden: true });
  const why = h('p', { class: 'why', hidden: true });
  const bubble = h('div', { class: 'bubble' }, chip, ...text.nodes, files, why);
  let shown = {};
  const tools = toolsOf(() => shown, actions);
  const el = h('article', { class: 'row user' }, who, bubble, h('div', { class: 'meta' }, state, controls, stamp, tools));
  el.patch = (r) => {
    el.classList.toggle('mine', !!r.mine);
    el.setAttribute('aria-label', r.mine ? 'You' : r.author || 'Someone');
    if (shown.mine !== r.mine || shown.author !== r.author) {
      who.hidden = !!r.mine;
      who.textContent = r.via === 'delegation' ? 'Objective' : r.author || '';
    }
    if (shown.text !== r.text) text.set(r.text);
    if (JSON.stringify(shown.quote) !== JSON.stringify(r.quote)) chip.replaceChildren(...[quoteChip(r.quote, actions, r.question ? 'Answers the question' : 'In reply to')].filter(Boolean));
    if (shown.attachments !== r.attachments) {
      files.hidden = !r.attachments.length;
      if (JSON.stringify(shown.attachments || []) !== JSON.stringify(r.attachments)) files.replaceChildren(...r.attachments.map(attachment));
    }
    if (shown.ts !== r.ts) stamp.replaceChildren(time(r.ts));
    why.hidden = !(r.pending && r.state === 'failed' && r.attachments.length && r.error);
    why.textContent = why.hidden ? '' : r.error;
    const b = became(r);
    const said = [b.text, r.edited && 'edited', r.via && !['websocket', 'http', 'delegation'].includes(r.via) && `via ${r.via}`].filter(Boolean).join(' · ');
    if (state.textContent !== said) state.textContent = said;
    state.dataset.tone = b.tone;
    if (b.title) state.title = b.title; else state.removeAttribute('title');
    el.dataset.state = r.state;
    el.dataset.message = r.message || '';
    tools.offer({ reply: r.message && !r.pending && !actions.readonly() });
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
const SIGNS = { user: 'Stopped here', interrupt: 'Interrupted here', end: 'Cut off here' };

// A text that is longer is shown by its beginning, until somebody wants all of it.
const FOLD_MINE = 4000;
const FOLD_PART = 24000;

// A text that may be long: {nodes, set(text)}. Once all of it is shown, it stays so.
// typed: a person wrote it.
function longText(limit, typed = false) {
  const body = h('div', { class: 'text' });
  const more = h('button', { type: 'button', class: 'link-button more-text', 'aria-expanded': 'false', hidden: true });
  let whole = '';
  let live = false;
  let opened = false;
  let cut = 0;
  more.addEventListener('click', () => {
    opened = !opened;
    draw();
    if (!opened) body.scrollIntoView({ block: 'nearest' });
  });
  function draw() {
    const short = cut > 0 && !opened;
    paint(body, short ? `${whole.slice(0, cut).trimEnd()} …` : whole, { live, typed });
    more.hidden = cut === 0;
    more.setAttribute('aria-expanded', String(!short));
    more.textContent = short ? `Show more (${size(whole)})` : 'Show less';
  }
  return {
    nodes: [body, more],
    body,
    /** wholly: it is being read, so it is not folded under its reader. more: it goes on. */
    set(text, wholly = false, more = false) {
      whole = text;
      live = more;
      cut = wholly ? 0 : beginning(text, limit);
      draw();
    },
  };
}

// Where the beginning of a long text ends, or 0 for one that is not long: at the
// end of a line or of a word, never within a character.
function beginning(text, limit) {
  let lines = 0;
  let at = -1;
  while (lines < limit / 40 && (at = text.indexOf('\n', at + 1)) >= 0) lines++;
  const most = at < 0 ? limit : Math.min(limit, at);
  if (text.length <= most * 1.25) return 0;
  const back = Math.max(text.lastIndexOf('\n', most), text.lastIndexOf(' ', most));
  const cut = back > most * 0.8 ? back : most;
  return /[\ud800-\udbff]/.test(text[cut - 1]) ? cut - 1 : cut;
}

function size(text) { return text.length < 1000 ? `${text.length} characters` : `${String(Math.round(text.length / 1000)).replace(/\B(?=(\d{3})+$)/g, ',')},000 characters`; }

/**
 * An answer: first its draft while it is written, then the part that came of it, in
 * one element from the first word on.
 */
export function partRow(row, actions) {
  const text = longText(FOLD_PART);
  const chip = h('div', { class: 'chip-slot' });
  const kind = h('div', { class: 'kind', hidden: true });
  const sign = h('span', { class: 'stopped', hidden: true });
  const stamp = h('span', { class: 'stamp' });
  const why = h('p', { class: 'why', hidden: true });
  let shown = {};
  const tools = toolsOf(() => (shown.error ? { ...shown, text: causeOf(shown.error).text } : shown), actions);
  const meta = h('div', { class: 'meta' }, sign, stamp, tools);
  const el = h('article', { class: 'row', 'aria-label': 'Assistant' }, h('div', { class: 'bubble' }, chip, kind, ...text.nodes, why), meta);
  let under = null;
  let grown = false;
  el.patch = (r) => {
    const writing = r.type === 'draft';
    grown ||= writing;
    el.classList.toggle('draft', writing);
    el.classList.toggle('assistant', !writing);
    if (writing) el.setAttribute('aria-live', 'off'); else el.removeAttribute('aria-live');
    meta.hidden = writing;
    if (shown.text !== r.text || (shown.type === 'draft') !== writing) text.set(r.text, grown, writing);
    if (!writing) {
      if (JSON.stringify(shown.quote) !== JSON.stringify(r.quote)) chip.replaceChildren(...[quoteChip(r.quote, actions, 'In reply to')].filter(Boolean));
      if (shown.ts !== r.ts) stamp.replaceChildren(time(r.ts));
      kind.hidden = !r.kind;
      kind.textContent = r.kind ? KINDS[r.kind] || r.kind : '';
      if (shown.error !== r.error) why.replaceChildren(...r.error ? cause(r, actions) : []);
      why.hidden = !r.error;
      // The server's sentence fits every failure; beside the cause it would say another thing.
      text.body.hidden = !!r.error;
      tools.offer({ reply: !actions.readonly(), again: answers(r) && !actions.readonly() && actions.asked(r) });
      sign.hidden = !r.cut;
      sign.textContent = SIGNS[r.cut] || '';
      if (shown.lines !== r.lines) under = refold(under, r.lines, stamp, actions);
      el.dataset.message = r.message;
      el.dataset.final = r.final ? 'true' : 'false';
      el.dataset.kind = r.kind || '';
    }
    shown = r;
    return true;
  };
  el.patch(row);
  return el;
}

// Whether a part is what became of a message: the last word on it, an answer that is known
// to be one, or one that somebody stopped. Words on the way to an answer are not.
function answers(row) { return row.final || row.cut !== '' || (row.in_reply_to !== '' && !row.guessed); }

// Why there is no answer and what to do about it, with a way to try again where that can help.
function cause(row, actions) {
  const c = causeOf(row.error);
  if (!c.again || actions.readonly() || !actions.asked(row)) return [c.text];
  return [c.text, ' ', h('button', { type: 'button', class: 'link-button', onclick: () => actions.again(row) }, 'Try again')];
}

// What was done, before an element of a row's last line; open stays open.
function refold(old, lines, before, actions) {
  const fresh = lines.length ? fold(lines, actions) : null;
  if (fresh && old) fresh.open = old.open;
  if (old) old.remove();
  if (fresh) before.before(fresh);
  return fresh;
}

export function questionRow(row, actions) {
  const title = row.result ? `A program gives the result of ${row.result}` : row.approval ? (row.asker ? `${row.asker} needs your approval` : 'Approval needed') : row.asker ? `${row.asker} asks` : 'Question';
  const badge = h('span', { class: 'badge working-badge' }, 'still working');
  const body = h('div', { class: 'text' });
  const box = h('div', { class: 'bubble' });
  const stamp = h('span', { class: 'stamp' }, time(row.ts));
  const el = h('article', { class: `row question${row.approval ? ' approval' : ''}`, 'aria-label': title }, box, h('div', { class: 'meta' }, stamp));
  let under = null;
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
  const { session } = page.view;
  const kept = unfinished(session, row.question);
  const act = async (buttons, work) => {
    if (busy) return;
    busy = true;
    for (const b of buttons) b.setAttribute('aria-disabled', 'true');
    const ok = await work();
    busy = false;
    if (ok) kept.args = ''; // who decides by a button does not want them
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
        label: 'Arguments', placeholder: 'Arguments', value: kept.args || pretty(r.approval.args), compact: true, multiline: true, sendLabel: 'Approve',
        submit: async (text) => {
          const problem = wrongArguments(text);
          if (!problem) {
            busy = true;
            try { return await actions.answer(r.question, `{"approve":true,"args":${text}}`); } finally { busy = false; }
          }
          wrong.textContent = problem;
          wrong.hidden = false;
          c.input.setAttribute('aria-invalid', 'true');
          c.focus();
          return false;
        },
        onInput: (t) => { kept.args = t; wrong.hidden = true; c.input.removeAttribute('aria-invalid'); },
        onEscape: () => { editor.hidden = true; edit.setAttribute('aria-expanded', 'false'); edit.focus(); },
      });
      c.input.setAttribute('aria-describedby', wrong.id = `wrong-${r.question}`);
      editor.append(h('p', { class: 'hint' }, 'The call is made with these arguments instead.', h('span', { class: 'keys' }, ' Ctrl+Enter approves.')), c.element, wrong);
      under.push(editor);
      if (kept.args) { editor.hidden = false; edit.setAttribute('aria-expanded', 'true'); }
    } else {
      for (const c of r.choices) choice(c, () => actions.answer(r.question, c));
      const reply = composer({ label: `Answer: ${excerpt(r.text, 60)}`, placeholder: r.result ? 'Type the result, if you give it...' : 'Type your reply...', compact: true, value: kept.reply, onInput: (t) => { kept.reply = t; }, sendLabel: 'Reply', submit: async (text) => { busy = true; try { return await actions.answer(r.question, text); } finally { busy = false; } } });
      under.push(reply.element);
    }
    if (r.expires_at) under.push(h('p', { class: 'hint' }, 'Open until ', time(r.expires_at), r.default !== null ? `; then “${excerpt(r.default, 40)}” counts` : ''));
    foot.replaceChildren(...(buttons.length ? [controls] : []), ...under);
  }
  function closed(r) {
    const o = outcome(r);
    const line = h('p', { class: 'outcome', 'data-tone': o.tone, tabIndex: -1 }, h('strong', {}, o.label), o.text ? h('bdi', {}, excerpt(o.text, 200)) : null);
    // Whoever answered by keyboard stands on a control that goes away now; what somebody
    // was writing while another one answered is not lost.
    const inside = foot.contains(document.activeElement);
    const left = kept.reply.trim() || (kept.args && kept.args.trim() !== pretty(r.approval.args).trim() ? kept.args : '');
    if (!busy && left) {
      actions.keepText(left);
      foot.replaceChildren(line, h('p', { class: 'hint' }, 'What you were writing here is in the message box.'));
    } else foot.replaceChildren(line);
    Object.assign(kept, { reply: '', args: '' });
    finished(session, r.question);
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
    // In place, too: a card that is made anew takes what is typed in it with it.
    if (!old || r.text !== old.text) paint(body, r.text);
    if (!old || r.lines !== old.lines) under = refold(under, r.lines, stamp, actions);
    return true;
  };
  el.patch(row);
  return el;
}

/** The call that an approval is about: its tool and its arguments. */
export function callBlock({ tool, args }) {
  return h('div', { class: 'code call' }, h('div', { class: 'code-head' }, h('span', {}, tool)), h('pre', { tabIndex: 0, 'aria-label': `Arguments of ${tool}` }, h('code', {}, pretty(args))));
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
