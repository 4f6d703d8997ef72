import assert from 'node:assert/strict';
import test from 'node:test';
import { Layers } from './page/layers.js';

// Whatever is done to it and its copies, each has what a map of its own would have.
test('layers are a map, and copies do not know of each other', () => {
  let seed = 7;
  const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
  let pairs = [[new Layers(), new Map()]];
  for (let i = 0; i < 20000; i++) {
    const [layers, map] = pairs[random(pairs.length)];
    const key = `k${random(900)}`;
    switch (random(20)) {
      case 0: if (pairs.length > 5) pairs = pairs.slice(1); pairs.push([layers.copy(), new Map(map)]); break;
      case 1: case 2: case 3: case 4: assert.equal(layers.delete(key), map.delete(key)); break;
      default: layers.set(key, i); map.set(key, i);
    }
    assert.equal(layers.size, map.size);
    assert.equal(layers.get(key), map.get(key));
    assert.equal(layers.has(key), map.has(key));
  }
  for (const [layers, map] of pairs) {
    const sorted = (m) => [...m].sort((a, b) => (a[0] < b[0] ? -1 : 1));
    assert.deepEqual(sorted(layers), sorted(map));
    assert.deepEqual([...layers.keys()].sort(), [...map.keys()].sort());
    assert.equal([...layers.values()].length, map.size);
  }
});

test('a copy costs what was changed, not what is there', () => {
  const all = new Layers(new Map(Array.from({ length: 10000 }, (_, i) => [i, i])));
  let copied = 0; // entries of the upper maps
  let m = all;
  for (let i = 0; i < 200; i++) { m = m.copy(); m.set(i, -i); copied += m.above.size; assert.equal(m.below, all.below); }
  assert.ok(copied < 200 * 201, `${copied}`);
  assert.equal(all.get(5), 5);
});
