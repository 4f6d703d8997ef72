// Files for the next message: added with the button, dropped on the conversation or
// pasted, and shown as chips above the message box until the message is sent.

import { h, icon, iconButton, reconcile, toast } from './dom.js';
import { isFull, isPicture, sizeOf, takesFiles, typeOf } from './files.js';
import { forgetPictures, thumbnail } from './pictures.js';
import { onCreated } from './sending.js';
import { $, state, stored } from './state.js';
import { again, belongs, giveUp, giveUpAll, item, onUpload, upload } from './uploads.js';
import { onPaint, readonly } from './view.js';

const lists = new Map();   // session, '' for the new one -> its files {local, hash, name, type, size}
const input = h('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files to attach', tabIndex: -1, id: 'files' });
const button = iconButton('clip', 'Attach files', () => input.click(), 'attach');
const chips = h('ul', { class: 'files', 'aria-label': 'Attached files', hidden: true });
const said = h('p', { class: 'visually-hidden', role: 'status' });
const zone = h('div', { class: 'drop-zone', hidden: true, 'aria-hidden': 'true' }, h('p', {}, icon('clip'), 'Drop files to attach them'));
let box = null;

/** Puts the button and the chips to the message box. */
export function attachTo(composer) {
  box = composer;
  box.input.before(button, input);
  box.element.before(chips, said);
  $('conversation').append(zone);
  box.input.addEventListener('paste', (e) => {
    const files = [...e.clipboardData?.files || []];
    // Office programs put a picture of the text beside it: then the text is meant.
    const text = e.clipboardData?.getData('text/plain') && e.clipboardData.getData('text/html');
    if (!files.length || text || !can()) return;
    e.preventDefault();
    add(files);
  });
}

const here = () => state.view?.session || '';
const limits = () => state.hello?.limits;
const can = () => takesFiles(limits()) && (!state.view?.session || !readonly());

function listOf(session) {
  if (!lists.has(session)) lists.set(session, kept(session));
  return lists.get(session);
}

/** Whether the next message of the open conversation has files. */
export const hasFiles = () => listOf(here()).length > 0;

/** The files for the next message, or null if one of them cannot be sent. */
export function filesToSend() {
  const bad = listOf(here()).find((a) => item(a.local)?.state === 'failed');
  if (!bad) return listOf(here());
  toast(`The message was not sent: ${bad.name} could not be uploaded. Remove it, or try it again.`, { tone: 'bad' });
  return null;
}

/** They are with a message now. */
export function filesSent() { change(here(), []); }

/** Of a conversation that was erased nothing stays but what was to be sent. */
export function forgetFiles(session) {
  const own = listOf(session).filter((a) => item(a.local));
  lists.delete(session);
  stored('tab', `parley.files.${session}`, '');
  for (const key of [...lists.keys()]) if (key.startsWith(`${session}/`)) lists.delete(key);
  for (const a of own) belongs(a.local, '');
  giveUpAll(session);
  forgetPictures(session);
  if (!own.length) return;
  change('', [...listOf(''), ...own.map((a) => ({ ...a, hash: '' }))]);
}

function change(session, list) {
  lists.set(session, list);
  stored('tab', `parley.files.${session}`, list.length ? JSON.stringify(list.map(({ hash, name, type, size }) => ({ hash, name, type, size }))) : '');
  draw();
}

// What was chosen before the page was loaded again: what is on the server stays chosen.
function kept(session) {
  let list = [];
  try { list = JSON.parse(stored('tab', `parley.files.${session}`) || '[]'); } catch { /* not ours */ }
  if (!Array.isArray(list)) return [];
  const lost = list.filter((a) => !a.hash);
  if (lost.length) {
    toast(`${lost.map((a) => a.name).join(', ')}: not uploaded before the page was loaded again. Attach it again.`, { tone: 'bad' });
    list = list.filter((a) => a.hash);
    stored('tab', `parley.files.${session}`, list.length ? JSON.stringify(list) : '');
  }
  return list;
}

