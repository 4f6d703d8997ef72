// Transcripts of frames and what the page shows for them: testdata/*.json. Each
// step feeds frames ("in") and compares what is on the screen ("show"), written
// as lines that a person can read. "seq" and "ts" are filled in where they lack.
// REWRITE=1 node --test store.test.js writes what is shown now; read the difference then.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { DURABLE, activity, activitySummary, became, emptyView, reduce, sessionEntry, visibleRows, waitingMessages, working } from './page/store.js';

const dir = new URL('./testdata/', import.meta.url);
const stored = new Set(DURABLE);
const seen = new Set();

function lines(list) { return list.map((l) => `${l.kind} ${l.name} ${l.status}`).join(', '); }

// The screen as lines. Rows first, then what is below them.
function screen(v) {
  const out = visibleRows(v).map((r) => {
    const quote = r.quote ? ` > ${JSON.stringify(r.quote.text)}` : '';
    const under = r.lines?.length ? ` {${lines(r.lines)}}` : '';
    switch (r.type) {
      case 'user': return `${r.mine ? 'me' : r.author}${r.edited ? ' (edited)' : ''}: ${r.text}${r.attachments.length ? ` +${r.attachments.map((a) => a.name + (a.hash ? '' : '?'))}` : ''} [${became(r).text}]${quote}`;
      case 'part': return `${r.final ? 'final' : 'part'}${r.kind ? ` (${r.kind})` : ''}: ${r.text}${r.cut ? ` (cut: ${r.cut})` : ''}${quote}${under}`;
      case 'question': return `ask ${r.question}${r.blocking ? '' : ' (open)'}${r.working ? ' (still working)' : ''}: ${r.text} [${r.state}${r.answer !== null ? ` ${r.answer}` : ''}${r.reason ? ` ${r.reason}` : ''}]${r.choices.length ? ` ${r.choices.join('/')}` : ''}${quote}${under}`;
      case 'activity': return `did: {${lines(r.lines)}}`;
      default: return `note: ${r.text}`;
    }
  });
  if (v.drafts.size) out.push(...[...v.drafts.values()].map((d) => `draft: ${d.text}`));
  if (activity(v.lines).length) out.push(`live: {${lines(v.lines)}}`);
  const waiting = waitingMessages(v);
  if (waiting.length) out.push(`waiting: ${waiting.map((m) => m.text).join(' | ')}`);
  const w = working(v);
  if (w) out.push(`${w.state}: ${w.text}${w.sign ? `, last sign ${w.sign.slice(11, 19)}` : ''}`);
  if (v.typing.size) out.push(`typing: ${[...v.typing.keys()].join(', ')}`);
  if (v.gone) out.push(`gone: ${v.gone}`);
  return out;
}

function frames(list, clock) {
  return list.map((f) => {
    seen.add(f.type);
    const out = { session: 's', ...f };
    if (stored.has(f.type)) {
      out.seq ??= ++clock.seq;
      clock.seq = out.seq;
      out.ts ??= new Date(Date.UTC(2026, 0, 1, 0, 0, out.seq)).toISOString();
    }
    return out;
  });
}

function frozen(x) {
  if (x && typeof x === 'object' && !Object.isFrozen(x)) {
    Object.freeze(x);
    for (const k of Object.keys(x)) frozen(x[k]);
    if (x instanceof Map) for (const value of x.values()) frozen(value);
  }
  return x;
}

// One line a frame and one line a row, so that a difference can be read.
function written(t) {
  const list = (a) => (a.length ? `[\n${a.map((x) => `        ${JSON.stringify(x)}`).join(',\n')}\n      ]` : '[]');
  const steps = t.steps.map((s) => `    {\n      "in": ${list(s.in)},\n      "show": ${list(s.show)}\n    }`);
  return `{\n  "name": ${JSON.stringify(t.name)},\n  "steps": [\n${steps.join(',\n')}\n  ]\n}\n`;
}

