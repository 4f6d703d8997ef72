import assert from 'node:assert/strict';
import test from 'node:test';
import { Outbox } from './page/outbox.js';

const lost = Object.assign(new Error('lost'), { code: 'disconnected' });
const refused = Object.assign(new Error('too much'), { code: 'too_large' });
const message = (id, more = {}) => ({ client_msg_id: id, text: `text of ${id}`, mode: '', in_reply_to: '', attachments: [], ts: '2026-01-01T00:00:00Z', ...more });

// A server that answers when it is told to; what it got is in asked, in order.
function world(kept = []) {
  const w = { asked: [], told: [], store: new Map(kept), open: [] };
  const ask = (what) => new Promise((done, fail) => { w.asked.push(what); w.open.push({ done, fail }); });
  w.box = new Outbox({
    create: (box) => ask(`create ${box.create} ${JSON.stringify(box.fields)}`),
    send: (box, m) => ask(`${box.session} ${m.client_msg_id}`),
    keep: (key, text) => { if (text) w.store.set(key, text); else w.store.delete(key); },
    kept: [...w.store],
    on: {
      created: (box) => w.told.push(`created ${box.session}`),
      sent: (box, m, ok) => w.told.push(`sent ${m.client_msg_id} ${ok}`),
      failed: (box, m, err) => w.told.push(`failed ${m.client_msg_id} ${err.code}`),
    },
  });
  const settle = () => new Promise((done) => { setImmediate(done); });
  w.answer = async (value) => { w.open.shift().done(value); await settle(); };
  w.refuse = async (err) => { w.open.shift().fail(err); await settle(); };
  // The page is loaded again.
  w.again = () => world([...w.store]);
  return w;
}

test('outbox: one after the other', async () => {
  const w = world();
  for (const id of ['a', 'b', 'c']) w.box.post({ session: 's' }, message(id));
  assert.deepEqual(w.asked, ['s a']);
  await w.answer('m1');
  assert.deepEqual(w.asked, ['s a', 's b']);
  await w.answer('m2');
  await w.answer('m3');
  assert.deepEqual([w.told, [...w.store]], [['sent a m1', 'sent b m2', 'sent c m3'], []]);
});

test('outbox: what comes while a conversation is created stays behind what created it', async () => {
  const w = world();
  w.box.post({ create: 'n', fields: { agent: 'tutor' } }, message('a'));
  w.box.post({ create: 'n' }, message('b'));
  assert.deepEqual(w.asked, ['create n {"agent":"tutor"}']);
  await w.answer('s');
  w.box.post({ session: 's' }, message('c'));
  for (const m of ['m1', 'm2', 'm3']) await w.answer(m);
  assert.deepEqual(w.asked.slice(1), ['s a', 's b', 's c']);
  assert.deepEqual([w.told[0], w.store.size, w.box.boxes.length], ['created s', 0, 0]);
});

test('outbox: a lost connection keeps all of every conversation, in order', async () => {
  const w = world();
  w.box.post({ session: 's' }, message('a'));
  w.box.post({ session: 's' }, message('b'));
  w.box.post({ create: 'n' }, message('c'));
  await w.refuse(lost);
  await w.refuse(lost);
  w.box.post({ session: 's' }, message('d')); // asked, and refused at once, too
  await w.refuse(lost);
  w.asked.length = 0;
  w.box.workAll();
  assert.deepEqual(w.asked, ['s a', 'create n {}']);
  for (const m of ['m1', 't', 'm2', 'm3', 'm4']) await w.answer(m);
  assert.deepEqual([w.asked, w.store.size], [['s a', 'create n {}', 's b', 't c', 's d'], 0]);
});

test('outbox: a refused message waits for a person and holds up nobody', async () => {
  const w = world();
  w.box.post({ session: 's' }, message('a'));
  w.box.post({ session: 's' }, message('b'));
  await w.refuse(refused);
  await w.answer('m');
  assert.deepEqual(w.told, ['failed a too_large', 'sent b m']);
  w.box.workAll();
  assert.equal(w.open.length, 0);
  w.box.post({ session: 's' }, message('a', { text: 'shorter' })); // Retry
  await w.answer('m');
  assert.deepEqual([w.told.at(-1), w.store.size], ['sent a m', 0]);
});

test('outbox: a reload in any moment sends what is left', async () => {
  const before = world();
  before.box.post({ create: 'n', fields: { agent: 'tutor' } }, message('a'));
  before.box.post({ create: 'n' }, message('b'));
  before.box.post({ session: 's' }, message('c'));
  let w = before.again();
  assert.equal(w.box.begun[0].list.length, 2);
  w.box.workAll();
  assert.deepEqual(w.asked, ['create n {"agent":"tutor"}', 's c']);
  await w.answer('t');
  w = w.again(); // created, nothing sent
  w.box.workAll();
  assert.deepEqual(w.asked.sort(), ['s c', 't a']);
});

test('outbox: files that are lost with a reload are said', async () => {
  const before = world();
  before.box.post({ session: 's' }, message('a', { attachments: [{ local: 'x', hash: '', name: 'notes.txt', type: 'text/plain', size: 3 }] }));
  before.box.post({ session: 's' }, message('b', { attachments: [{ local: 'y', hash: 'h', name: 'p.png', type: 'image/png', size: 3 }] }));
  const w = before.again();
  w.box.workAll();
  assert.deepEqual(w.asked, ['s b']);
  const [a, b] = w.box.of('s').list;
  assert.match(a.error, /^notes\.txt: not uploaded/);
  assert.deepEqual([a.attachments[0].lost, b.attachments[0].lost], [true, undefined]);
});

test('outbox: what cannot be created, what is gone, what is given up', async () => {
  const w = world();
  w.box.post({ create: 'n' }, message('a'));
  w.box.post({ create: 'n' }, message('b'));
  await w.refuse(refused);
  assert.deepEqual(w.told, ['failed a too_large', 'failed b too_large']);
  w.box.discard(w.box.of('', 'n'), 'a');
  w.box.discard(w.box.of('', 'n'), 'b');
  w.box.post({ session: 's' }, message('c'));
  assert.deepEqual(w.box.forget('s').map((m) => m.text), ['text of c']);
  await w.refuse(refused); // the answer comes too late
  assert.deepEqual([w.told.length, w.store.size, w.box.boxes.length], [2, 0, 0]);
  w.box.post({ session: 's' }, message('d'));
  w.box.failAll(new Error('not signed in'));
  assert.equal(w.box.of('s').list[0].error, 'not signed in');
});

test('outbox: what is not ours is left alone', () => {
  const w = world([['s', 'no json'], ['t', '[]'], ['u', '{"list":[]}'], ['v', '{"list":7}']]);
  assert.equal(w.box.boxes.length, 0);
});
