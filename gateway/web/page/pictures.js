// Files of messages on the screen: small pictures, chips for texts, and each as a
// whole in a dialog. The policy of the page lets pictures be data: alone, and a
// request for one has to carry the key, so they are loaded and drawn here.

import { sessions as api } from './api.js';
import { h, icon } from './dom.js';
import { isPicture, sizeOf } from './files.js';
import { use } from './lazy.js';
import { state } from './state.js';
import { item, onUpload } from './uploads.js';

const WIDE = 480;
const HIGH = 320;
const KEPT = 100;          // small pictures, of some 10 KB each
const small = new Map();   // session/hash or local -> data: address

/** The small picture of bytes as an address. */
async function drawn(key, body) {
  const bitmap = await createImageBitmap(body);
  const scale = Math.min(1, WIDE / bitmap.width, HIGH / bitmap.height);
  const canvas = h('canvas', { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)) });
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const url = canvas.toDataURL('image/webp', 0.8);
  small.delete(key);
  small.set(key, url);
  for (const k of small.keys()) { if (small.size <= KEPT) break; small.delete(k); }
  return url;
}

// Drawn here already, it is not loaded again when its message comes back.
onUpload((it) => {
  if (it.hash && small.has(it.local)) small.set(`${it.session}/${it.hash}`, small.get(it.local));
});

/** Of a conversation that was erased nothing stays. */
export function forgetPictures(session) {
  for (const key of [...small.keys()]) if (key.startsWith(`${session}/`)) small.delete(key);
}

// Few at once, in the order in which they come to the screen.
const lanes = [Promise.resolve(), Promise.resolve()];
let lane = 0;
function inTurn(work) {
  const n = lane++ % lanes.length;
  lanes[n] = lanes[n].then(work, work);
  return lanes[n];
}

const watcher = typeof IntersectionObserver === 'undefined' ? null : new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting) { watcher.unobserve(e.target); e.target.load?.(); }
}, { rootMargin: '400px' });

/** The small picture of a file {local, hash, name} of session. */
export function thumbnail(session, a) {
  const img = h('img', { alt: a.name, draggable: 'false' });
  const key = a.hash ? `${session}/${a.hash}` : a.local;
  const known = small.get(key) || small.get(a.local);
  if (known) { img.src = known; return img; }
  const show = (url) => { img.src = url; };
  const fail = () => { img.closest('.attachment')?.classList.add('unseen'); };
  const here = item(a.local);
  const alias = (url) => { if (here?.hash) small.set(`${here.session}/${here.hash}`, url); return url; };
  img.load = () => (here ? drawn(key, here.body).then(alias) : inTurn(async () => (img.isConnected || null) && drawn(key, await api.blob(session, a.hash)))).then((url) => url && show(url), fail);
  if (here || !watcher) img.load(); else watcher.observe(img);
  return img;
}

const showFile = use('showFile');

/** A file of a message: a picture that can be opened, or a chip; lost = it never came to the server. */
export function attachment(a) {
  const { session } = state.view;
  const words = [h('bdi', { class: 'file-name' }, a.name), h('span', { class: 'file-size' }, a.lost ? 'was not uploaded; attach it again' : sizeOf(a.size))];
  if (a.lost || !(a.hash || a.local)) return h('li', {}, h('span', { class: 'attachment file lost' }, icon('file'), ...words));
  const label = `Open ${a.name}, ${sizeOf(a.size)}`;
  const open = () => showFile(session, a);
  if (!isPicture(a.type)) return h('li', {}, h('button', { type: 'button', class: 'attachment file', 'aria-label': label, onclick: open }, icon('file'), ...words));
  return h('li', {}, h('button', { type: 'button', class: 'attachment picture', title: label, onclick: open }, thumbnail(session, a), h('span', { class: 'caption' }, ...words)));
}
