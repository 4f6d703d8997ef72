import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Finder, outcomeOf } from './page/finder.js';

// A server that answers when it is told to.
function bench() {
  const asked = []; const shown = []; let due = null;
  const later = (what) => (...args) => new Promise((resolve, reject) => { asked.push({ what, q: args[0], cursor: args.length > 2 ? args[1] : '', signal: args.at(-1), resolve, reject }); });
  const finder = new Finder({
    titles: later('titles'), messages: later('messages'), show: (f) => shown.push(outcomeOf(f)),
    setTimeout: (f) => { due = f; return f; }, clearTimeout: (f) => { if (due === f) due = null; },
  });
  const settle = async () => { for (let i = 0; i < 8; i++) await Promise.resolve(); };
  return { asked, shown, finder, settle, pass: async () => { due?.(); due = null; await settle(); } };
}

test('the search: waits for the end of typing and cancels what is older', async () => {
  const b = bench();
  for (const q of ['l', 'lo', 'log ']) b.finder.ask(q);
  assert.equal(b.asked.length, 0);
  await b.pass();
  assert.deepEqual(b.asked.map((a) => [a.what, a.q]), [['messages', 'log'], ['titles', 'log']]);
  b.finder.ask('logi');
  assert.ok(b.asked.every((a) => a.signal.aborted));
  for (const a of b.asked) a.resolve({ items: [{ session: 'old', message: 'm1' }] });
  await b.settle();
  assert.deepEqual(b.finder.found.titles, [], 'an answer to an older question');
  assert.equal(outcomeOf(b.finder.found), 'Searching…');
  b.finder.ask('');
  assert.equal(outcomeOf(b.finder.found), '');
});

test('the search: titles at once, messages behind them, older ones when asked', async () => {
  const b = bench();
  b.finder.ask('log');
  await b.pass();
  const [messages, titles] = b.asked;
  titles.resolve({ items: [{ session: 's' }], next_cursor: null });
  await b.settle();
  assert.equal(outcomeOf(b.finder.found), '1 title; searching on…');
  messages.resolve({ items: [{ session: 's', message: 'm1' }, { session: 's', message: 'p1' }], next_cursor: 'c' });
  await b.settle();
  assert.equal(outcomeOf(b.finder.found), '1 title, 2 messages; older messages were not searched yet');
  b.finder.more();
  await b.settle();
  assert.deepEqual([b.asked[2].what, b.asked[2].cursor], ['messages', 'c']);
  b.asked[2].resolve({ items: [], next_cursor: null });
  await b.settle();
  assert.equal(outcomeOf(b.finder.found), '1 title, 2 messages');
});

test('the search: says what is not found, and what did not work', async () => {
  const b = bench();
  b.finder.ask('xyz');
  await b.pass();
  for (const a of b.asked) a.resolve({ items: [], next_cursor: null });
  await b.settle();
  assert.equal(outcomeOf(b.finder.found), 'Nothing has these words: no title, no message');
  b.finder.ask('abc');
  await b.pass();
  b.asked[2].reject(new Error('the server is away'));
  b.asked[3].reject(new Error('the server is away'));
  await b.settle();
  assert.equal(outcomeOf(b.finder.found), 'The search did not work: the server is away');
});

test('the search: what was erased is not found any more, nor by an answer on its way', async () => {
  const b = bench();
  b.finder.ask('log');
  await b.pass();
  const [messages, titles] = b.asked;
  titles.resolve({ items: [{ session: 's' }, { session: 's2' }] });
  await b.settle();
  b.finder.forget('s');
  assert.deepEqual(b.finder.found.titles, [{ session: 's2' }]);
  assert.equal(b.shown.at(-1), '1 title; searching on…');
  messages.resolve({ items: [{ session: 's', message: 'm1' }, { session: 's/d1', message: 'm2' }, { session: 's2', message: 'm3' }], next_cursor: null });
  await b.settle();
  assert.deepEqual(b.finder.found.messages.map((m) => m.message), ['m3']);
});

test('the search: what has no word, or is too long, is not asked', async () => {
  const b = bench();
  for (const q of ['"', '%', '*', '\u{1f600}', ' - ', 'a'.repeat(201)]) {
    b.finder.ask(q);
    await b.pass();
    assert.match(b.shown.at(-1), /^(Nothing|Too long) to search for/);
  }
  assert.equal(b.asked.length, 0);
  b.finder.ask('7');
  await b.pass();
  assert.equal(b.asked.length, 2);
});