for (const file of readdirSync(dir).filter((f) => f.endsWith('.json')).sort()) {
  const t = JSON.parse(readFileSync(new URL(file, dir), 'utf8'));
  test(`${file}: ${t.name}`, () => {
    const clock = { seq: 0 };
    let view = emptyView('s', 'me');
    let single = view;
    const all = [];
    for (const step of t.steps) {
      const input = frames(step.in, clock);
      all.push(...input);
      frozen(view); // reduce must not change what it is given
      view = reduce(view, input);
      for (const f of input) single = reduce(single, [f]);
      if (process.env.REWRITE) step.show = screen(view);
      assert.deepEqual(screen(view), step.show, `after ${step.in.map((f) => f.type).join(', ')}`);
      assert.deepEqual(screen(single), step.show, 'frame by frame the same as in one go');
    }
    if (process.env.REWRITE) writeFileSync(new URL(file, dir), written(t));
    // Delivered twice, every stored event changes nothing.
    assert.deepEqual(screen(reduce(view, all.filter((f) => f.seq))), screen(view), 'at least once is as good as once');
  });
}

test('the transcripts show every stored event', () => {
  assert.deepEqual(DURABLE.filter((type) => !seen.has(type)), []);
});

test('rows that did not change stay the same objects', () => {
  const clock = { seq: 0 };
  const a = reduce(emptyView('s', 'me'), frames([
    { type: 'session_created', data: {} },
    { type: 'message_accepted', task: 't1', data: { message: 'm1', client_msg_id: 'a', author: 'me', text: 'one', disposition: 'started', via: 'websocket' } },
    { type: 'response', task: 't1', data: { message: 'p1', source: 'm1', part: 0, text: 'two', in_reply_to: 'm1', final: true } },
  ], clock));
  const b = reduce(a, frames([{ type: 'message_resolved', task: 't1', data: { message: 'm1', how: 'answered', part: 0 } }], clock));
  assert.equal(a.rows.get('p:p1'), b.rows.get('p:p1'));
  assert.notEqual(a.rows.get('u:me:a'), b.rows.get('u:me:a'));
});

test('frames of other sessions are not taken', () => {
  const v = reduce(emptyView('s', 'me'), [{ type: 'message_accepted', session: 'other', seq: 1, ts: '', data: { message: 'm', author: 'me', client_msg_id: 'x', text: 'no', disposition: 'queued' } }]);
  assert.deepEqual(screen(v), []);
});

test('a conversation without a title is called by its first message', () => {
  const said = (message, text) => ({ type: 'message_accepted', data: { message, author: 'me', client_msg_id: message, text, disposition: 'queued' } });
  const titles = (...all) => {
    const got = [];
    let v = emptyView('s', 'me');
    for (const f of frames(all, { seq: 0 })) got.push((v = reduce(v, [f])).title);
    return got;
  };
  assert.deepEqual(titles(
    { type: 'session_created', data: { title: '' } }, said('m1', 'Fix the\n login bug'), said('m2', 'And this'),
    { type: 'message_edited', data: { message: 'm1', text: 'Fix the logout' } }, { type: 'context_cleared', data: { by: 'me' } },
    { type: 'session_updated', data: { title: 'Bugs' } }, { type: 'message_edited', data: { message: 'm1', text: 'No' } },
  ), ['', 'Fix the login bug', 'Fix the login bug', 'Fix the logout', 'Fix the logout', 'Bugs', 'Bugs']);
  assert.deepEqual(titles({ type: 'session_created', data: { title: 'Own' } }, said('m1', 'Hello')), ['Own', 'Own']);
  assert.deepEqual(titles({ type: 'session_created', data: {} }, said('m1', 'Hello'), { type: 'message_withdrawn', data: { message: 'm1' } }, said('m2', 'Hi')), ['', 'Hello', '', 'Hi']);
  // Files name it until there are words.
  const shown = (message, name) => ({ type: 'message_accepted', data: { message, author: 'me', client_msg_id: message, text: '', disposition: 'started', attachments: [{ hash: 'h', name }] } });
  assert.deepEqual(titles({ type: 'session_created', data: {} }, shown('m1', 'a.png'), shown('m2', 'b.png'), said('m3', 'Where is it?'), said('m4', 'And when?')), ['', 'a.png', 'a.png', 'Where is it?', 'Where is it?']);
  assert.deepEqual(titles({ type: 'session_created', data: {} }, shown('m1', 'a.png'), shown('m2', 'b.png'), { type: 'message_edited', data: { message: 'm2', text: 'This one' } }, { type: 'message_edited', data: { message: 'm1', text: 'Or this' } }), ['', 'a.png', 'a.png', 'This one', 'This one']);
});

