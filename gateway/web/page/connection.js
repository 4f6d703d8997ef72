// The connection and what is said of it: the dot below the list, the banner
// above the conversation, and the question for an access key.

import { credential } from './api.js';
import { Client } from './client.js';
import { h } from './dom.js';
import { exact } from './exact.js';
import { handOver } from './handover.js';
import { use } from './lazy.js';
import { $, state, stored } from './state.js';

credential.token = () => stored('tab', 'parley.token');

/** What the client tells, by its kind; each part of the page adds what it wants to hear. */
export const handlers = { status: show, latency(ms) { $('connection').title = `${state.hello?.user || ''} · ${ms} ms`; } };

// The first one is the socket that early.js made, if it is still good for something.
function Socket(url, protocol) {
  const { early } = globalThis;
  globalThis.early = null;
  return early?.socket.readyState <= WebSocket.OPEN ? handOver(early) : new WebSocket(url, protocol);
}

export const client = new Client({
  WebSocket: Socket,
  url: `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/ws`,
  token: credential.token,
  parse: exact,
  on: (kind, p) => handlers[kind]?.(p),
});

let countdown = 0;
function show(s) {
  clearInterval(countdown);
  $('connection').dataset.state = s.state;
  const word = { connecting: 'Connecting', open: state.hello?.user ? `Connected as ${state.hello.user}` : 'Connected', waiting: 'Offline', stopped: 'Disconnected' }[s.state];
  if ($('connection-text').textContent !== word) $('connection-text').textContent = word;
  if (s.state === 'waiting') {
    state.unclear = true;
    const left = h('span', { 'aria-hidden': 'true' });
    const tick = () => { left.textContent = ` Reconnecting in ${Math.max(0, Math.ceil((s.retryAt - Date.now()) / 1000))} s`; };
    tick();
    countdown = setInterval(tick, 250);
    banner(['Connection lost.', left, h('button', { type: 'button', class: 'link-button', onclick: () => client.retryNow() }, 'Reconnect now')], 'bad');
  } else if (s.state === 'connecting') {
    if (state.unclear) banner('Connection lost. Reconnecting…', 'bad');
  } else if (s.state === 'open') {
    const { view } = state;
    if (state.unclear && (!view || !view.session || view.gone)) { state.unclear = false; banner('Back online.', 'good', 2500); }
  } else if (s.code === 4501 || s.code === 4502) {
    signIn(s.reason);
  } else if (s.code !== 1000) {
    banner([`Disconnected: ${s.reason}.`, h('button', { type: 'button', class: 'link-button', onclick: () => client.start() }, 'Try again')], 'bad');
    handlers.given_up?.(s.reason);
  }
}

const askKey = use('askKey');
async function signIn(reason) {
  $('banner').hidden = true;
  const key = await askKey(stored('tab', 'parley.token') ? reason : null);
  if (key === undefined) { // the dialog could not be loaded
    banner(['Not signed in.', h('button', { type: 'button', class: 'link-button', onclick: () => signIn(reason) }, 'Try again')], 'bad');
    return;
  }
  stored('tab', 'parley.token', key);
  client.start();
}

let bannerTimer = 0;
/** Says something above the conversation, for ms milliseconds or until the next one. */
export function banner(content, tone, ms) {
  const b = $('banner');
  clearTimeout(bannerTimer);
  b.dataset.tone = tone;
  b.replaceChildren(...[].concat(content));
  b.hidden = false;
  if (ms) bannerTimer = setTimeout(() => { b.hidden = true; }, ms);
}
