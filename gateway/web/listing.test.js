import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayOf, entryOf, groups, news, stampOf, take, waiting } from './page/listing.js';
import { marksOf, matches, pieces } from './page/words.js';

const now = new Date(2026, 10, 23, 12, 0).getTime();
const at = (...d) => new Date(...d).toISOString();
const row = (x) => ({ session: 's', title: 'T', last_seq: 5, last_at: at(2026, 10, 23, 9, 0), ...x });

test('the list: the days have names', () => {
  const want = [
    [at(2026, 10, 23, 0, 0), 'Today'], [at(2026, 10, 24, 1, 0), 'Today'], [at(2026, 10, 22, 23, 59), 'Yesterday'], [at(2026, 10, 21, 12, 0), 'Previous 7 days'],
    [at(2026, 10, 16, 0, 0), 'Previous 7 days'], [at(2026, 10, 15, 23, 59), 'November'], [at(2026, 2, 1, 5, 0), 'March'], [at(2025, 11, 31, 5, 0), 'December 2025'], ['', 'Earlier'],
  ];
  for (const [ts, name] of want) assert.equal(dayOf(ts, now, 'en-GB'), name, ts);
});

test('the list: every row has a time of day', () => {
  const want = [
    [at(2026, 10, 23, 9, 5), '09:05'], [at(2026, 10, 22, 9, 5), '09:05'], [at(2026, 10, 20, 9, 5), 'Fri, 09:05'],
    [at(2026, 9, 2, 9, 5), '2 Oct, 09:05'], [at(2025, 9, 2, 9, 5), '2 Oct 2025, 09:05'], ['', ''],
  ];
  for (const [ts, text] of want) assert.equal(stampOf(ts, now, 'en-GB'), text);
});

test('the list: pinned first, then by day, the newest first', () => {
  const entries = [
    row({ session: 'old', last_at: at(2026, 0, 3) }), row({ session: 'a', last_at: at(2026, 10, 23, 8) }), row({ session: 'b', last_at: at(2026, 10, 23, 9) }),
    row({ session: 'p', pinned: true, last_at: at(2025, 0, 1) }), row({ session: 'y', last_at: at(2026, 10, 22, 9) }),
  ].map(entryOf);
  assert.deepEqual(groups(entries, now, 'en-GB').map((g) => [g.name, ...g.rows.map((e) => e.id)]), [['Pinned', 'p'], ['Today', 'b', 'a'], ['Yesterday', 'y'], ['January', 'old']]);
});

test('the list: a listed row counts unless it is older', () => {
  const entries = new Map();
  assert.equal(take(entries, row({ title: 'one' })), null);
  assert.equal(take(entries, row({ title: 'late', last_seq: 4 })), undefined);
  assert.equal(entries.get('s').title, 'one');
  assert.equal(take(entries, row({ title: 'read', unread: 0 })).title, 'one', 'an equal one is newer: it was read');
  assert.equal(take(entries, { session: 's', gone: true }).title, 'read');
  assert.equal(take(entries, { session: 's', gone: true }), undefined);
  assert.equal(entries.size, 0);
});

test('the list: rows of servers that do not count unread parts', () => {
  assert.equal(entryOf({ session: 's', head: 9, seen: 3 }).unread, 1);
  assert.equal(entryOf({ session: 's', head: 9, seen: 9 }).unread, 0);
  assert.equal(entryOf({ session: 's', head: 1, seen: 0 }).unread, 0, 'nothing was said yet');
  assert.equal(entryOf({ session: 's', last_seq: 9, seen: 3, unread: 0 }).unread, 0);
});

test('the list: what calls a person', () => {
  const e = (x) => entryOf(row(x));
  const want = [
    [null, e({ awaiting: 1 }), ''],                                       // it was there before the page
    [e({}), e({ awaiting_tasks: 1 }), 'awaiting'],
    [e({ awaiting_tasks: 1 }), e({ awaiting_tasks: 1 }), ''],             // said before
    [e({ open_tasks: 1 }), e({ open_tasks: 0 }), 'finished'],
    [e({ open_tasks: 2 }), e({ open_tasks: 1 }), ''],
    [e({ open_tasks: 1 }), e({ open_tasks: 1, awaiting_tasks: 1 }), 'awaiting'],
    [e({ open_tasks: 1 }), undefined, ''],                                // erased
  ];
  for (const [before, after, what] of want) assert.equal(news(before, after), what);
  assert.equal(waiting([e({ awaiting_tasks: 2 }), e({}), e({ awaiting: 1 }), e({ awaiting: 1, archived: true })]), 2);
});

test('the words: found where they begin a word, whatever case and accents', () => {
  const want = [
    ['Fix the login bug', 'LOG', [[8, 11]]], ['catalog', 'log', []], ['Café au lait', 'cafe', [[0, 4]]], ['👍 yes', 'yes', [[2, 5]]],
    ['log login', 'log login', [[0, 3], [4, 9]]], ['a-b', 'b', [[2, 3]]], ['東京都', '京', [[1, 2]]], ['x', '', []], ['Straße', 'straße', [[0, 6]]],
  ];
  for (const [text, query, marks] of want) assert.deepEqual(marksOf(text, query), marks, `${text} / ${query}`);
  assert.equal(matches('Fix the login bug', 'bug fix'), true);
  assert.equal(matches('Fix the login bug', 'bug fox'), false);
});

test('the words: a text falls into pieces and loses nothing', () => {
  assert.deepEqual(pieces('👍 yes', [[2, 5]]), [{ text: '👍 ', marked: false }, { text: 'yes', marked: true }]);
  assert.deepEqual(pieces('abc', []), [{ text: 'abc', marked: false }]);
  assert.deepEqual(pieces('', undefined), []);
  for (const marks of [[[0, 9]], [[1, 2], [1, 3]], [[5, 9]], [[2, 1]]]) assert.equal(pieces('abc', marks).map((p) => p.text).join(''), 'abc');
});