async function add(files) {
  const session = here();
  const given = limits();
  const { attachment_bytes: bytes, attachments_per_message: most } = given;
  for (const f of files) {
    const refuse = (why) => toast(`${f.name} was not attached. ${why}`, { tone: 'bad' });
    if (isFull(given, listOf(session).length)) { refuse(`A message has at most ${most} files: send the others with another message.`); return; }
    if (f.size > bytes) { refuse(`It is too large: ${sizeOf(f.size)}, at most ${sizeOf(bytes)}. Make it smaller, or attach a part of it.`); continue; }
    let content;
    try { content = new Uint8Array(await f.arrayBuffer()); } catch { refuse('It could not be read. A folder cannot be attached: attach its files.'); continue; }
    if (!content.length) { refuse('It is empty.'); continue; }
    const type = typeOf(f.type, content);
    if (!type) { refuse('It is neither a PNG, JPEG, GIF or WebP picture nor UTF-8 text. Save it as one of these.'); continue; }
    if (isFull(given, listOf(session).length)) { refuse(`A message has at most ${most} files: send the others with another message.`); return; }
    const it = upload(session, { name: f.name || 'file', type, bytes: content });
    change(session, [...listOf(session), { local: it.local, hash: '', name: it.name, type, size: it.size }]);
    said.textContent = `${it.name} is attached.`;
  }
}

function remove(session, a) {
  giveUp(a.local);
  const inside = chips.contains(document.activeElement);
  change(session, listOf(session).filter((x) => x !== a));
  said.textContent = `${a.name} is removed.`;
  if (inside) (chips.querySelector('button:not([hidden])') || box.input).focus();
}

// ---- the chips -----------------------------------------------------------------

let drawnOf = null;
const rows = new Map();   // session and id -> {el}
const idOf = (a) => a.local || a.hash;
function draw() {
  if (!box) return;
  const session = here();
  const list = listOf(session);
  button.hidden = !can();
  if (drawnOf === list) return;
  drawnOf = list;
  reconcile(chips, list, rows, (a) => `${session} ${idOf(a)}`, (a) => chip(session, a), (el, a) => { el.of = a; return true; });
  chips.hidden = !list.length;
  for (const a of list) tell(a);
  box.refresh();
}

function chip(session, a) {
  const el = h('li', { class: 'chip' },
    isPicture(a.type) ? thumbnail(session, a) : icon('file'),
    h('span', { class: 'chip-words' }, h('bdi', { class: 'file-name' }, a.name), h('span', { class: 'file-size' })),
    h('button', { type: 'button', class: 'link-button', hidden: true, onclick: () => again(a.local) }, 'Try again'),
    iconButton('x', `Remove ${a.name}`, () => remove(here(), el.of), 'small'));
  if (isPicture(a.type)) el.firstChild.alt = '';
  el.of = a;
  return el;
}

// How far it is.
function tell(a) {
  const el = rows.get(`${here()} ${idOf(a)}`)?.el;
  const it = item(a.local);
  if (!el) return;
  const words = !it || it.state === 'stored' ? sizeOf(a.size)
    : it.state === 'going' ? `Uploading ${Math.floor(it.part * 100)} % of ${sizeOf(a.size)}`
      : it.error || `${sizeOf(a.size)}${it.session ? ', waits to be uploaded' : ''}`;
  const size = el.querySelector('.file-size');
  if (size.textContent !== words) size.textContent = words;
  el.dataset.state = it?.state || 'stored';
  el.querySelector('.link-button').hidden = it?.state !== 'failed' || !!it.final;
}

onUpload((it) => {
  for (const [session, list] of lists) {
    const a = list.find((x) => x.local === it.local);
    if (!a) continue;
    if (it.hash && a.hash !== it.hash) change(session, list.map((x) => (x === a ? { ...x, hash: it.hash } : x)));
    else if (session === here()) tell(a);
    if (it.state === 'failed') toast(`${it.name} was not uploaded. ${it.error}`, { tone: 'bad' });
  }
});

// What was added while the conversation was created belongs to it.
onCreated((session, here) => {
  if (!here) return;
  const list = listOf('');
  if (!list.length) return;
  change('', []);
  for (const a of list) belongs(a.local, session);
  change(session, list);
});

onPaint(draw);

// ---- files that are dropped -----------------------------------------------------

input.addEventListener('change', () => {
  add([...input.files]);
  input.value = '';
  box.focus();
});

const area = $('conversation');
const brings = (e) => e.dataTransfer?.types.includes('Files') && can();
for (const type of ['dragenter', 'dragover']) {
  area.addEventListener(type, (e) => {
    if (!brings(e)) return;
    e.preventDefault();
    e.dataTransfer.dropEffect = 'copy';
    zone.hidden = false;
  });
}
area.addEventListener('dragleave', (e) => { if (!area.contains(e.relatedTarget)) zone.hidden = true; });
area.addEventListener('drop', (e) => {
  zone.hidden = true;
  if (!brings(e)) return;
  e.preventDefault();
  add([...e.dataTransfer.files]);
});
