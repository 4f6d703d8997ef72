import assert from 'node:assert/strict';
import test from 'node:test';
import { Heights, around, keeping, step } from './page/window.js';

const cases = [
  { name: 'a short conversation is there whole', at: [0, 10, 50, 0, 50], want: [0, 50] },
  { name: 'what grew at the end is there', at: [990, 999, 1000, 920, 999], want: [920, 1000] },
  { name: 'nothing changes while there is enough ahead', at: [500, 510, 1000, 440, 560], want: [440, 560] },
  { name: 'upwards, rows come in time and leave below', at: [470, 480, 1000, 440, 570], want: [430, 521] },
  { name: 'downwards, rows come in time and leave above', at: [530, 540, 1000, 440, 570], want: [490, 581] },
  { name: 'a far place has nothing of what was there', at: [10, 20, 1000, 900, 1000], want: [0, 61] },
  { name: 'a far place below', at: [900, 910, 1000, 0, 60], want: [860, 951] },
  { name: 'nothing was there', at: [989, 999, 1000, 0, 0], want: [949, 1000] },
];
for (const c of cases) {
  test(c.name, () => {
    const got = around(...c.at);
    assert.deepEqual(got, c.want);
    assert.deepEqual(around(...c.at.slice(0, 3), ...got), got, 'it moved again for the same screen');
  });
}

test('no walk through ten thousand rows makes more than 300 of them elements', () => {
  let [from, to] = [0, 0];
  for (const by of [7, -7, 39, -39, 500, -500]) {
    for (let i = by > 0 ? 0 : 9990; i >= 0 && i <= 9990; i += by) {
      [from, to] = around(i, i + 9, 10000, from, to);
      assert.ok(from <= i && i + 9 < to && to - from <= 300, `${i}: ${from} to ${to}`);
    }
  }
});

test('rows ahead come a few at a time, those on the screen at once', () => {
  assert.deepEqual(step([60, 181], 100, 110, 100, 181), [84, 181]);
  assert.deepEqual(step([60, 181], 100, 110, 84, 181), [68, 181]);
  assert.deepEqual(step([60, 181], 100, 110, 68, 181), [60, 181]);
  assert.deepEqual(step([60, 151], 100, 110, 105, 181), [84, 151], 'a screen above the first one');
  assert.deepEqual(step([460, 551], 500, 510, 60, 181), [484, 527], 'a far place');
  assert.deepEqual(step([10, 101], 50, 60, 70, 181), [34, 77], 'nothing of the screen was there');
});

test('what is marked stays, as long as it is near', () => {
  assert.deepEqual(keeping([100, 200], 260), [100, 261]);
  assert.deepEqual(keeping([100, 200], 50), [50, 200]);
  assert.deepEqual(keeping([100, 200], 500), [100, 200]);
  assert.deepEqual(keeping([100, 200], -1), [100, 200]);
});

test('a row that was never measured is as high as others of its type', () => {
  const h = new Heights();
  const rows = ['user', 'part', 'user', 'part'].map((type, i) => ({ key: `k${i}`, type }));
  assert.equal(h.sum(rows, 0, 4), 320);
  h.set(rows[0], 50);
  h.set(rows[1], 200);
  assert.equal(h.of(rows[2]), 50);
  assert.equal(h.sum(rows, 0, 4), 500);
  h.set(rows[2], 70);
  assert.equal(h.of(rows[0]), 50);
});