test('deltas count code points', () => {
  const d = (at, text) => ({ type: 'delta', session: 's', task: 't', data: { draft: '1.1.0', at, text } });
  const text = (...deltas) => reduce(emptyView('s', 'me'), deltas).drafts.get('1.1.0').text;
  assert.equal(text(d(0, 'a👍🏽'), d(3, 'b')), 'a👍🏽b');
  assert.equal(text(d(0, 'abc'), d(1, 'bcd')), 'abcd', 'an overlap replaces');
  assert.equal(text(d(0, 'abc'), d(7, 'xyz')), 'abc…xyz', 'a hole is shown');
});

// Older pages may come in any size: the conversation is the same as if it had
// been read from its beginning.
test('folding older events under newer ones gives the whole conversation', () => {
  const t = JSON.parse(readFileSync(new URL('two-tasks.json', dir), 'utf8'));
  const all = frames(t.steps.flatMap((s) => s.in).filter((f) => stored.has(f.type)), { seq: 0 });
  const follow = (since) => ({ type: '@followed', session: 's', data: { head: all.length, state: { tasks: [], inbox: [], questions: [], calls: [] } } });
  const whole = reduce(emptyView('s', 'me'), [follow(0), ...all, { type: 'synced', session: 's', data: {} }]);
  for (let from = 1; from < all.length; from++) {
    let v = reduce(emptyView('s', 'me'), [follow(from), ...all.slice(from), { type: 'synced', session: 's', data: {} }]);
    for (let at = from; at > 0;) {
      const to = Math.max(0, at - 3);
      v = reduce(v, [{ type: '@older', session: 's', frames: all.slice(to, at) }]);
      at = to;
    }
    assert.deepEqual(screen(v), screen(whole), `window from ${from + 1}`);
    assert.equal(v.first, 1);
  }
});

// All transcripts that end with nothing open, one after the other, in one log.
test('a long log read from its end, in pages of any size, is the log read from its beginning', () => {
  const all = [];
  for (const file of readdirSync(dir).filter((f) => f.endsWith('.json')).sort()) {
    const own = JSON.parse(readFileSync(new URL(file, dir), 'utf8').replace(/"([a-z])(\d+)"/g, `"$1$2-${file}"`));
    const log = own.steps.flatMap((s) => s.in).filter((f) => stored.has(f.type) && !/^session_/.test(f.type)).map(({ seq, ...f }) => f);
    const v = reduce(emptyView('s', 'me'), frames(log, { seq: 0 }));
    if (v.tasks.size + v.asked.length + v.waiting.length + v.calls.size + v.lines.length === 0) all.push(...log);
  }
  const log = frames(all, { seq: 0 });
  const synced = { type: 'synced', session: 's', data: {} };
  const follow = { type: '@followed', session: 's', data: { head: log.length, state: { tasks: [], inbox: [], questions: [], calls: [] } } };
  const whole = reduce(emptyView('s', 'me'), [follow, ...log, synced]);
  assert.ok(whole.rests.length > 5 && log.length > 60, 'there are places where nothing is open');
  for (const size of [1, 2, 3, 5, 8, 13, 40]) {
    let v = reduce(emptyView('s', 'me'), [follow, ...log.slice(-size), synced]);
    for (let at = log.length - size; at > 0; at -= size) {
      v = reduce(v, [{ type: '@older', session: 's', frames: log.slice(Math.max(0, at - size), at) }]);
    }
    assert.deepEqual(screen(v), screen(whole), `pages of ${size}`);
    assert.deepEqual(v.rests, whole.rests, `pages of ${size}`);
    assert.deepEqual([...v.rows.keys()].sort(), [...v.order].sort());
  }
});

test('a list entry has every field, whatever the server leaves out', () => {
  assert.deepEqual(sessionEntry({ session: 'a' }), { id: 'a', title: '', agent: '', closed: false, activity: '', last: 0, seen: 0, open: 0, awaiting: 0 });
  assert.deepEqual(sessionEntry({ session: 'b', title: 't', agent: 'x', closed: true, activity_at: 'z', head: 9, seen: 4, open_tasks: 3, awaiting_tasks: 2 }), { id: 'b', title: 't', agent: 'x', closed: true, activity: 'z', last: 9, seen: 4, open: 3, awaiting: 2 });
});

