// The connection against a socket that the test holds in its hand.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Client, backoff } from './client.js';

// World holds the sockets that were opened, the timers that are set and the clock.
function world(options = {}) {
  const w = { sockets: [], timers: new Map(), told: [], time: 0, next: 0 };
  class Socket {
    constructor(url, protocol) { Object.assign(this, { url, protocol, sent: [], closed: false }); w.sockets.push(this); }
    send(text) { this.sent.push(JSON.parse(text)); }
    close() { this.closed = true; }
    // What the server does.
    accept() { this.onopen(); }
    say(frame) { this.onmessage({ data: JSON.stringify(frame) }); }
    end(code, reason = '') { this.onclose({ code, reason }); }
    last(type) { return this.sent.filter((f) => f.type === type).at(-1); }
  }
  w.client = new Client({
    url: 'ws://x/ws', WebSocket: Socket, random: () => 0.5, now: () => w.time,
    on: (kind, p) => w.told.push([kind, p]),
    setTimeout: (f, ms) => { w.timers.set(++w.next, { f, at: w.time + ms }); return w.next; },
    clearTimeout: (id) => w.timers.delete(id),
    ...options,
  });
  w.advance = (ms) => {
    const end = w.time + ms;
    for (;;) {
      const due = [...w.timers].filter(([, t]) => t.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      w.timers.delete(due[0]);
      w.time = due[1].at;
      due[1].f();
    }
    w.time = end;
  };
  w.socket = () => w.sockets.at(-1);
  w.of = (kind) => w.told.filter(([k]) => k === kind).map(([, p]) => p);
  return w;
}

const settle = () => new Promise((r) => setImmediate(r));

async function greet(w) {
  const s = w.socket();
  s.accept();
  s.say({ type: 'ok', re: s.last('hello').id, data: { conn: 'c1', user: 'me', heartbeat_ms: 25000 } });
  await settle();
  return s;
}

const event = (seq, type = 'message_accepted') => ({ type, session: 's', seq, ts: '', data: {} });

test('hello comes first, with the protocol, the caps and the token', async () => {
  const w = world({ token: () => 'secret' });
  w.client.start();
  assert.equal(w.socket().protocol, 'parley.v1');
  const s = await greet(w);
  assert.deepEqual(s.sent[0].data, { proto: 1, client: { name: 'parley-page', version: '1' }, caps: ['deltas'], token: 'secret' });
  assert.equal(w.of('hello')[0].user, 'me');
});

// N-03
test('after a lost connection it follows from the last seq, of the same log, and drops doubles', async () => {
  const w = world();
  w.client.start();
  let s = await greet(w);
  w.client.follow('s', { tail: 50 });
  assert.deepEqual(s.last('follow').data, { tail: 50 });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l1', head: 11, resumed: true } });
  s.say(event(10)); s.say(event(11)); s.say({ type: 'synced', session: 's', data: { head: 11 } });
  s.end(1006);
  assert.equal(w.of('status').at(-1).state, 'waiting');
  w.advance(w.of('status').at(-1).retryAt - w.time);
  s = await greet(w);
  assert.deepEqual(s.last('follow').data, { since: 11, log: 'l1' });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l1', head: 12, resumed: true } });
  s.say(event(11)); s.say(event(12));
  assert.deepEqual(w.of('frame').filter((f) => f.seq).map((f) => f.seq), [10, 11, 12]);
  assert.deepEqual(w.of('followed').map((f) => f.resumed), [false, true]);
});

test('another log starts the view anew', async () => {
  const w = world();
  w.client.start();
  let s = await greet(w);
  w.client.follow('s', { last: 9, log: 'old' });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'new', head: 3, resumed: false, reason: 'log_changed' } });
  s.say(event(2)); s.say(event(3));
  assert.equal(w.of('followed')[0].resumed, false);
  assert.deepEqual(w.of('frame').map((f) => f.seq), [2, 3]);
});

test('a hole in the numbers is asked for again, once, and never shown', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  w.client.follow('s');
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 1 } });
  s.say(event(1)); s.say(event(4)); s.say(event(5));
  assert.equal(s.sent.filter((f) => f.type === 'follow').length, 2);
  assert.deepEqual(s.last('follow').data, { since: 1, log: 'l' });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 5, resumed: true } });
  for (const seq of [2, 3, 4, 5]) s.say(event(seq));
  assert.deepEqual(w.of('frame').map((f) => f.seq), [1, 2, 3, 4, 5]);
});

