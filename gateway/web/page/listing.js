// The list of conversations as data: its rows, their order and days, what has
// changed in them that concerns a person, and the words that were searched.

/** A row as GET /api/sessions and `listed` tell it. */
export function entryOf(x) {
  const [head, seen] = [x.last_seq ?? x.head ?? 0, x.seen || 0];
  return {
    id: x.session, title: x.title || '', agent: x.agent || '', closed: !!x.closed,
    activity: x.last_at || x.activity_at || x.created_at || '', last: head, seen,
    unread: x.unread ?? (head > Math.max(seen, 1) ? 1 : 0),
    open: x.open_tasks || 0, awaiting: x.awaiting_tasks || x.awaiting || 0,
    pinned: !!x.pinned, archived: !!x.archived,
  };
}

/**
 * Takes a row into entries (a Map by id), if it is not older than the one that is
 * there. Returns what was there before, or undefined if nothing was taken.
 */
export function take(entries, row) {
  const before = entries.get(row.session) ?? null;
  if (row.gone) return entries.delete(row.session) ? before : undefined;
  const e = entryOf(row);
  if (before && e.last < before.last) return undefined;
  entries.set(e.id, e);
  return before;
}

const byActivity = (a, b) => (a.activity < b.activity ? 1 : a.activity > b.activity ? -1 : 0);
const startOfDay = (t) => { const d = new Date(t); d.setHours(0, 0, 0, 0); return d; };
// In whole days of the calendar, also over a change of the clocks.
const daysBefore = (ts, now) => Math.round((startOfDay(now) - startOfDay(ts)) / 86400000);

/** The day of a row in words: Today, Yesterday, Previous 7 days, a month. */
export function dayOf(ts, now = Date.now(), locale = undefined) {
  const t = Date.parse(ts);
  if (Number.isNaN(t)) return 'Earlier';
  const days = daysBefore(t, now);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  if (days <= 7) return 'Previous 7 days';
  const sameYear = new Date(t).getFullYear() === new Date(now).getFullYear();
  return new Date(t).toLocaleDateString(locale, sameYear ? { month: 'long' } : { month: 'long', year: 'numeric' });
}

/** When it was, as short as it can be said; the time of day always stands. */
export function stampOf(ts, now = Date.now(), locale = undefined) {
  const t = new Date(ts);
  if (!ts || Number.isNaN(t.getTime())) return '';
  const hour = t.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
  const days = daysBefore(t, now);
  if (days <= 1) return hour;
  const day = days <= 7 ? t.toLocaleDateString(locale, { weekday: 'short' })
    : t.toLocaleDateString(locale, { day: 'numeric', month: 'short', ...(t.getFullYear() === new Date(now).getFullYear() ? {} : { year: 'numeric' }) });
  return `${day}, ${hour}`;
}

/** The rows in groups [{name, rows}]: the pinned ones, then by day, the newest first. */
export function groups(entries, now = Date.now(), locale = undefined) {
  const out = [];
  const sorted = [...entries].sort(byActivity);
  const pinned = sorted.filter((e) => e.pinned);
  if (pinned.length) out.push({ name: 'Pinned', rows: pinned });
  for (const e of sorted) {
    if (e.pinned) continue;
    const name = dayOf(e.activity, now, locale);
    if (out.at(-1)?.name !== name) out.push({ name, rows: [] });
    out.at(-1).rows.push(e);
  }
  return out;
}

/** How many conversations wait for a person. */
export function waiting(entries) {
  let n = 0;
  for (const e of entries) if (e.awaiting > 0 && !e.archived) n++;
  return n;
}

/** What a change of a row says to a person who does not look: 'awaiting', 'finished' or ''. */
export function news(before, after) {
  if (!before || !after) return '';
  if (after.awaiting > before.awaiting) return 'awaiting';
  if (before.open > 0 && after.open === 0) return 'finished';
  return '';
}

// ---- words -------------------------------------------------------------------

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
