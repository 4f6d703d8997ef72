// The list of conversations as data: its rows, their order and days, and what has
// changed in them that concerns a person.

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
