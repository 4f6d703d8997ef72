// Words that are searched for: where they stand in a text, without case and accents.

const folded = (c) => c.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
const wordsOf = (query) => query.trim().split(/\s+/).filter(Boolean).map((w) => [...w].map(folded).join(''));

/** Where the words of a query begin words of a text: [[from, to]] in code points. */
export function marksOf(text, query) {
  const chars = [...text].map(folded);
  const out = [];
  for (const w of wordsOf(query)) {
    for (let i = 0; i < chars.length; i++) {
      if (i > 0 && /[\p{L}\p{N}]/u.test(chars[i - 1]) && !/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u.test(chars[i])) continue;
      let [j, got] = [i, ''];
      while (j < chars.length && got.length < w.length) got += chars[j++];
      if (got === w) out.push([i, j]);
    }
  }
  return joined(out);
}

function joined(marks) {
  const out = [];
  for (const [from, to] of marks.sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to); else out.push([from, to]);
  }
  return out;
}

/** A text in pieces [{text, marked}]; marks are in code points. */
export function pieces(text, marks) {
  const chars = [...text];
  const out = [];
  let at = 0;
  const add = (to, marked) => { if (to > at) out.push({ text: chars.slice(at, to).join(''), marked }); at = Math.max(at, to); };
  for (const [from, to] of joined((marks || []).map((m) => [...m]))) { add(Math.min(from, chars.length), false); add(Math.min(to, chars.length), true); }
  add(chars.length, false);
  return out;
}

/** Whether all words of a query begin words of a text. */
export const matches = (text, query) => wordsOf(query).every((w) => marksOf(text, w).length > 0);
