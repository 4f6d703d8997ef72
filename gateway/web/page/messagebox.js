// The box below the conversation: what is written, how it joins the work, and
// the button that stops the work.

import { attachTo, filesSent, filesToSend, hasFiles } from './attachments.js';
import { MODES } from './choices.js';
import { composer } from './composer.js';
import { h, icon } from './dom.js';
import { command } from './actions.js';
import { remember, remembered } from './memory.js';
import { menuButton } from './menu.js';
import { reply, replyingTo } from './replying.js';
import { send, typing } from './sending.js';
import { openQuestions, working } from './store.js';
import { $, state } from './state.js';
import { onPaint, readonly } from './view.js';

export const box = composer({
  label: 'Message', placeholder: 'Message…', id: 'message', submit, more: hasFiles,
  onInput: (t) => { remember(state.view?.session || '', t); typing(!!t.trim()); },
});
export const stop = h('button', { type: 'button', class: 'stop', 'aria-label': 'Stop', title: 'Stop (Esc)', hidden: true, onclick: () => cancel() }, icon('stop'));

// What a message does while work goes on; first what it does if nothing is said.
function modes() {
  const usual = MODES[state.view?.policy['inbox.mode']] || MODES.steer;
  return [['', ...usual], ...['steer', 'queue', 'interrupt'].filter((m) => MODES[m] !== usual && state.hello?.modes?.includes(m)).map((m) => [m, ...MODES[m]])];
}
const chosen = new Map(); // conversation -> the mode of the next message in it
const mode = () => chosen.get(state.view?.session || '') || '';
let said = null;
const modeButton = h('button', { type: 'button', class: 'mode-button', hidden: true });
menuButton(modeButton, 'What your message does while work goes on', () => modes().map(([value, label, hint]) => ({ label, hint, checked: mode() === value, run: () => { setMode(value); toInput(); } })));
function setMode(value) {
  const [now, label, hint] = modes().find(([v]) => v === value) || modes()[0];
  if (now) chosen.set(state.view?.session || '', now); else chosen.delete(state.view?.session || '');
  if (said === label) return;
  said = label;
  modeButton.replaceChildren(h('span', {}, label), icon('down'));
  modeButton.title = hint;
  modeButton.setAttribute('aria-label', `What your message does: ${label}`);
}
setMode('');
box.button.before(modeButton, stop);
$('composer-slot').append(box.element);
attachTo(box);

function submit(text) {
  const attachments = filesToSend();
  if (!attachments) return false;
  const sent = send(text, { mode: mode(), in_reply_to: replyingTo(), attachments });
  if (sent) { setMode(''); reply(null); filesSent(); }
  return sent;
}

/** Puts the cursor into the box, except where that opens a keyboard over the screen. */
export function toInput() { if (!('ontouchstart' in window)) box.focus(); }

/** Puts a text below what is in the box: it was written where it cannot be sent any more. */
export function keepText(text) {
  if (state.view?.gone) { // nothing stays in one that was erased
    remember('', [remembered('').trim(), text.trim()].filter(Boolean).join('\n'));
    return;
  }
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
  modeButton.hidden = !busy || ro;
  setMode(mode());
  const open = view ? openQuestions(view).filter((q) => q.blocking && !q.approval) : [];
  const place = open.length ? 'Type your answer…' : busy ? (matchMedia('(max-width: 560px)').matches ? 'Add…' : 'Add something, it joins the work…') : 'Message…';
  if (box.input.placeholder !== place) box.input.placeholder = place;
  const hint = ro ? (view.gone ? '' : view.closed ? 'This conversation is closed.' : 'A delegated conversation can only be read.') : 'Enter to send, Shift+Enter for a new line';
  if ($('composer-hint').textContent !== hint) $('composer-hint').textContent = hint;
}
onPaint(draw);