test('a folded group says who did what', () => {
  const l = (id, kind, name, status, ended) => ({ id, kind, name, status, ended });
  assert.equal(activitySummary([l('d1', 'delegation', 'developer', 'started')]), 'Delegated to developer');
  assert.equal(activitySummary([l('d1:end', 'delegation', 'developer', 'ok', true), l('c1', 'tool', 'clock', 'ok')]), 'developer finished · used clock');
  assert.equal(activitySummary([l('c1', 'tool', 'clock', 'ok'), l('c2', 'tool', 'clock', 'error')]), 'Used clock · 1 problem');
  assert.equal(activitySummary([l('c1', 'tool', 'deploy', 'denied')]), 'Declined deploy');
  assert.equal(activitySummary([l('s1.2', 'retry', 'Attempt 2', 'note'), l('s1.3', 'retry', 'Attempt 3', 'note'), l('s1.end', 'retry', 'Model call', 'error')]), 'Tried again 2 times · 1 problem');
  assert.equal(activitySummary([l('n5', 'nudge', 'Check', 'note'), l('c1', 'tool', 'clock', 'ok')]), 'Used clock', 'what the model was reminded of is said inside, not in the summary');
});

test('a reminder says what it asks', () => {
  const text = (data) => reduce(emptyView('s', 'me'), frames([{ type: 'coverage_nudge', task: 't1', data }], { seq: 0 })).lines[0].text;
  assert.equal(text({ messages: ['m1'], nudge: 1 }), 'one message was not addressed yet');
  assert.equal(text({ messages: ['m1', 'm2'], nudge: 1 }), '2 messages were not addressed yet');
  assert.equal(text({ messages: ['m1'], questions: ['q1'], nudge: 1 }), 'one message may answer an open question');
  assert.equal(text({ messages: ['m1', 'm2'], questions: ['q1', 'q2'], nudge: 1 }), '2 messages may answer open questions');
});

// The first of two open questions may be older than the window: the second still says what it is about.
test('questions are told apart in a window, too', () => {
  const all = frames([
    { type: 'message_accepted', task: 't1', data: { message: 'm1', client_msg_id: 'a', author: 'me', text: 'one', disposition: 'started' } },
    { type: 'question', task: 't1', data: { question: 'q1', text: 'Which?', blocking: false, about: 'm1' } },
    { type: 'session_updated', data: {} },
    { type: 'message_accepted', task: 't1', data: { message: 'm2', client_msg_id: 'b', author: 'me', text: 'two', disposition: 'joined' } },
    { type: 'question', task: 't1', data: { question: 'q2', text: 'Whom?', blocking: false, about: 'm2' } },
  ], { seq: 0 });
  const questions = [{ question: 'q1', text: 'Which?', blocking: false, about: 'm1', task: 't1' }, { question: 'q2', text: 'Whom?', blocking: false, about: 'm2', task: 't1' }];
  const quotes = () => ['q1', 'q2'].map((q) => v.rows.get(`q:${q}`).quote?.text);
  let v = reduce(emptyView('s', 'me'), [{ type: '@followed', session: 's', data: { head: 5, state: { questions } } }, ...all.slice(3), { type: 'synced', session: 's', data: {} }]);
  assert.deepEqual(quotes(), ['an earlier message', 'two']);
  v = reduce(v, [{ type: '@older', session: 's', frames: all.slice(2, 3) }]);
  assert.deepEqual(quotes(), ['an earlier message', 'two']);
  v = reduce(v, [{ type: '@older', session: 's', frames: all.slice(0, 2) }]);
  assert.deepEqual(quotes(), ['one', 'two']);
});

test('who answers and who may read change while a conversation goes on', () => {
  const at = (seq, type, data) => ({ type, session: 's', seq, ts: '2026-01-01T00:00:00Z', data });
  const v = reduce(emptyView('s', 'me'), [
    at(1, 'session_created', { title: '', agent: 'coordinator', owner: 'me', access: 'private', policy: {} }),
    at(2, 'session_updated', { agent: 'tutor', members: { max: 'reader', eve: 'writer' } }),
    at(3, 'session_updated', { members: { eve: null } }),
  ]);
  assert.equal(v.agent, 'tutor');
  assert.deepEqual(v.members, { max: 'reader' });
});
