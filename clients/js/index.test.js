// What index.js builds on the connection, against a socket that the test holds in its hand.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connect } from './index.js';

const settle = () => new Promise((r) => { setTimeout(r, 0); });

async function world(options = {}) {
  const w = { sockets: [], timers: [], saved: [] };
  class Socket {
    constructor(url) { Object.assign(this, { url, sent: [] }); w.sockets.push(this); }
    send(text) { this.sent.push(JSON.parse(text)); }
    close() {}
    say(...frames) { for (const f of frames) this.onmessage({ data: JSON.stringify(f) }); } // all in one turn, as Node does
    last(type) { return this.sent.filter((f) => f.type === type).at(-1); }
    all(type) { return this.sent.filter((f) => f.type === type); }
    ok(type, data) { return { type: 'ok', re: this.last(type).id, data }; }
  }
  w.parley = connect('http://x/', { WebSocket: Socket, random: () => 0, setTimeout: (f, ms) => { const t = { f, ms }; w.timers.push(t); return t; }, clearTimeout: (t) => { if (t) t.f = () => {}; }, ...options });
  w.greet = async () => {
    await settle();
    const s = w.sockets.at(-1);
    s.onopen();
    await settle();
    s.say(s.ok('hello', { conn: 'c1', user: 'me', heartbeat_ms: 25000 }));
    await settle();
    return s;
  };
  w.run = async (ms) => { const due = w.timers.filter((t) => t.ms === ms); w.timers = w.timers.filter((t) => t.ms !== ms); for (const t of due) t.f(); await settle(); };
  w.socket = await w.greet();
  return w;
}

const event = (seq, type = 'message_accepted', data = {}) => ({ type, session: 's', seq, ts: '', data });
const follow = (s, more = {}) => s.ok('follow', { session: 's', log: 'l', head: 0, first: 1, resumed: true, state: {}, ...more });

test('the answer precedes the events of its commit, also for code that awaits it', async () => {
  const w = await world();
  const s = w.parley.session('s');
  const seen = [];
  s.on('event', (f) => seen.push(f.seq));
  (async () => { for await (const f of s.events()) seen.push(`read ${f.seq}`); })();
  w.socket.say(follow(w.socket));
  await settle();
  const sent = (async () => { const wrapped = await (async () => await s.send('x'))(); seen.push(`ok ${wrapped.seq}`); })();
  await settle();
  w.socket.say(w.socket.ok('send', { message: 'm1', seq: 1, duplicate: false, disposition: 'started' }), event(1), event(2));
  await sent;
  await settle();
  await settle();
  assert.equal(seen[0], 'ok 1');
  assert.deepEqual(seen.filter(Number.isInteger), [1, 2]);
  assert.deepEqual(seen.filter((x) => /^read/.test(x)), ['read 1', 'read 2']);
  w.parley.close();
});

test('a listener that throws is heard of, and harms nobody else', async () => {
  const w = await world();
  const s = w.parley.session('s');
  w.socket.say(follow(w.socket));
  await settle();
  const seen = []; const read = []; const broken = [];
  s.on('event', ({ seq }) => { if (seq === 1 || seq === 4) throw new Error(`bug at ${seq}`); });
  s.on('event', ({ seq }) => seen.push(seq));
  (async () => { for await (const { seq } of s.events()) read.push(seq); })();
  const heard = (err) => broken.push(err.message);
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException').on('uncaughtException', heard);
  try {
    const sent = s.send('x');
    await settle();
    w.socket.say(w.socket.ok('send', { message: 'm1', seq: 1, duplicate: false, disposition: 'started' }), event(1), event(2), event(3));
    await sent;
    w.socket.say(event(4));
    await settle();
    await settle();
    w.socket.say(event(5));
    await settle();
  } finally {
    process.removeListener('uncaughtException', heard);
    for (const f of others) process.on('uncaughtException', f);
  }
  assert.deepEqual([seen, read], [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]);
  assert.deepEqual(broken, ['bug at 1', 'bug at 4']);
  w.parley.close();
});

