// The box below the conversation: what is written, how it joins the work, and
// the button that stops the work.

import { composer } from './composer.js';
import { h, icon } from './dom.js';
import { command } from './actions.js';
import { remember } from './memory.js';
import { send, typing } from './sending.js';
import { openQuestions, working } from './store.js';
import { $, state } from './state.js';
import { onPaint, readonly } from './view.js';

export const box = composer({
  label: 'Message', placeholder: 'Message…', id: 'message', submit,
  onInput: (t) => { remember(state.view?.session || '', t); typing(!!t.trim()); },
});
export const stop = h('button', { type: 'button', class: 'stop', 'aria-label': 'Stop', title: 'Stop (Esc)', hidden: true, onclick: () => cancel() }, icon('stop'));
const mode = h('select', { 'aria-label': 'What this message does while a task runs' },
  h('option', { value: '' }, 'Joins in'), h('option', { value: 'queue' }, 'Queues up'), h('option', { value: 'interrupt' }, 'Interrupts'));
const modeBox = h('label', { class: 'mode', hidden: true }, mode);
box.button.before(modeBox, stop);
$('composer-slot').append(box.element);

function submit(text) {
  const sent = send(text, { mode: mode.value });
  if (sent) mode.value = '';
  return sent;
}

/** Puts the cursor into the box, except where that opens a keyboard over the screen. */
export function toInput() { if (!('ontouchstart' in window)) box.focus(); }

/** Puts a text below what is in the box: it was written where it cannot be sent any more. */
export function keepText(text) {
  box.value = [box.value.trim(), text.trim()].filter(Boolean).join('\n');
  remember(state.view?.session || '', box.value);
}

export async function cancel() {
  const w = state.view && working(state.view);
  if (!w) return;
  if (document.activeElement === stop) toInput();
  stop.disabled = true;
  await command('Nothing was stopped.', 'cancel', w.task ? { task: w.task } : {});
  draw(state.view);
}

function draw(view) {
  const ro = readonly() && !!view?.session;
  if (box.element.hidden !== ro) { box.element.hidden = ro; box.refresh(); }
  if (view?.gone && box.value) box.value = '';
  const w = view ? working(view) : null;
  const busy = !!w && w.state !== 'awaiting';
  if ((!w || ro) && document.activeElement === stop) toInput();
  stop.hidden = !w || ro;
  stop.disabled = w?.state === 'stopping';
  modeBox.hidden = !busy || ro;
  const open = view ? openQuestions(view).filter((q) => q.blocking && !q.approval) : [];
  const place = open.length ? 'Type your answer…' : busy ? 'Add something, it joins the work…' : 'Message…';
  if (box.input.placeholder !== place) box.input.placeholder = place;
  const hint = ro ? (view.gone ? '' : view.closed ? 'This conversation is closed.' : 'A delegated conversation can only be read.') : 'Enter to send, Shift+Enter for a new line';
  if ($('composer-hint').textContent !== hint) $('composer-hint').textContent = hint;
}
onPaint(draw);
