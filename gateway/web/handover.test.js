import assert from 'node:assert/strict';
import test from 'node:test';
import { handOver } from './page/handover.js';

const hello = { type: 'hello', session: '', data: { proto: 1 } };
const follow = { type: 'follow', session: 's1', data: { tail: 200 } };
const watch = { type: 'watch', session: '', data: {} };
const seen = { type: 'seen', session: 's1', data: { seq: 3 } };
const ok = (n, data = {}) => `{"type":"ok","re":"early-${n}","data":${JSON.stringify(data)}}`;
const event = (seq, data = '{}') => `{"type":"response","session":"s1","seq":${seq},"data":${data}}`;

// said: by early.js; heard: before the page is there; then, in turn, what the page asks
// (an object), or the server says (a string). given: what the page is told; wire: what
// is sent beside what early.js has said.
const cases = [
  { name: 'all was asked and answered before the page is there', said: [hello, follow, watch], heard: [ok(0), ok(1), event(1), event(2), ok(2)], then: [hello, follow, watch],
    given: ['ok 1', 'ok 2', 'response 1', 'response 2', 'ok 3'], wire: [] },
  { name: 'nothing was answered yet', said: [hello, follow, watch], heard: [], then: [hello, ok(0), follow, watch, ok(1), event(1), ok(2)],
    given: ['ok 1', 'ok 2', 'response 1', 'ok 3'], wire: [] },
  { name: 'events wait for the follow that they belong to', said: [hello, follow], heard: [ok(0), ok(1), event(1)], then: [hello], given: ['ok 1'], wire: [] },
  { name: 'what the page asks beside goes out', said: [hello, follow, watch], heard: [ok(0), ok(1), ok(2)], then: [hello, follow, watch, seen], given: ['ok 1', 'ok 2', 'ok 3'], wire: ['seen'] },
  { name: 'somebody went to another conversation meanwhile', said: [hello, follow, watch], heard: [ok(0), ok(1), event(1)], then: [hello, { ...follow, session: 's2' }, ok(2), '{"type":"ok","re":"2"}'],
    given: ['ok 1', 'response 1', 'ok 2'], wire: ['follow'] },
  { name: 'a refusal is an answer', said: [hello], heard: ['{"type":"error","re":"early-0","error":{"code":"unauthorized"}}'], then: [hello], given: ['error 1'], wire: [] },
  { name: 'with another hello the connection ends', said: [hello], heard: [ok(0)], then: [{ ...hello, data: { proto: 1, token: 'new' } }], given: [], wire: ['closed'] },
  { name: 'long numbers keep their digits', said: [hello], heard: [ok(0)], then: [hello, event(1, '{"args":9007199254740993}')], given: ['ok 1', 'response 1'], holds: '9007199254740993', wire: [] },
];
for (const c of cases) {
  test(c.name, async () => {
    const wire = [];
    const given = [];
    const socket = { readyState: 1, send: (text) => wire.push(JSON.parse(text).type), close: () => wire.push('closed') };
    const said = c.said.map(({ type, session, data }, i) => ({ id: `early-${i}`, type, session, data: JSON.stringify(data) }));
    const page = handOver({ socket, said, heard: [...c.heard] });
    let opened = 0;
    page.onopen = () => { opened++; };
    page.onmessage = (m) => given.push(m.data);
    await null;
    assert.equal(opened, 1);
    let id = 0;
    for (const t of c.then) {
      if (typeof t === 'string') socket.onmessage({ data: t });
      else page.send(JSON.stringify({ type: t.type, id: String(++id), ...(t.session ? { session: t.session } : {}), data: t.data }));
      await null;
    }
    assert.deepEqual(given.map((text) => { const f = JSON.parse(text); return `${f.type} ${f.re ?? f.seq}`; }), c.given);
    assert.deepEqual(wire, c.wire);
    if (c.holds) assert.ok(given.at(-1).includes(c.holds));
  });
}

test('a connection that is not open yet asks when it is', async () => {
  const said = [];
  const wire = [];
  const socket = { readyState: 0, send: (text) => wire.push(text), close() {}, onopen() { said.push({ id: 'early-0', type: 'hello', session: '', data: '{}' }); } };
  const page = handOver({ socket, said, heard: [] });
  page.onmessage = () => {};
  page.onopen = () => page.send('{"type":"hello","id":"1","data":{}}');
  await null;
  socket.onopen();
  assert.deepEqual(wire, []);
});