test('what is not acknowledged is sent again under its id, one at a time, in order', async () => {
  const stored = [];
  const w = await world({ storage: { load: () => [], save: (all) => { stored.push(all.map((e) => e.id)); } } });
  const s = w.parley.session('s');
  const answers = [s.send('one', { id: 'a' }), s.send('two', { id: 'b' })];
  await settle();
  assert.deepEqual(w.socket.all('send').map((f) => f.data.client_msg_id), ['a']);
  w.socket.onclose({ code: 1006, reason: '' });
  await w.run(100);
  const again = await w.greet();
  assert.deepEqual(again.all('send').map((f) => f.data), [{ client_msg_id: 'a', text: 'one' }]);
  again.say(again.ok('send', { message: 'm1', seq: 1, duplicate: true, disposition: 'started' }));
  await settle();
  again.say(again.ok('send', { message: 'm2', seq: 2, duplicate: false, disposition: 'joined' }));
  assert.deepEqual((await Promise.all(answers)).map((r) => r.message), ['m1', 'm2']);
  await settle();
  assert.deepEqual(stored[0], ['a']);
  assert.deepEqual(stored.at(-1), []);
  w.parley.close();
});

test('a message that an earlier run left in the storage is sent', async () => {
  const w = await world({ storage: { load: async () => [{ id: 'old', type: 'send', session: 's', data: { client_msg_id: 'old', text: 'x' } }], save: async () => {} } });
  assert.equal(w.socket.last('send').data.client_msg_id, 'old');
  w.parley.close();
});

test('a refusal that may pass is tried again not before its time, and lets no later message overtake', async () => {
  const w = await world();
  const s = w.parley.session('s');
  const first = s.send('one', { id: 'a' });
  s.send('two', { id: 'b' }).catch(() => {});
  await settle();
  w.socket.say({ type: 'error', re: w.socket.last('send').id, error: { code: 'rate_limited', message: 'too many', retryable: true, retry_after_ms: 700 } });
  await settle();
  assert.equal(w.socket.all('send').length, 1);
  await w.run(700);
  assert.deepEqual(w.socket.all('send').map((f) => f.data.client_msg_id), ['a', 'a']);
  w.socket.say({ type: 'error', re: w.socket.last('send').id, error: { code: 'conflict', message: 'another text', retryable: false } });
  await assert.rejects(first, { code: 'conflict' });
  await settle();
  assert.equal(w.socket.last('send').data.client_msg_id, 'b');
  w.parley.close();
});

test('drafts count code points, end with the part that names them, and start anew after a reconnect', async () => {
  const w = await world();
  const s = w.parley.session('s');
  w.socket.say(follow(w.socket));
  const delta = (at, text) => ({ type: 'delta', session: 's', after: 0, data: { draft: '1.1.0', at, text } });
  w.socket.say(delta(0, '👍🏽 ok'), delta(5, '!'));
  await settle();
  assert.equal(s.drafts.get('1.1.0').text, '👍🏽 ok!');
  w.socket.say(delta(9, 'lost'));
  assert.equal(s.drafts.get('1.1.0').text, '👍🏽 ok!', 'a delta behind what is here waits for draft_state');
  const ended = [];
  s.on('draft_end', (d) => ended.push(d.draft));
  w.socket.say(event(1, 'response', { draft: '1.1.0', text: '👍🏽 ok!' }));
  assert.deepEqual([ended, s.drafts.size], [['1.1.0'], 0]);
  w.parley.close();
});

test('ask waits for what becomes of the message', async () => {
  const w = await world();
  const s = w.parley.session('s');
  w.socket.say(follow(w.socket));
  const answer = s.ask('2+2?');
  await settle();
  w.socket.say(w.socket.ok('send', { message: 'm1', seq: 1, duplicate: false, disposition: 'started' }),
    event(1), event(2, 'response', { in_reply_to: 'm1', text: '4' }), event(3, 'message_resolved', { message: 'm1', how: 'answered' }));
  assert.deepEqual((({ how, text }) => ({ how, text }))(await answer), { how: 'answered', text: '4' });
  w.parley.close();
});

test('ask has a part that becomes the last one once, also where nothing proves that it answers', async () => {
  const w = await world();
  const s = w.parley.session('s');
  w.socket.say(follow(w.socket));
  const answer = s.ask('What time is it?');
  await settle();
  const part = { message: 'p1', in_reply_to: 'm1', guessed: true, text: 'It is noon.' };
  w.socket.say(w.socket.ok('send', { message: 'm1', seq: 1, duplicate: false, disposition: 'started' }),
    event(1), event(2, 'partial_response', part), event(3, 'response', { ...part, final: true, promoted: true }), event(4, 'message_resolved', { message: 'm1', how: 'unanswered' }));
  assert.deepEqual((({ how, text }) => ({ how, text }))(await answer), { how: 'unanswered', text: 'It is noon.' });
  w.parley.close();
});

test('an approval is answered with true, false, or other arguments', async () => {
  const w = await world();
  const s = w.parley.session('s');
  s.answer('q1', true).catch(() => {});
  await settle();
  assert.deepEqual(JSON.parse(w.socket.last('answer').data.text), { approve: true });
  w.parley.close();
});

