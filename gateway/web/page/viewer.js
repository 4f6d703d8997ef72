// A file of a message as a whole, in a dialog: a picture or a text.

import { sessions as api } from './api.js';
import { dialog } from './dialogs.js';
import { complain, h } from './dom.js';
import { isPicture } from './files.js';
import { state } from './state.js';
import { item } from './uploads.js';

const SHOWN = 200_000; // characters of a text

const bytes = async (session, a) => item(a.local)?.body || api.blob(session, a.hash);

/** Opens a file of a message in a dialog. */
export async function showFile(session, a) {
  if (document.querySelector('dialog[open]')) return; // it may be pressed twice
  let body;
  try { body = await bytes(session, a); } catch (err) { complain(`${a.name} could not be loaded.`, err); return; }
  if (state.view?.session !== session || document.querySelector('dialog[open]')) return;
  const picture = isPicture(a.type);
  let content;
  if (picture) content = h('div', { class: 'viewer-picture' }, h('img', { alt: a.name, src: await address(body) }));
  else {
    const text = await body.text();
    content = h('pre', { tabIndex: 0, 'aria-label': a.name }, text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);
  }
  dialog({ class: 'wide viewer', 'aria-label': a.name, 'data-session': session },
    h('h2', {}, h('bdi', {}, a.name)), content,
    h('div', { class: 'dialog-actions' },
      h('button', { type: 'button', class: 'plain-button', onclick: () => save(a.name, body) }, 'Download'),
      h('button', { type: 'submit', class: 'plain-button', autofocus: true }, 'Close')));
}

function address(body) {
  return new Promise((resolve, reject) => {
    const r = new FileReader();
    r.addEventListener('load', () => resolve(r.result));
    r.addEventListener('error', () => reject(r.error));
    r.readAsDataURL(body);
  });
}

function save(name, body) {
  const url = URL.createObjectURL(body);
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
