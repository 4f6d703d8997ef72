import assert from 'node:assert/strict';
import test from 'node:test';
import { stamp } from './page/dom.js';

const now = new Date(2026, 10, 23, 22, 55).getTime();
const cases = [
  ['today', new Date(2026, 10, 23, 9, 5), '09:05'],
  ['another day keeps its time', new Date(2026, 10, 21, 14, 30), '21 Nov, 14:30'],
  ['another year says so', new Date(2025, 1, 3, 8, 0), '3 Feb 2025, 08:00'],
];
for (const [name, ts, want] of cases) test(`a stamp: ${name}`, () => assert.equal(stamp(ts.toISOString(), now, 'en-GB'), want));
test('a stamp: no time is no text', () => assert.deepEqual(['', undefined, 'never'].map((ts) => stamp(ts, now)), ['', '', '']));