test('another log is told with its reason; a first follow of the tail is no such thing', async () => {
  const w = await world();
  const told = [];
  w.parley.session('s', { tail: 5 }).on('reset', (r) => told.push(r));
  w.socket.say(follow(w.socket, { resumed: false, head: 9, first: 5 }), event(5));
  await settle();
  assert.deepEqual(told, []);
  w.socket.onclose({ code: 1006 });
  await w.run(100);
  const s = await w.greet();
  assert.deepEqual(s.last('follow').data, { since: 5, log: 'l' });
  s.say(follow(s, { resumed: false, reason: 'other_log', log: 'l2', head: 2, first: 1 }));
  await settle();
  assert.deepEqual(told, [{ reason: 'other_log' }]);
  w.parley.close();
});

test('a close code that is final ends readers and waiters with it', async () => {
  const w = await world();
  const s = w.parley.session('s');
  const sent = s.send('x');
  const read = s.events().next();
  await settle();
  w.socket.onclose({ code: 4502, reason: 'not for you' });
  await assert.rejects(sent, { code: 'stopped', close: 4502 });
  await assert.rejects(read, { code: 'stopped' });
  await assert.rejects(w.parley.ready(), { close: 4502 });
});

test('close() is no error; whoever waits hears of it', async () => {
  const w = await world();
  const errors = []; const states = [];
  w.parley.on('error', (err) => errors.push(err.code ?? err.message));
  w.parley.on('status', ({ state }) => states.push(state));
  w.socket.onclose({ code: 1012 });
  const waits = assert.rejects(w.parley.ready(), { code: 'closed' });
  w.parley.told('refresh_failed', new Error('no token')); // what is no end of the connection ends no wait for one
  w.parley.close();
  await waits;
  assert.deepEqual([errors, states], [['no token'], ['waiting', 'stopped']]);
});

test('a watch goes on after a reconnect', async () => {
  const w = await world();
  const rows = [];
  const watched = w.parley.watch((row) => rows.push(row.session));
  await settle();
  w.socket.say(w.socket.ok('watch', {}), { type: 'listed', data: { session: 's1' } });
  await watched;
  w.socket.onclose({ code: 1012 });
  await w.run(100);
  const s = await w.greet();
  assert.ok(s.last('watch'));
  s.say({ type: 'listed', data: { session: 's2' } });
  await settle();
  assert.deepEqual(rows, ['s1', 's2']);
  w.parley.close();
});

test('whoever waits may give up: with a signal that is aborted', async () => {
  const w = await world({ fetch: (url, { signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(new TypeError('aborted'))); }) });
  const s = w.parley.session('s');
  w.socket.say(follow(w.socket));
  for (const wait of [
    (signal) => w.parley.create({}, { signal }), (signal) => s.ask('x', { signal }), (signal) => s.upload('x', { signal }),
    (signal) => w.parley.request('GET', '/api/sessions', undefined, { signal }), (signal) => w.parley.command('policy', 's', {}, { signal }),
  ]) {
    const enough = new AbortController();
    const given = wait(enough.signal);
    await settle();
    const why = new Error('enough');
    enough.abort(why);
    await assert.rejects(given, why);
    await assert.rejects(wait(enough.signal), why, 'at once, if it was aborted before');
  }
  assert.equal(s.readers.size, 0);
  assert.equal(w.socket.all('send').length, 1, 'what was aborted before is not sent');
  const asked = w.socket.all('create').length;
  w.socket.onclose({ code: 1006 });
  await settle();
  const given = w.parley.ready({ signal: AbortSignal.abort(new Error('no more')) });
  await assert.rejects(given, /no more/);
  await w.run(100);
  await w.greet();
  assert.equal(w.socket.all('create').length, asked, 'nor asked again');
  const second = s.ask('y', { signal: new AbortController().signal });
  const again = w.sockets.at(-1);
  again.say(follow(again));
  await settle();
  again.say(again.ok('send', { message: 'm1', seq: 1 }));
  await settle();
  again.say(again.ok('send', { message: 'm2', seq: 2 }), event(1), event(2), event(3, 'message_resolved', { message: 'm2', how: 'answered' }));
  assert.equal((await second).how, 'answered');
  w.parley.close();
});

test('a platform without WebSocket is told what to do', () => {
  assert.throws(() => connect('http://x', { WebSocket: undefined, ...(globalThis.WebSocket ? { WebSocket: null } : {}) }), /Node 22/);
});

