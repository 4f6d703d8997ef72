// A map that is copied at the price of its last changes: the others are in a map below,
// which several copies share and none of them changes.

const MOST = 256; // changes in the upper map, before a copy makes one of both

export class Layers {
  constructor(below = new Map(), above = new Map(), size = below.size) {
    this.below = below;
    this.above = above; // key -> value; undefined = it is not there any more
    this.size = size;
  }

  /** Another map with the same content. */
  copy() {
    if (this.above.size <= MOST) return new Layers(this.below, new Map(this.above), this.size);
    const whole = new Map(this.below);
    for (const [key, value] of this.above) if (value === undefined) whole.delete(key); else whole.set(key, value);
    return new Layers(whole);
  }

  /** The same below what these are. */
  under(entries) {
    const out = this.copy();
    for (const [key, value] of entries) out.set(key, value);
    return out;
  }

  get(key) { return this.above.has(key) ? this.above.get(key) : this.below.get(key); }

  has(key) { return this.get(key) !== undefined; }

  set(key, value) {
    if (!this.has(key)) this.size++;
    this.above.set(key, value);
    return this;
  }

  delete(key) {
    if (!this.has(key)) return false;
    this.size--;
    if (this.below.has(key)) this.above.set(key, undefined); else this.above.delete(key);
    return true;
  }

  * entries() {
    for (const [key, value] of this.below) if (!this.above.has(key)) yield [key, value];
    for (const entry of this.above) if (entry[1] !== undefined) yield entry;
  }

  [Symbol.iterator]() { return this.entries(); }

  * keys() { for (const [key] of this.entries()) yield key; }

  * values() { for (const [, value] of this.entries()) yield value; }
}
