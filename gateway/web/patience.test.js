import assert from 'node:assert/strict';
import test from 'node:test';
import { patiently } from './page/patience.js';

const refusal = (code, more = {}) => Object.assign(new Error(code), { code, retryable: true, retryAfter: 0, ...more });

// [what the server answers one after the other, calls, waits that it asked for, how it ends]
const cases = [
  ['it is taken at once', ['ok'], 1, [], 'ok'],
  ['too many at once: again when the server says', [refusal('rate_limited', { retryAfter: 70 }), refusal('overloaded', { retryAfter: 30 }), 'ok'], 3, [70, 30], 'ok'],
  ['a node is away for a moment', [refusal('unavailable', { retryAfter: 5 }), 'ok'], 2, [5], 'ok'],
  ['what a person decides is not asked again', [refusal('session_busy'), 'ok'], 1, [], 'session_busy'],
  ['nor what does not pass', [refusal('too_large', { retryable: false }), 'ok'], 1, [], 'too_large'],
  ['a lost connection is the next one\'s affair', [refusal('disconnected'), 'ok'], 1, [], 'disconnected'],
  ['not for ever', Array.from({ length: 9 }, () => refusal('overloaded', { retryAfter: 1 })), 7, [1, 1, 1, 1, 1, 1], 'overloaded'],
];
for (const [name, answers, calls, waits, end] of cases) {
  test(`patience: ${name}`, async () => {
    const [waited, rest] = [[], [...answers]];
    const work = async () => { const a = rest.shift(); if (a instanceof Error) throw a; return a; };
    const got = await patiently(work, { sleep: async (ms) => { waited.push(ms); } }).catch((err) => err.code);
    assert.deepEqual([got, answers.length - rest.length, waited], [end, calls, waits]);
  });
}
