// Which rows of a long conversation are elements: those on the screen and some on
// each side. What the others are high stands in two spaces, above and below.
//
// The browser's own search (Ctrl+F), and what is marked with Ctrl+A, see the rows that
// are elements only. The page's search asks the server and finds all; the export has
// all; before it prints, the page makes elements of all that it has loaded.

const AHEAD = 40;  // so many rows beyond the screen are there before it comes to them,
const BEHIND = 80; // and no more than so many stay when it has left them
const STEP = 16;   // made at once at each end, the rest in the frames that follow
const MOST = 300;  // rows in all, however many are kept for a mark or a focus

/** The rows [from, to) of n, for a screen that shows first to last; from and to are what there was. */
export function around(first, last, n, from, to) {
  const far = to <= first - BEHIND || from > last + BEHIND || from >= to;
  if (far || first - from < AHEAD || first - from > BEHIND) from = Math.max(0, first - AHEAD);
  if (far || to - 1 - last < AHEAD || to - 1 - last > BEHIND) to = Math.min(n, last + 1 + AHEAD);
  return [from, Math.min(n, to)];
}

/** On the way from [from, to) to the rows wanted: all that the screen shows, and a few more at each end. */
export function step([a, b], first, last, from, to) {
  const [top, end] = from >= to || to <= first || from > last ? [first, last + 1] : [Math.min(from, first), Math.max(to, last + 1)];
  return [Math.max(a, top - STEP), Math.min(b, end + STEP)];
}

/** The same with the row kept, unless it is too far away. */
export function keeping([from, to], kept) {
  const [a, b] = [Math.min(from, kept), Math.max(to, kept + 1)];
  return kept < 0 || b - a > MOST ? [from, to] : [a, b];
}

/** How high rows are: as measured, or as others of their type. */
export class Heights {
  constructor() { this.clear(); }

  clear() { this.known = new Map(); this.types = new Map(); }

  set(row, px) {
    if (!this.known.has(row.key)) {
      const t = this.types.get(row.type) || { n: 0, sum: 0 };
      this.types.set(row.type, { n: t.n + 1, sum: t.sum + px });
    }
    this.known.set(row.key, px);
  }

  of(row) {
    const px = this.known.get(row.key);
    if (px !== undefined) return px;
    const t = this.types.get(row.type);
    return t ? t.sum / t.n : 80;
  }

  sum(rows, from, to) {
    let px = 0;
    for (let i = from; i < to; i++) px += this.of(rows.at(i));
    return px;
  }
}