test('synced above the last event says that some are missing', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  const synced = (head) => s.say({ type: 'synced', session: 's', after: head, data: { head } });
  w.client.follow('s', { whole: true });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 3, resumed: true } });
  s.say(event(1)); synced(3);
  assert.deepEqual(s.last('follow').data, { since: 1, log: 'l' });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 3, resumed: true } });
  s.say(event(2)); s.say(event(3)); synced(3);
  assert.equal(s.sent.filter((f) => f.type === 'follow').length, 2);
  assert.deepEqual(w.of('frame').map((f) => f.seq ?? f.type), [1, 2, 3, 'synced']);
  w.client.unfollow('s');
  w.client.follow('s', { tail: 0 });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 3, resumed: false } });
  synced(3);
  assert.equal(s.sent.filter((f) => f.type === 'follow').length, 3, 'who asked for no tail misses nothing');
});

test('the positive answer is handled before the events behind it', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  w.client.follow('s');
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'l', head: 1 } });
  s.say(event(1)); // in the same turn
  assert.deepEqual(w.told.slice(-2).map(([k]) => k), ['followed', 'frame']);
});

test('commands that were under way fail as retryable when the connection is lost', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  const answer = w.client.command('send', 's', { client_msg_id: 'a', text: 'x' });
  s.end(1012);
  await assert.rejects(answer, (err) => err.code === 'disconnected' && err.retryable);
});

test('a refusal carries code, sentence and the request to look for', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  const answer = w.client.command('edit', 's', {});
  s.say({ type: 'error', re: s.last('edit').id, error: { code: 'conflict', message: 'The message was read already.', retryable: false } });
  await assert.rejects(answer, (err) => err.code === 'conflict' && err.message === 'The message was read already.' && err.where === 'c1 · 2');
});

test('it waits longer each time, at random, and forgets that after a success', async () => {
  assert.equal(backoff(0, () => 0), 100);
  assert.equal(backoff(0, () => 1), 500);
  assert.equal(backoff(3, () => 1), 4000);
  assert.equal(backoff(99, () => 1), 20000);
  const w = world();
  w.client.start();
  const waits = [];
  for (let i = 0; i < 4; i++) {
    w.socket().end(1006);
    const { retryAt } = w.of('status').at(-1);
    waits.push(retryAt - w.time);
    w.advance(retryAt - w.time);
  }
  assert.deepEqual(waits, [300, 550, 1050, 2050]);
  await greet(w);
  w.socket().end(1006);
  assert.equal(w.of('status').at(-1).retryAt - w.time, 300);
});

test('goaway says how long to wait', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  s.say({ type: 'goaway', data: { code: 1012, reason: 'restart', retry_in_ms: 1234 } });
  s.end(1012);
  assert.equal(w.of('status').at(-1).retryAt - w.time, 1234);
});

test('it comes back after these codes and not after those', async () => {
  for (const [code, state] of [[1000, 'waiting'], [1001, 'waiting'], [1006, 'waiting'], [1012, 'waiting'], [4000, 'waiting'], [4002, 'waiting'], [4003, 'waiting'], [4004, 'waiting'], [4006, 'waiting'], [4007, 'waiting'], [4008, 'waiting'],
    [1003, 'stopped'], [1007, 'stopped'], [1009, 'stopped'], [4500, 'stopped'], [4501, 'stopped'], [4502, 'stopped'], [4503, 'stopped'], [4504, 'stopped']]) {
    const w = world();
    w.client.start();
    const s = await greet(w);
    s.end(code);
    assert.equal(w.of('status').at(-1).state, state, `close code ${code}`);
  }
});

test('a silent connection is replaced; one that answers is kept', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  w.advance(50000);
  s.say({ type: 'hb', data: {} });
  w.advance(50000);
  assert.equal(w.sockets.length, 1);
  w.advance(5001);
  assert.equal(w.of('status').at(-1).state, 'waiting');
  assert.equal(s.closed, true);
});

test('a probe without an answer replaces the connection', async () => {
  const w = world();
  w.client.start();
  await greet(w);
  w.client.probe();
  w.advance(5001);
  assert.equal(w.of('status').at(-1).code, 4003);
});

test('a follow that is refused is told and not tried again', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  w.client.follow('s');
  s.say({ type: 'error', re: s.last('follow').id, error: { code: 'not_found', message: 'There is no such session.' } });
  await settle();
  assert.equal(w.of('unfollowed')[0].error.code, 'not_found');
  assert.equal(w.client.follows.size, 0);
});

test('frames that are no JSON, unknown types and unfollowed sessions are ignored', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  s.onmessage({ data: '{' });
  s.say({ type: 'from_the_future' });
  s.say({ type: 'ok', re: 'not mine', data: {} });
  s.say(event(1));
  assert.deepEqual(w.of('frame'), []);
  assert.deepEqual(w.of('notice').map((f) => f.type), ['from_the_future']);
});

