// Files on their way to the server: one after the other, again after a lost
// connection. A file is held until its message is sent, so that it can be sent again.

import { credential } from './api.js';
import { newID } from './dom.js';
import { final, refusal } from './files.js';

// state: ready (to be sent as soon as there is a session), going, stored, failed
const items = new Map();
const listeners = [];
/** Calls f when something has changed for a file. */
export function onUpload(f) { listeners.push(f); }
function changed(item) {
  for (const f of listeners) f(item);
  if (item.state === 'stored' || item.state === 'failed') for (const f of item.waiters.splice(0)) f();
}

/** A file that was added; it goes to session, or waits until there is one. */
export function upload(session, { name, type, bytes }) {
  const item = { local: newID(), session, name, type, size: bytes.length, body: new Blob([bytes], { type }), hash: '', state: 'ready', part: 0, error: '', code: '', waiters: [] };
  items.set(item.local, item);
  next();
  return item;
}

export const item = (local) => items.get(local);

/** What was sent to a conversation that was erased, and nobody wants any more. */
export function giveUpAll(session) {
  for (const it of [...items.values()]) if (it.session === session) giveUp(it.local);
}

/** Nobody wants it any more, or its message is sent. */
export function giveUp(local) {
  const it = items.get(local);
  items.delete(local);
  if (it?.xhr) it.xhr.abort();
}

/** Sends it again that was refused. */
export function again(local) {
  const it = items.get(local);
  if (!it || it.state !== 'failed') return;
  Object.assign(it, { state: 'ready', part: 0, error: '', code: '' });
  changed(it);
  next();
}

/** What belongs to a new conversation belongs to session now, or to none ('') again. */
export function belongs(local, session) {
  const it = items.get(local);
  if (!it || it.session === session) return;
  Object.assign(it, { session, hash: '', part: 0, state: 'ready' });
  next();
}

/**
 * Waits until all files of a message are stored; gives them with their hashes and
 * tells each with got(local, hash). Throws if one was refused.
 */
export async function allStored(session, attachments, got = () => {}) {
  return Promise.all(attachments.map(async (a) => {
    if (a.hash) return a;
    const it = items.get(a.local);
    if (!it) throw new Error(`${a.name} is not here any more: attach it again.`);
    if (!it.session) it.session = session;
    next();
    if (it.state !== 'stored' && it.state !== 'failed') await new Promise((resolve) => { it.waiters.push(resolve); });
    if (it.state === 'failed') throw Object.assign(new Error(`${it.name}: ${it.error}`), { code: it.code });
    got(it.local, it.hash);
    return { ...a, hash: it.hash };
  }));
}

/** The server does not have them any more; true if all of them can be sent again from here. */
export function lostThere(attachments) {
  const list = attachments.map((a) => items.get(a.local));
  if (!list.length || list.includes(undefined)) return false;
  for (const it of list) Object.assign(it, { state: 'ready', hash: '', part: 0 });
  return true;
}

let going = null;
let pause = 0;
let timer = 0;
/** The server can be reached again. */
export function resume() {
  pause = 0;
  clearTimeout(timer);
  timer = 0;
  next();
}

function next() {
  if (going || timer) return;
  going = [...items.values()].find((it) => it.state === 'ready' && it.session) || null;
  if (!going) return;
  const it = going;
  it.state = 'going';
  it.error = '';
  changed(it);
  send(it).then(({ status, data }) => {
    going = null;
    if (!items.has(it.local)) { next(); return; }
    if (status === 200 || status === 201) {
      pause = 0;
      Object.assign(it, { state: 'stored', hash: data.hash, name: data.name || it.name, part: 1 });
    } else if ([0, 401, 408, 429, 502, 503, 504].includes(status)) {
      pause = Math.min(30000, pause * 2 || 500);
      Object.assign(it, { state: 'ready', part: 0, error: status ? 'The server is busy; it is tried again.' : 'No connection; it is tried again.' });
      timer = setTimeout(() => { timer = 0; next(); }, pause);
    } else {
      Object.assign(it, { state: 'failed', part: 0, code: data.code || '', error: refusal(data.code, data.detail || data.title), final: final(data.code) });
    }
    changed(it);
    next();
  });
}

// fetch does not tell how far a body has got.
function send(it) {
  return new Promise((resolve) => {
    const xhr = it.xhr = new XMLHttpRequest();
    xhr.open('POST', `/api/sessions/${encodeURIComponent(it.session)}/blobs?name=${encodeURIComponent(it.name)}`);
    xhr.setRequestHeader('Content-Type', it.type);
    xhr.setRequestHeader('Accept', 'application/json');
    const token = credential.token();
    if (token) xhr.setRequestHeader('Authorization', `Bearer ${token}`);
    xhr.upload.addEventListener('progress', (e) => { it.part = e.total ? e.loaded / e.total : 0; changed(it); });
    xhr.addEventListener('loadend', () => {
      it.xhr = null;
      let data = {};
      try { data = JSON.parse(xhr.responseText); } catch { /* not ours: the status says enough */ }
      resolve({ status: xhr.status, data });
    });
    xhr.send(it.body);
  });
}
