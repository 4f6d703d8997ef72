import assert from 'node:assert/strict';
import test from 'node:test';
import { Json, exact, pretty, wrongArguments } from './page/exact.js';
import { emptyView, reduce } from './page/store.js';

// D-14: what a person approves is shown digit for digit.
const cases = [
  { name: 'a long number', json: '{"id":9007199254740993}', shows: '{\n  "id": 9007199254740993\n}' },
  { name: 'below zero, a fraction, an exponent', json: '{"a":-9007199254740993,"b":1.10,"c":1e400,"d":0.30000000000000004441,"e":-0}', shows: '{\n  "a": -9007199254740993,\n  "b": 1.10,\n  "c": 1e400,\n  "d": 0.30000000000000004441,\n  "e": -0\n}' },
  { name: 'a member that is there twice, in its order', json: '{"to":"a","10":1,"9":2,"to":"b"}', shows: '{\n  "to": "a",\n  "10": 1,\n  "9": 2,\n  "to": "b"\n}' },
  { name: 'lists and what is empty', json: '{"a":[],"b":{},"c":[1,{"d":[[]]}]}', shows: '{\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    {\n      "d": [\n        []\n      ]\n    }\n  ]\n}' },
  { name: 'texts with signs of JSON', json: '{"a":"}]{[,:\\"\\\\","b":"\\u00e9\\u003c"}', shows: '{\n  "a": "}]{[,:\\"\\\\",\n  "b": "é<"\n}' },
  { name: 'what cannot be seen is written out', json: '{"a":"x\\u202ey"}', shows: '{\n  "a": "x\\u202ey"\n}' },
];
for (const c of cases) {
  test(`${c.name} is shown as it stands`, () => {
    const frame = exact(`{"type":"question","seq":3,"data":{"question":"q1","text":"args {","approval":{"call":"c1","tool":"pay","args":${c.json}}}}`);
    assert.ok(frame.data.approval.args instanceof Json);
    assert.equal(pretty(frame.data.approval.args), c.shows);
    assert.equal(frame.seq, 3);
    assert.equal(pretty(c.json), c.shows); // as a text
    // Approved as it stands in the box, it is sent as it stands.
    assert.equal(wrongArguments(c.shows), '');
    assert.equal(pretty(exact(`{"approve":true,"args":${c.shows}}`).args), c.shows);
  });
}

test('what is no arguments is parsed as ever', () => {
  for (const text of ['{"type":"ok","re":"1","data":{"args":"text","result":null,"x":[1,2]}}', '{"args":3}', '"args"', '{"text":"\\"args\\":{"}']) assert.deepEqual(exact(text), JSON.parse(text));
  for (const text of ['{"args":{"a":}}', '{"args":{]}', '{"args":{"a":1}', '{"args":{}}}']) assert.throws(() => exact(text), SyntaxError, text);
});

test('many calls in one answer', () => {
  const page = exact('{"items":[{"args":{"n":1},"result":[9007199254740993]},{"args":{"args":{"n":2}}}],"next_cursor":7}');
  assert.deepEqual(page.items.map((i) => [i.args?.text, i.result?.text]), [['{"n":1}', '[9007199254740993]'], ['{"args":{"n":2}}', undefined]]);
});

test('an approval with other arguments says them digit for digit', () => {
  const at = (seq, type, data) => exact(JSON.stringify({ type, session: 's', seq, ts: '2026-11-21T08:30:00Z', task: 't1', data }).replace('"LONG"', '9007199254740993'));
  const view = reduce(emptyView('s', 'me'), [
    at(1, 'question', { question: 'q1', text: 'May I?', blocking: true, approval: { call: 'c1', tool: 'pay', args: { id: 'LONG' } } }),
    at(2, 'question_answered', { question: 'q1', text: '{"approve":true,"args":{"id":9007199254740993}}', by: 'me' }),
    at(3, 'tool_started', { call: 'c1', tool: 'pay', args: { id: 'LONG' } }),
    at(4, 'tool_started', { call: 'c2', tool: 'pay', args: { redacted: true } })]);
  assert.match(view.rows.get('q:q1').answer, /"id": 9007199254740993\n/);
  assert.deepEqual(view.lines.map((l) => l.text), ['{"id":9007199254740993}', '(hidden)']);
});