test('an error without a close, as in Node 22, is a lost connection, and so is one that never opens', () => {
  const w = world();
  w.client.start();
  w.socket().onerror({ message: 'refused' });
  w.advance(250);
  assert.equal(w.of('status').at(-1).state, 'waiting');
  w.advance(w.of('status').at(-1).retryAt - w.time);
  assert.equal(w.sockets.length, 2);
  w.advance(15000);
  assert.equal(w.of('status').at(-1).state, 'waiting');
});

// The socket of the package ws tells of a connection that is given up before it was open, a moment
// later, as an event of Node: an error that nobody hears is thrown.
test('a socket that is given up may tell of an error, and one whose server is frozen is ended', async () => {
  const sockets = [];
  class Ws {
    constructor() { sockets.push(this); }
    send() {}
    close() { this.closing = true; }
    terminate() { this.terminated = true; }
    tell() {
      if (!this.onerror) throw new Error('WebSocket was closed before the connection was established');
      this.onerror({ message: 'WebSocket was closed before the connection was established' });
      this.onclose?.({ code: 1006 });
    }
  }
  const w = world({ WebSocket: Ws });
  w.client.start();
  w.advance(15000);
  assert.equal(sockets[0].closing, true);
  sockets[0].tell();
  w.advance(500);
  assert.equal(sockets.length, 2);
  assert.equal(w.of('status').at(-1).state, 'connecting');
  w.client.stop();
  const { length } = w.told;
  assert.equal(sockets[1].terminated, undefined, 'a server that lives is given a moment to agree');
  w.advance(1000);
  assert.deepEqual(sockets.map((s) => !!s.terminated), [false, true]);
  sockets[1].tell();
  assert.equal(w.told.length, length, 'what is left behind tells nothing more');
  assert.equal(w.timers.size, 0);
});

test('a frame that is too long for the server is refused here, and harms no other', async () => {
  const w = world();
  w.client.start();
  const s = w.socket();
  s.accept();
  s.say({ type: 'ok', re: s.last('hello').id, data: { conn: 'c1', heartbeat_ms: 25000, limits: { frame_bytes: 200 } } });
  await settle();
  const long = assert.rejects(w.client.command('send', 's', { text: 'é'.repeat(80) }), { name: 'CommandError', code: 'too_large', retryable: false });
  w.client.command('send', 's', { text: 'e'.repeat(80) }).catch(() => {});
  await long;
  assert.deepEqual(s.sent.filter((f) => f.type === 'send').map((f) => f.data.text), ['e'.repeat(80)]);
});

test('it sends as fast as the limits of hello allow, and in order', async () => {
  const w = world();
  w.client.start();
  const s = w.socket();
  s.accept();
  s.say({ type: 'ok', re: s.last('hello').id, data: { conn: 'c1', heartbeat_ms: 25000, limits: { commands_per_second: 20, commands_burst: 40 } } });
  await settle();
  for (let i = 0; i < 60; i++) w.client.command('send', 's', { n: i }).catch(() => {});
  const sent = () => s.sent.filter((f) => f.type === 'send').map((f) => f.data.n);
  assert.equal(sent().length, 38);
  w.advance(1000);
  assert.ok(sent().length >= 50 && sent().length <= 58, `${sent().length} after a second`);
  w.advance(2000);
  assert.deepEqual(sent(), Array.from({ length: 60 }, (_, i) => i));
});

test('the token may come later, and is renewed before it ends', async () => {
  let n = 0;
  const w = world({ token: async () => ({ token: `t${++n}`, expiresAt: w.time + 100000 }) });
  w.client.start();
  const s = w.socket();
  s.accept();
  await settle();
  assert.equal(s.sent[0].data.token, 't1');
  s.say({ type: 'ok', re: s.last('hello').id, data: { conn: 'c1', heartbeat_ms: 1000000 } });
  await settle();
  w.advance(89000);
  assert.equal(s.last('refresh'), undefined);
  w.advance(1000);
  await settle();
  assert.deepEqual(s.last('refresh').data, { token: 't2' });
});

test('a follow of the whole log that meets another log begins again at its first event', async () => {
  const w = world();
  w.client.start();
  const s = await greet(w);
  w.client.follow('s', { whole: true, last: 90, log: 'old' });
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'new', head: 60, first: 11, resumed: false, reason: 'other_log' } });
  assert.deepEqual(s.last('follow').data, { since: 0, log: 'new' });
  s.say(event(11)); // of the tail
  s.say({ type: 'ok', re: s.last('follow').id, data: { log: 'new', head: 60, first: 1, resumed: true } });
  s.say(event(1)); s.say(event(2));
  assert.deepEqual(w.of('frame').map((f) => f.seq), [1, 2]);
  assert.deepEqual(w.of('followed').map((f) => [f.resumed, f.reason]), [[false, 'other_log']]);
});