test('the program for conform says at once how Node 20 starts it', async () => {
  const program = fileURLToPath(new URL('conform.mjs', import.meta.url));
  await assert.rejects(promisify(execFile)(process.execPath, ['--no-experimental-websocket', program], { env: { PARLEY_URL: 'http://127.0.0.1:1' } }),
    ({ code, stderr }) => code === 2 && stderr.trim() === 'This Node has no WebSocket: node --experimental-websocket clients/js/conform.mjs');
});

const answered = (status, body) => ({ ok: status < 300, status, text: async () => (typeof body === 'string' ? body : JSON.stringify(body)), blob: async () => new Blob([body]) });

test('an upload is made again after a lost connection and a busy server, and its file is named by a message', async () => {
  const asked = [];
  const file = { hash: 'ab', name: 'a b.txt', type: 'text/plain', size: 2 };
  const answers = [() => { throw new TypeError('reset'); }, () => answered(503, 'a proxy'), () => answered(503, { code: 'overloaded', retryable: true, retry_after_ms: 900 }), () => answered(201, file)];
  const w = await world({ fetch: async (url, { method, headers, body }) => { asked.push([method, url, headers['Content-Type'], body]); return answers.shift()(); } });
  const s = w.parley.session('s/d1');
  const stored = s.upload('hi', { name: 'a b.txt' });
  await settle();
  await w.run(100);
  await w.run(100);
  await w.run(900);
  assert.deepEqual(await stored, file);
  assert.deepEqual(asked, Array(4).fill(['POST', 'http://x/api/sessions/s%2Fd1/blobs?name=a+b.txt', 'text/plain', 'hi']));
  s.send('', { id: 'a', attachments: [file] }).catch(() => {});
  await settle();
  assert.deepEqual(w.socket.last('send').data, { client_msg_id: 'a', text: '', attachments: [file] });
  w.parley.close();
});

test('a file is uploaded byte for byte, also one of JSON', async () => {
  const bodies = [];
  const fetch = async (url, { headers, body }) => { bodies.push([headers['Content-Type'], await new Response(body).text()]); return answered(201, {}); };
  const w = await world({ fetch });
  const text = '{"a": 1}';
  for (const type of ['application/json', 'text/plain', undefined]) {
    for (const file of [text, new Blob([text], { type }), new File([text], 'a', { type }), new TextEncoder().encode(text), new TextEncoder().encode(text).buffer]) {
      bodies.length = 0;
      await w.parley.upload('s', file, { type });
      assert.deepEqual(bodies, [[type ?? 'text/plain', text]]);
    }
  }
  bodies.length = 0;
  await w.parley.upload('s', new Blob([text], { type: 'application/json' }));
  await w.parley.request('POST', '/api/sessions', { title: 'x' });
  assert.deepEqual(bodies, [['application/json', text], ['application/json', '{"title":"x"}']]);
  w.parley.close();
});

test('an upload that is refused, too long, or given up ends with its reason', async () => {
  let answer = () => answered(415, { code: 'unsupported_media_type', detail: 'no', retryable: false });
  const w = await world({ fetch: async () => answer() });
  await assert.rejects(w.parley.upload('s', new Blob(['x'], { type: 'image/png' })), { code: 'unsupported_media_type', status: 415 });
  w.parley.info = { limits: { attachment_bytes: 3 } };
  await assert.rejects(w.parley.upload('s', 'four'), { code: 'too_large' });
  await assert.rejects(w.parley.upload('s', new Uint8Array(4)), { code: 'too_large' });
  await assert.rejects(w.parley.upload('s', 'éé'), { code: 'too_large' });
  answer = () => { throw new TypeError('reset'); };
  const stored = assert.rejects(w.parley.upload('s', 'x'), { code: 'closed' });
  await settle();
  w.parley.close();
  await w.run(100);
  await stored;
});

test('a file is read as it is, below the path of the server', async () => {
  const w = await world({ fetch: async (url) => { assert.equal(url, 'http://x/api/blobs/ab?session=s'); return answered(200, 'bytes'); } });
  assert.equal(await (await w.parley.session('s').blob('ab')).text(), 'bytes');
  w.parley.close();
  const { connect: at } = await import('./index.js');
  class Socket { constructor(url) { Socket.url = url; } close() {} }
  const below = at('https://h.example/chat', { WebSocket: Socket });
  await settle();
  assert.equal(Socket.url, 'wss://h.example/chat/ws');
  assert.equal(below.blobURL('ab', { session: 's/d' }), 'https://h.example/chat/api/blobs/ab?session=s%2Fd');
  below.close();
});
