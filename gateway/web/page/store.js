// What a conversation looks like, as a pure function of what the server said.
//
// reduce(view, inputs) takes frames of the protocol and a few local inputs, whose
// type starts with "@", and returns a new view. It never changes the view that it
// was given, and a row that did not change is the same object as before: that is
// how the renderer knows what to leave alone.
//
// Local inputs:
//   @followed    {data}                      the answer to follow, when the view starts anew
//   @resumed     {data}                      the answer to follow, when the view goes on
//   @older       {frames}                    events from before the first one held
//   @send        {client_msg_id, text, ...}  the user sent a message; nobody confirmed it yet
//   @uploaded    {client_msg_id, local, hash} one of its files is on the server
//   @sent        {client_msg_id, ...}        the server's answer to it
//   @send_failed {client_msg_id, error}      it could not be sent; the user may try again
//   @discard     {client_msg_id}             the user gave it up
//   @quiet       {user}                      that user has stopped typing

import { MODES } from './choices.js';
import { Json, exact, pretty } from './exact.js';
import { namesOf, wordsOf } from './files.js';
import { Layers } from './layers.js';

const NONE = [];   // the files of a message without files

/** A conversation of which nothing is known yet. */
export function emptyView(session, me = '') {
  return {
    session, me,
    log: '', head: 0, first: 0, last: 0, synced: false, gone: null,
    title: '', opening: '', // the message that gives a conversation without a title its name
    ofFiles: false,          // it has no words, so its files do
    agent: '', owner: '', access: 'private', policy: {}, members: {}, closed: false,
    order: [],             // keys of rows, as shown
    rows: new Layers(),    // key -> row: user, part, question, activity, note
    messages: new Layers(), // message id -> {key, text, author, disposition, state}
    asked: [],             // keys of open questions, newest last
    waiting: [],           // ids of accepted messages that no model call has seen, in their order
    tasks: new Map(),      // open tasks
    runtimes: new Map(),   // open task -> what the outside runtime that has it said last
    calls: new Map(),      // open tool calls and delegations
    lines: [],             // activity since the last bubble of its task
    drafts: new Map(),     // texts of open steps while they stream
    thinking: null,        // {agent, step}
    stopped: '',           // the task that somebody has stopped last, and who or what did: user, interrupt
    stopper: '',
    typing: new Map(),     // user -> ts
    pending: new Map(),    // client_msg_id -> what the user sent and the log does not show yet
    frames: [],            // the durable frames held, for folding again under older ones
    begun: new Layers(),   // tasks whose begin is among them
    rests: [],             // where nothing was open: {seq, frames, rows} that came up to there
    missed: 0,             // the last seq that spoke of something from before the first frame
    base: null,            // the state that came with follow
  };
}

/** Applies inputs in order. */
export function reduce(view, inputs) {
  const v = inputs.every((i) => PASSING.has(i.type)) ? forkPassing(view) : fork(view);
  for (const input of inputs) {
    if (input.session && input.session !== v.session) continue;
    step(v, input);
  }
  return v;
}

function fork(v) {
  return {
    ...v,
    order: v.order.slice(), asked: v.asked.slice(), waiting: v.waiting.slice(), lines: v.lines.slice(), frames: v.frames.slice(), rests: v.rests.slice(), begun: v.begun.copy(),
    rows: v.rows.copy(), messages: v.messages.copy(), tasks: new Map(v.tasks), runtimes: new Map(v.runtimes), calls: new Map(v.calls),
    drafts: new Map(v.drafts), typing: new Map(v.typing), pending: new Map(v.pending),
  };
}

// What streams touches little; a long conversation is not copied for each word.
const PASSING = new Set(['delta', 'draft_state', 'draft_dropped', 'progress', 'thinking', 'typing']);
function forkPassing(v) { return { ...v, drafts: new Map(v.drafts), calls: new Map(v.calls), typing: new Map(v.typing) }; }

function step(v, f) {
  if (v.gone && f.type !== '@followed') return;
  if (f.type[0] !== '@' && typeof f.seq === 'number') {
    if (v.last && f.seq <= v.last) return;
    if (!v.first) v.first = f.seq;
    v.last = f.seq;
    v.head = Math.max(v.head, f.seq);
    v.frames.push(f);
    const task = f.task || f.data?.task;
    if (f.type === 'message_accepted' && (f.data?.disposition === 'started' || f.data?.disposition === 'queued')) v.begun.set(task, true);
    else if (task && !v.begun.has(task)) miss(v);
    durable[f.type]?.(v, f, f.data || {});
    if (atRest(v)) v.rests.push({ seq: f.seq, frames: v.frames.length, rows: v.order.length });
    return;
  }
  (local[f.type] || ephemeral[f.type])?.(v, f, f.data || {});
}

// ---- events that are stored ------------------------------------------------

const durable = {
  session_created(v, f, d) { about(v, d); },
  session_updated(v, f, d) {
    if (d.title !== undefined) called(v, d.title || '');
    if (d.access !== undefined) v.access = d.access;
    if (d.agent) {
      v.agent = d.agent;
      note(v, f, 'info', `Answered by ${d.agent} from here on`);
    }
    if (d.members) {
      v.members = { ...v.members };
      for (const [user, role] of Object.entries(d.members)) if (role === null) delete v.members[user]; else v.members[user] = role;
    }
    if (d.policy) {
      v.policy = { ...v.policy };
      for (const [key, value] of Object.entries(d.policy)) {
        if (value === null) delete v.policy[key]; else v.policy[key] = value;
      }
      const said = Object.entries(d.policy).map(([k, value]) => (value !== null && BROUGHT[k] ? BROUGHT[k](value) : k === 'inbox.mode' ? inboxMode(value) : value === null ? `${k} is as the server has it` : `${k} is ${value}`));
      if (said.length) note(v, f, 'info', `Settings changed: ${said.join('; ')}`);
    }
  },
  session_closed(v, f, d) {
    v.closed = true;
    note(v, f, 'info', d.reason ? `This conversation was closed: ${d.reason}` : 'This conversation was closed.');
  },

  message_accepted(v, f, d) {
    const mine = d.author === v.me && d.via !== 'delegation'; // a delegation speaks in its owner's name
    if (mine) v.pending.delete(d.client_msg_id);
    const key = userKey(d.author, d.client_msg_id || d.message);
    const state = d.disposition === 'answered' ? 'read' : 'queued';
    insert(v, {
      key, type: 'user', message: d.message, client_msg_id: d.client_msg_id, author: d.author, mine,
      text: spoken(v, d.question, d.text), attachments: d.attachments || NONE, via: d.via, mode: d.mode || '', disposition: d.disposition, state, ts: f.ts, task: f.task || '',
      question: d.question || '', quote: d.question ? questionQuote(v, d.question, v.rows.has(key) ? key : '') : quoteOf(v, d.in_reply_to),
    });
    v.messages.set(d.message, { key, text: d.text, attachments: d.attachments || NONE, author: d.author, disposition: d.disposition, state });
    if (d.disposition !== 'answered') opens(v, d.message, d.text, d.attachments);
    if (state === 'queued' && !v.waiting.includes(d.message)) v.waiting.push(d.message);
    if (f.task && (d.disposition === 'started' || d.disposition === 'queued') && !v.tasks.has(f.task)) {
      v.tasks.set(f.task, { task: f.task, status: 'QUEUED', trigger: d.message, cancelling: false, since: f.ts });
    }
    v.typing.delete(d.author);
  },
  message_edited(v, f, d) {
    const m = v.messages.get(d.message);
    if (!m) { miss(v); return; }
    v.messages.set(d.message, { ...m, text: d.text });
    if (v.opening === d.message && !v.ofFiles) v.title = '';
    opens(v, d.message, d.text, m.attachments);
    change(v, m.key, { text: d.text, edited: true });
  },
  message_withdrawn(v, f, d) {
    setState(v, d.message, 'withdrawn');
    if (v.opening === d.message) called(v, '');
  },
  message_moved(v, f, d) {
    const rest = v.waiting.filter((id) => id !== d.message);
    if (rest.length === v.waiting.length) { miss(v); return; }
    const at = d.before ? rest.indexOf(d.before) : 0;
    rest.splice(at < 0 ? rest.length : at, 0, d.message);
    v.waiting = rest;
  },
  message_resolved(v, f, d) {
    setState(v, d.message, d.how, { part: d.part ?? null, evidence: d.evidence || '', mergedInto: d.question || '' });
    if (d.how === 'answered' && typeof d.part === 'number') proven(v, f.task || '', d.part, d.message);
  },

  task_status(v, f, d) {
    const id = d.task || f.task;
    const now = d.new_status;
    const was = v.tasks.get(id);
    if (ENDED.has(now)) {
      v.tasks.delete(id);
      v.runtimes.delete(id);
      settle(v, f, id, now, d, was);
    } else {
      v.tasks.set(id, { ...(was || { task: id, cancelling: false }), status: now, trigger: d.trigger || was?.trigger, since: f.ts });
    }
    if (now !== 'RUNNING') {
      dropDrafts(v, (draft) => draft.task === id || !draft.task);
      if (v.thinking && (!v.thinking.task || v.thinking.task === id)) v.thinking = null;
    }
    for (const q of openQuestions(v)) if (q.task === id) change(v, q.key, { working: now === 'RUNNING' });
  },
  task_cancelling(v, f, d) {
    const id = d.task || f.task;
    const task = v.tasks.get(id);
    if (d.by === 'user' || d.by === 'interrupt') [v.stopped, v.stopper] = [id, d.by];
    if (task) v.tasks.set(id, { ...task, cancelling: true, until: d.until, by: d.by, reason: d.reason || '' });
  },

  step_started(v, f, d) {
    for (const id of d.read || []) setState(v, id, 'read');
    dropDrafts(v, (draft) => !draft.draft.startsWith(`${d.step}.${d.attempt}.`));
    v.thinking = { agent: d.agent || '', step: d.step, task: f.task || '', notBefore: d.not_before || '' };
    if (d.attempt > 1) {
      const why = { error: 'the model call failed', interrupted: 'it was interrupted', drain: 'the server restarted', moved: 'the session was loaded again' }[d.cause] || 'again';
      line(v, f, {
        id: `s${d.step}.${d.attempt}`, kind: 'retry', name: `Attempt ${d.attempt}`, status: 'note',
        text: d.error?.message ? `${why}: ${d.error.message}` : why,
      });
    }
  },
  step_finished(v, f, d) {
    if (v.thinking?.step === d.step) v.thinking = null;
    dropDrafts(v, (draft) => draft.stale && draft.draft.startsWith(`${d.step}.`));
    if (d.outcome === 'error' || d.outcome === 'unknown') {
      const why = d.outcome === 'error' ? 'no attempt left' : 'it did not end in time; what it did is not known';
      line(v, f, { id: `s${d.step}.end`, kind: 'retry', name: 'Model call', status: d.outcome, text: d.error?.message || why, ms: d.ms });
    }
  },

  partial_response(v, f, d) { part(v, f, d, false); },
  response(v, f, d) { part(v, f, d, true); },

  question(v, f, d) { ask(v, f, d, f.task || ''); },
  question_answered(v, f, d) {
    settled(v, d.question);
    change(v, questionKey(d.question), { state: 'answered', working: false, answer: spoken(v, d.question, d.text), by: d.by });
    if (d.message) {
      const m = v.messages.get(d.message);
      if (!m) miss(v);
      if (m && !v.rows.get(m.key)?.quote) change(v, m.key, { quote: questionQuote(v, d.question, m.key), question: d.question });
    }
  },
  question_closed(v, f, d) { settled(v, d.question); change(v, questionKey(d.question), { state: 'closed', working: false, reason: d.reason }); },

  tool_started(v, f, d) {
    v.calls.set(d.call, { call: d.call, kind: 'tool', name: d.tool, within: d.delegation || '', task: f.task || '', since: f.ts, deadline: d.deadline, caller: !!d.caller });
    line(v, f, { id: d.call, kind: 'tool', name: d.tool, within: d.delegation || '', text: payload(d.args), status: 'running', call: d.call });
  },
  tool_finished(v, f, d) { finishCall(v, f, d, d.call, 'tool'); },
  delegation_started(v, f, d) {
    v.calls.set(d.delegation, { call: d.delegation, kind: 'delegation', name: d.agent, objective: payload(d.objective), task: f.task || '', since: f.ts, deadline: d.deadline, sub: d.session });
    line(v, f, { id: d.delegation, kind: 'delegation', name: d.agent, text: payload(d.objective), status: 'running', sub: d.session || '' });
  },
  delegation_finished(v, f, d) { finishCall(v, f, d, d.delegation, 'delegation'); },

  runtime_status(v, f, d) {
    const name = d.runtime ? `Runtime ${excerpt(d.runtime, 40)}` : 'The runtime';
    const failed = d.status === 'failed';
    setState(v, d.message, 'read');
    const fresh = v.runtimes.get(f.task || '')?.generation !== d.generation; // else its runtime is given the same again
    v.runtimes.set(f.task || '', { name, failed, generation: d.generation, sign: f.ts });
    if (failed) line(v, f, { id: `r${f.seq}`, kind: 'runtime', name, status: 'error', text: d.error || 'it gave no sign of life in time' });
    else if (d.status === 'handed_out' && d.generation > 1 && fresh) line(v, f, { id: `r${f.seq}`, kind: 'runtime', name, status: 'note', text: 'the message was handed out again' });
  },

  coverage_nudge(v, f, d) {
    const n = (d.messages || []).length;
    const asks = (d.questions || []).length;
    const what = asks ? `may answer ${asks === 1 ? 'an open question' : 'open questions'}` : `${n === 1 ? 'was' : 'were'} not addressed yet`;
    line(v, f, { id: `n${f.seq}`, kind: 'nudge', name: 'Check', status: 'note', text: `${n === 1 ? 'one message' : `${n} messages`} ${what}` });
  },
  context_cleared(v, f, d) { note(v, f, 'rule', 'Cleared: the agent does not see what is above'); },
  context_compacted(v, f, d) {
    note(v, f, 'info', `Earlier messages were summarised for the model (${number(d.tokens_before)} → ${number(d.tokens_after)} tokens).`);
  },
};

/** The types of stored events that the page knows: all of them. */
export const DURABLE = Object.keys(durable);

// ---- events that are not stored --------------------------------------------

const ephemeral = {
  synced(v) {
    // Everything up to the head that follow spoke of has been shown, so its state
    // is the truth about what is open, also where the window starts later.
    if (v.synced) return;
    v.synced = true;
    const s = v.base;
    if (!s) return;
    if (Array.isArray(s.tasks)) {
      const old = v.tasks;
      v.tasks = new Map();
      for (const t of s.tasks) {
        const id = t.task;
        v.tasks.set(id, { task: id, since: t.created_at || '', ...old.get(id), status: t.status, trigger: t.trigger, cancelling: !!t.cancelling });
      }
    }
    if (Array.isArray(s.inbox)) {
      v.waiting = [];
      for (const m of s.inbox) {
        v.waiting.push(m.message);
        if (!v.messages.has(m.message)) {
          v.messages.set(m.message, { key: '', text: m.excerpt || '', author: m.author, disposition: 'queued', state: 'queued', excerpt: true });
        }
      }
    }
    if (Array.isArray(s.calls)) {
      const open = new Map();
      for (const c of s.calls) {
        const id = c.call;
        open.set(id, v.calls.get(id) || { call: id, kind: c.tool ? 'tool' : 'delegation', name: c.tool || c.agent, task: c.task || '', since: '', deadline: c.deadline, sub: c.session, caller: !!c.caller });
      }
      v.calls = open;
    }
    for (const q of s.questions || []) {
      if (!v.rows.has(questionKey(q.question))) ask(v, { ts: q.asked_at || '' }, q, q.task || '');
    }
    for (const q of openQuestions(v)) change(v, q.key, { working: v.tasks.get(q.task)?.status === 'RUNNING' });
  },
  delta(v, f, d) {
    const old = v.drafts.get(d.draft) || newDraft(f, d);
    v.drafts.set(d.draft, { ...splice(old, d.at ?? old.points, d.text || ''), stale: false });
  },
  draft_state(v, f, d) {
    dropDrafts(v, (draft) => draft.stale && draft.draft !== d.draft); // the server shows all that are left
    v.drafts.set(d.draft, { ...newDraft(f, d), text: d.text || '', points: points(d.text || '') });
  },
  draft_dropped(v, f, d) { v.drafts.delete(d.draft); },
  progress(v, f, d) {
    const call = v.calls.get(d.call);
    if (call) v.calls.set(d.call, { ...call, note: payload(d.note), percent: d.percent });
  },
  thinking(v, f, d) { v.thinking = { agent: d.agent || '', step: d.step, task: f.task || '', notBefore: '' }; },
  typing(v, f, d) {
    if (d.user === v.me) return;
    if (d.on) v.typing.set(d.user, f.ts || ''); else v.typing.delete(d.user);
  },
  gone(v, f, d) {
    // Nothing of it stays, here or wherever this view is kept.
    Object.assign(v, emptyView(v.session, v.me), { gone: /\s/.test(d.reason || '') ? d.reason : 'This conversation was erased.' });
  },
};

// ---- what happens on this side ---------------------------------------------

const local = {
  '@followed'(v, f, d) {
    const fresh = emptyView(v.session, v.me);
    // What the user has sent and nobody confirmed outlives every reload.
    Object.assign(v, fresh, { pending: v.pending, log: d.log || '', head: d.head || 0, base: d.state || null });
    if (d.state) about(v, d.state);
  },
  '@resumed'(v, f, d) {
    v.log = d.log || v.log;
    v.head = Math.max(v.head, d.head || 0);
    v.base = d.state || v.base;
    v.synced = false;
    // What was written stays readable until the server shows how far it is now.
    for (const [id, draft] of v.drafts) v.drafts.set(id, { ...draft, stale: true });
    v.typing = new Map();
  },
  '@older'(v, f) {
    const older = (f.frames || []).filter((x) => typeof x.seq === 'number' && x.seq < v.first).sort((a, b) => a.seq - b.seq);
    if (!older.length) { v.first = Math.min(v.first, f.from || v.first); return; }
    const fresh = emptyView(v.session, v.me);
    for (const x of older) step(fresh, x);
    const rest = foldOn(v, fresh);
    // Rows come from the log; what is open now is known better from the present.
    for (let i = 0; i < (rest ? rest.rows : v.order.length); i++) {
      const row = v.rows.get(v.order[i]);
      if (row.type !== 'question' || fresh.rows.has(row.key)) continue;
      insert(fresh, row);
      if (row.state === 'open') fresh.asked.push(row.key);
    }
    tellApart(fresh);
    for (const [key, row] of fresh.rows) {
      const old = v.rows.get(key);
      if (old && same(old, row)) fresh.rows.set(key, old);
    }
    fresh.messages = v.messages.under(fresh.messages);
    if (rest) joinAt(rest, v, fresh);
    v.first = fresh.first;
    for (const held of ['order', 'asked', 'rows', 'messages', 'lines', 'frames', 'runtimes', 'begun', 'rests', 'missed']) v[held] = fresh[held];
  },
  '@send'(v, f) {
    v.pending.delete(f.client_msg_id); // one that is sent once more goes behind the others
    v.pending.set(f.client_msg_id, {
      key: userKey(v.me, f.client_msg_id), type: 'user', client_msg_id: f.client_msg_id, author: v.me, mine: true,
      text: f.text, attachments: f.attachments || NONE, mode: f.mode || '', in_reply_to: f.in_reply_to || '', state: 'sending', ts: f.ts, pending: true,
      quote: quoteOf(v, f.in_reply_to),
    });
  },
  '@uploaded'(v, f) {
    const p = v.pending.get(f.client_msg_id);
    if (p) v.pending.set(f.client_msg_id, { ...p, attachments: p.attachments.map((a) => (a.local === f.local ? { ...a, hash: f.hash } : a)) });
  },
  '@sent'(v, f) {
    const p = v.pending.get(f.client_msg_id);
    if (!p) return;
    // The event is on its way. If the window holds the message already, the
    // answer was to a repeated send and the bubble is there.
    if (f.message && v.messages.has(f.message)) v.pending.delete(f.client_msg_id);
    else v.pending.set(f.client_msg_id, { ...p, state: 'sent', message: f.message || '' });
  },
  '@send_failed'(v, f) {
    const p = v.pending.get(f.client_msg_id);
    if (p) v.pending.set(f.client_msg_id, { ...p, state: 'failed', error: f.error });
  },
  '@discard'(v, f) { v.pending.delete(f.client_msg_id); },
  '@quiet'(v, f) { v.typing.delete(f.user); },
};

// ---- older events under newer ones --------------------------------------------

// Something is spoken of that only events from before the first one held can tell.
function miss(v) { v.missed = Math.max(v.missed, v.last); }

function atRest(v) { return !v.tasks.size && !v.calls.size && !v.runtimes.size && !v.asked.length && !v.waiting.length && !v.lines.length; }

// Folds the events held on top of older ones: as far as the older ones can make a
// difference, that is to the first place where nothing was open, with them and
// without, and behind which nothing speaks of what was not known. Gives that place,
// or null if all was folded.
function foldOn(v, fresh) {
  let at = 0;
  for (const rest of v.rests) {
    if (rest.seq < v.missed) continue;
    for (; at < rest.frames; at++) step(fresh, v.frames[at]);
    if (atRest(fresh)) return rest;
  }
  for (; at < v.frames.length; at++) step(fresh, v.frames[at]);
  return null;
}

// Puts behind the fresh rows those that came after the place of rest.
function joinAt(rest, v, fresh) {
  const [frames, rows] = [fresh.frames.length - rest.frames, fresh.order.length - rest.rows];
  const joined = v.rows.under(fresh.rows);
  for (let i = 0; i < rest.rows; i++) if (!fresh.rows.has(v.order[i])) joined.delete(v.order[i]);
  fresh.rows = joined;
  fresh.order = fresh.order.concat(v.order.slice(rest.rows));
  fresh.frames = fresh.frames.concat(v.frames.slice(rest.frames));
  for (const r of v.rests) if (r.seq > rest.seq) fresh.rests.push({ seq: r.seq, frames: r.frames + frames, rows: r.rows + rows });
  fresh.begun = v.begun.under(fresh.begun);
  Object.assign(fresh, { asked: v.asked, lines: v.lines, runtimes: v.runtimes });
}

// ---- rules that several events share ---------------------------------------

export const ENDED = new Set(['COMPLETE', 'ERROR', 'CANCELLED']);

function about(v, d) {
  called(v, d.title || '');
  v.agent = d.agent || '';
  v.owner = d.owner || '';
  v.access = d.access || 'private';
  v.policy = d.policy || {};
  v.members = d.members || {};
  if (d.closed !== undefined) v.closed = !!d.closed;
}

function userKey(author, id) { return `u:${author}:${id}`; }
function questionKey(id) { return `q:${id}`; }

function insert(v, row) {
  if (!v.rows.has(row.key)) v.order.push(row.key);
  v.rows.set(row.key, 'seq' in row ? row : { ...row, seq: v.last });
}

function change(v, key, fields) {
  const row = v.rows.get(key);
  if (!row || (v.rests.length && row.seq <= v.rests[v.rests.length - 1].seq)) miss(v);
  if (!row) return;
  for (const name of Object.keys(fields)) {
    if (row[name] !== fields[name]) { v.rows.set(key, { ...row, ...fields }); return; }
  }
}

function setState(v, id, state, fields = {}) {
  v.waiting = v.waiting.filter((x) => x !== id);
  const m = v.messages.get(id);
  if (!m) { miss(v); return; }
  if (state === 'read' && m.state !== 'queued') return;
  v.messages.set(id, { ...m, state });
  change(v, m.key, { state, ...fields });
}

function note(v, f, tone, text) { insert(v, { key: `n:${f.seq}`, type: 'note', tone, text, ts: f.ts }); }

function inboxMode(value) {
  return `messages that come during work: ${value === null ? 'as the server is set up' : `“${MODES[value]?.[0] || value}”`}`;
}

// Its own title, or the first words of its first message.
function called(v, title, opening = '', ofFiles = false) { v.title = title; v.opening = opening; v.ofFiles = ofFiles; }

// The first message that has words names it; until there is one, the first that has files.
function opens(v, message, text, attachments) {
  const words = excerpt(text, 60).trim();
  if (words ? !v.title || v.ofFiles : !v.title) called(v, words || excerpt(namesOf(attachments), 60), message, !words);
}

// A bubble names what it answers only when the last thing that a user said above
// it is something else.
function quoteOf(v, id, above = '') {
  if (!id) return null;
  const end = above ? v.order.lastIndexOf(above) : v.order.length;
  for (let i = end - 1; ; i--) {
    if (i < 0) { miss(v); break; }
    const row = v.rows.get(v.order[i]);
    if (row.type === 'user') {
      if (row.message === id) return null;
      break;
    }
  }
  return messageQuote(v, id);
}

function messageQuote(v, id) {
  const m = v.messages.get(id);
  if (m) return { key: m.key, text: excerpt(wordsOf(m.text, m.attachments)) };
  const part = v.rows.get(`p:${id}`);
  if (!part) miss(v);
  return { key: part ? part.key : '', text: part ? excerpt(part.text) : 'an earlier message' };
}

// A part whose addressee was guessed names the message that it was found to answer,
// once there is a receipt that says so.
function proven(v, task, index, message) {
  for (let i = v.order.length - 1; i >= 0; i--) {
    const row = v.rows.get(v.order[i]);
    if (row.type !== 'part' || row.task !== task || row.part !== index) continue;
    if (row.guessed) change(v, row.key, { guessed: false, in_reply_to: message, quote: quoteOf(v, message, row.key) });
    return;
  }
  miss(v);
}

// Right below its question an answer need not repeat it. key is the answer's row, if it is one yet.
function questionQuote(v, id, key = '') {
  const q = v.rows.get(questionKey(id));
  const at = key ? v.order.lastIndexOf(key) : v.order.length;
  if (q && v.order[at - 1] === q.key) return null;
  if (!q) miss(v);
  return { key: questionKey(id), text: q ? excerpt(q.text) : 'an earlier question' };
}

function part(v, f, d, final) {
  const key = `p:${d.message}`;
  if (d.draft) v.drafts.delete(d.draft);
  const runtime = v.runtimes.get(f.task || '');
  if (runtime && !runtime.failed) v.runtimes.set(f.task, { ...runtime, sign: f.ts });
  if (v.rows.has(key)) {
    // Promoted: the part was shown before and is the final answer now.
    change(v, key, { final, kind: d.kind || '', promoted: !!d.promoted, text: d.text });
    return;
  }
  if (d.promoted) miss(v);
  const answered = v.messages.get(d.in_reply_to);
  if (answered) change(v, answered.key, { replied: true }); // also by a guess: it is shown as an answer to that
  insert(v, {
    key, type: 'part', message: d.message, source: d.source ?? '', part: d.part ?? null, text: d.text,
    in_reply_to: d.in_reply_to || '', guessed: !!d.guessed, quote: quoteOf(v, d.in_reply_to), final, kind: d.kind || '', promoted: !!d.promoted,
    cut: !d.cut ? '' : v.stopped !== '' && v.stopped === f.task ? v.stopper : 'end', draft: d.draft || '', task: f.task || '', ts: f.ts, lines: freeze(v, f.task || ''),
  });
}

function ask(v, f, d, task) {
  if (d.delegation && !v.calls.has(d.delegation)) miss(v);
  insert(v, {
    key: questionKey(d.question), type: 'question', question: d.question, text: d.text, blocking: !!d.blocking,
    about: d.about || '', quote: quoteOf(v, d.about), choices: d.choices || [], expires_at: d.expires_at || '', default: d.default ?? null, delegation: d.delegation || '',
    asker: d.delegation ? v.calls.get(d.delegation)?.name || d.delegation : '',
    // A tool that a program brought to the session and runs: people are not asked for its result.
    result: (d.call && v.calls.get(d.call)?.caller && v.calls.get(d.call).name) || '',
    approval: d.approval || null, state: 'open', reason: '', answer: null, by: '', task, ts: f.ts,
    working: v.tasks.get(task)?.status === 'RUNNING', lines: d.delegation ? [] : freeze(v, task),
  });
  v.asked.push(questionKey(d.question));
  tellApart(v);
}

function settled(v, question) { v.asked = v.asked.filter((key) => key !== questionKey(question)); }

// Where several questions are open, each says what it is about, wherever it stands.
function tellApart(v) {
  const open = openQuestions(v);
  if (open.length < 2) return;
  for (const q of open) if (q.about && !q.quote) change(v, q.key, { quote: messageQuote(v, q.about) });
}

function line(v, f, l) { v.lines.push({ task: f.task || '', ts: f.ts, within: '', text: '', ...l }); }

// An approval with other arguments is JSON on the wire; people see what it means.
function spoken(v, question, text) {
  if (!question || text[0] !== '{' || !v.rows.get(questionKey(question))?.approval) return text;
  try {
    const card = exact(text);
    const args = typeof card.approve === 'boolean' ? card.args : new Json(text);
    if (card.approve === false) return 'no';
    return args === undefined ? 'yes' : `yes, with these arguments:\n\`\`\`json\n${pretty(args)}\n\`\`\``;
  } catch { return text; }
}

// What was done before a bubble stays with it; what comes later gathers below.
function freeze(v, task) {
  if (!task) return [];
  const out = v.lines.filter((l) => l.task === task).map((l) => (l.status === 'running' ? { ...l, status: 'started' } : l));
  v.lines = v.lines.filter((l) => l.task !== task);
  return activity(out);
}

function finishCall(v, f, d, id, kind) {
  const call = v.calls.get(id);
  v.calls.delete(id);
  const end = { status: d.status, ms: d.ms, result: payload(d.summary) };
  const i = v.lines.findIndex((l) => l.id === id);
  if (!call && i < 0 && !approvedTool(v, id)) miss(v);
  if (i >= 0) v.lines[i] = { ...v.lines[i], ...end };
  // Its start is frozen under a bubble already: the end is a line of its own.
  else line(v, f, { id: `${id}:end`, kind, name: call?.name || approvedTool(v, id) || (kind === 'tool' ? 'tool' : 'delegation'), within: call?.within || '', sub: call?.sub || '', call: kind === 'tool' ? id : '', ended: true, ...end });
}

// A call that was declined never started; the question knows what it was.
function approvedTool(v, call) {
  // A delegate counts its calls itself: its c1 is not this session's.
  for (const row of v.rows.values()) if (row.approval?.call === call && !row.delegation) return row.approval.tool;
  return '';
}

function settle(v, f, id, status, d, was) {
  const lines = freeze(v, id);
  for (const [call, c] of v.calls) if (c.task === id) v.calls.delete(call);
  if (lines.length) insert(v, { key: `a:${f.seq}`, type: 'activity', lines, task: id, ts: f.ts });
  if (status === 'CANCELLED' && d.old_status !== 'QUEUED') { // what never ran has nothing to stop
    const by = was?.by === 'interrupt' ? 'Interrupted by a newer message' : 'Stopped';
    const reason = was?.by === 'interrupt' ? '' : d.reason || was?.reason; // of an interrupt it says the same again
    note(v, f, 'stop', reason && reason !== was?.by ? `${by}: ${reason}` : `${by}.`);
  } else if (status === 'ERROR') {
    const shown = v.order.find((key) => { const r = v.rows.get(key); return r.task === id && r.kind === 'error'; });
    if (shown) change(v, shown, { error: d.error || null });
    else note(v, f, 'error', d.error?.message || 'This task ended with an error.');
  }
}

function dropDrafts(v, which) { for (const [id, draft] of v.drafts) if (which(draft)) v.drafts.delete(id); }

// The draft of an answer is a row as long as it is written; the part that comes of it names it.
function newDraft(f, d) { return { key: `d:${d.draft}`, type: 'draft', draft: d.draft, task: f.task || '', text: '', points: 0, stale: false }; }

// Offsets of deltas count code points, JavaScript's strings do not.
function points(text) { let n = 0; for (const _ of text) n++; return n; }

function splice(draft, at, text) {
  if (at === draft.points) return { ...draft, text: draft.text + text, points: draft.points + points(text) };
  const have = Array.from(draft.text);
  // Later than what is here: something was lost. The part will bring all of it.
  const head = at > have.length ? draft.text + '…' : have.slice(0, at).join('');
  return { ...draft, text: head + text, points: at + points(text) };
}

function payload(x) {
  if (x === undefined || x === null) return '';
  if (typeof x === 'string') return x;
  if (x.redacted) return '(hidden)';
  return x instanceof Json ? x.text : JSON.stringify(x);
}

function same(a, b) { return JSON.stringify(a) === JSON.stringify(b); }
function number(n) { return String(n ?? '?').replace(/\B(?=(\d{3})+(?!\d))/g, ','); }

/** Shortens a text to one line of at most n code points. */
export function excerpt(text, n = 90) {
  const flat = String(text ?? '').replace(/\s+/g, ' ').trim();
  const all = Array.from(flat);
  return all.length > n ? all.slice(0, n).join('') + '…' : flat;
}

// ---- what the renderer asks ------------------------------------------------

/** All rows in order: the log's, then what is not in it yet. */
export function visibleRows(v) {
  const rows = v.order.map((key) => v.rows.get(key));
  for (const p of v.pending.values()) if (!v.rows.has(p.key)) rows.push(p);
  return rows;
}

/**
 * The same as a list that is not made: at(i), slice(a, b), length. It costs nothing
 * however long the conversation is, and stays as it is.
 */
export class Shown {
  constructor(v, drafts) {
    const pending = [...v.pending.values()].filter((p) => !v.rows.has(p.key));
    Object.assign(this, { order: v.order, rows: v.rows, rest: [...pending, ...drafts], logged: v.order.length });
    this.length = this.logged + this.rest.length;
    this.drafts = drafts.length;
  }

  at(i) { return i < this.logged ? this.rows.get(this.order[i]) : this.rest[i - this.logged]; }

  slice(from, to) {
    const out = [];
    for (let i = Math.max(0, from); i < Math.min(to, this.length); i++) out.push(this.at(i));
    return out;
  }

  indexOf(key) {
    const i = this.order.lastIndexOf(key);
    if (i >= 0) return i;
    const k = this.rest.findIndex((r) => r.key === key);
    return k < 0 ? -1 : this.logged + k;
  }
}

/** Answers that are being written, as rows below all others. */
export function openDrafts(v) { return [...v.drafts.values()].filter((d) => d.text.trim()); }

/** Waiting messages that can still be edited, withdrawn and moved. */
export function waitingMessages(v) {
  return v.waiting.map((id) => ({ message: id, ...v.messages.get(id) })).filter((m) => m.disposition !== 'started' && m.state === 'queued');
}

/** What became of a user's message, in words. */
export function became(row) {
  switch (row.state) {
    case 'sending': return { text: 'Sending…', tone: 'quiet' };
    case 'sent': return { text: 'Sent', tone: 'quiet' };
    case 'failed': return row.pending ? { text: 'Not sent', tone: 'bad' } : { text: 'Failed', tone: 'bad', title: 'Its task ended with an error' };
    case 'queued': return row.disposition === 'started' ? { text: 'Accepted', tone: 'quiet' } : { text: 'Waiting', tone: 'wait', title: 'Accepted and stored; it will be read at the next step' };
    case 'read': return { text: 'Read', tone: 'quiet' };
    case 'answered': return { text: 'Answered', tone: 'good' };
    case 'merged': return row.mergedInto || row.question
      ? { text: 'Answers a question', tone: 'good', title: 'What you said was the answer to a question' }
      : { text: 'Part of another answer', tone: 'good', title: 'It changed or repeated another request, and is answered with that' };
    case 'dismissed': return { text: 'No answer needed', tone: 'quiet', title: 'The agent read it and had nothing to say to it' };
    case 'withdrawn': return { text: 'Withdrawn', tone: 'quiet' };
    case 'cancelled': return { text: 'Cancelled', tone: 'quiet' };
    // Beside an answer, nobody wants to read that there is none: that it is one is just not proven.
    case 'unanswered': return row.replied ? { text: '', tone: 'quiet' } : { text: 'No answer', tone: 'wait', title: 'It was read, but nothing was said to it' };
    default: return { text: row.state || '', tone: 'quiet' };
  }
}

/**
 * What the working indicator says, or null. It follows the tasks' status alone:
 * it is there from the first RUNNING to the task's end, whatever is shown between.
 */
export function working(v) {
  const tasks = [...v.tasks.values()];
  const running = tasks.find((t) => t.status === 'RUNNING' || t.cancelling);
  if (running) {
    if (running.cancelling) return { state: 'stopping', task: running.task, since: running.since, text: 'Stopping…' };
    const calls = [...v.calls.values()].filter((c) => !c.within);
    if (v.thinking && (!v.thinking.task || v.thinking.task === running.task)) {
      const busy = calls.filter((c) => c.kind === 'delegation').map((c) => c.name);
      const doing = openDrafts(v).some((d) => !d.task || d.task === running.task) ? 'Writing' : 'Thinking';
      return { state: 'working', task: running.task, since: running.since, text: busy.length ? `${doing}, while ${list(busy)} ${busy.length > 1 ? 'work' : 'works'}` : doing };
    }
    if (calls.length) {
      const text = calls.map((c) => (c.kind === 'delegation' ? `${c.name} is working` : `Using ${c.name}`) + (c.note ? ` (${c.note}${c.percent != null ? `, ${c.percent} %` : ''})` : '')).join(' · ');
      return { state: 'working', task: running.task, since: running.since, text };
    }
    return { state: 'working', task: running.task, since: running.since, ...outside(v, running) };
  }
  const awaiting = tasks.filter((t) => t.status === 'AWAITING_RESPONSE');
  if (awaiting.length) {
    const open = openQuestions(v);
    const yours = awaiting.filter((t) => open.some((q) => q.task === t.task));
    const result = yours.length ? null : v.asked.map((key) => v.rows.get(key)).findLast((q) => q.result);
    if (result) return { state: 'working', task: result.task, since: result.ts, text: `Waiting for a program, for the result of ${result.result}` };
    return { state: 'awaiting', task: (yours.at(-1) || awaiting.at(-1)).task, text: 'Waiting for your answer' };
  }
  const queued = tasks.find((t) => t.status === 'QUEUED');
  if (queued) return { state: 'queued', task: queued.task, text: 'Queued, starts as soon as there is room' };
  return null;
}

// In a session for outside runtimes: which one has the task, and when it last gave
// a sign of life. Elsewhere the task just works.
function outside(v, task) {
  const runtime = v.runtimes.get(task.task);
  if (runtime) return runtime.failed ? { text: 'Waiting for another runtime' } : { text: `${runtime.name} is at work`, sign: runtime.sign };
  const waits = /^outside(:|$)/.test(v.agent) && v.messages.get(task.trigger)?.state === 'queued';
  return { text: waits ? 'Waiting for a runtime' : 'Working' };
}

function list(names) { return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}`; }

// What a program brings to a session is long, and not for people: a sentence says that it did.
const BROUGHT = {
  'tools.caller': (tools) => (tools.length ? `a program brings ${list(tools.map((t) => t.name))}` : 'no program brings tools'),
  instructions: () => 'other instructions for the model',
};

const CLOSED = { expired: 'Expired without an answer', superseded: 'No longer needed: a newer message took its place', cancelled: 'Cancelled' };
const NO = /^(no?|nope|declined?|deny|denied|reject|don't|do not|stop)[.!]*$/i; // the server's words; what else it takes is a yes

/** What became of a question, in words: {tone, label, text}, or null while it is open. */
export function outcome(row) {
  if (row.state === 'open') return null;
  if (row.state !== 'answered') return { tone: 'quiet', label: CLOSED[row.reason] || 'Closed', text: '' };
  if (!row.approval) return { tone: 'good', label: row.by === 'default' ? 'No answer came; the default counts' : 'Answered', text: row.answer };
  if (NO.test(row.answer.trim())) return { tone: 'bad', label: 'Declined', text: '' };
  return { tone: 'good', label: row.answer.startsWith('yes, with') ? 'Approved with other arguments' : 'Approved', text: '' };
}

/** Open questions that people are asked, newest last: those for the results of a program's tools are none. */
export function openQuestions(v) {
  return v.asked.map((key) => v.rows.get(key)).filter((q) => !q.result);
}

/** An entry of GET /api/sessions as the list shows it. */
export function sessionEntry(x) {
  return {
    id: x.session, title: x.title || '', agent: x.agent || '', closed: !!x.closed,
    activity: x.activity_at || x.created_at || '',
    last: x.head || 0, seen: x.seen || 0, open: x.open_tasks || 0, awaiting: x.awaiting_tasks || 0,
  };
}

/** What was done, as people are shown it. That the model was reminded of something is no activity of its own. */
export function activity(lines) { return lines.some((l) => l.kind !== 'nudge') ? lines : NONE; }

/** One line of what was done, in words: the summary of a folded group. A reminder stands inside alone. */
export function activitySummary(lines) {
  const tools = new Map(); const given = new Map(); const ended = new Map(); const declined = new Map(); let again = 0; let bad = 0;
  for (const l of lines) {
    const id = l.id.replace(/:end$/, '');
    if (l.kind === 'tool') (l.status === 'denied' ? declined : tools).set(id, l.name);
    else if (l.kind === 'delegation') (l.ended ? ended : given).set(id, l.name);
    else if (l.kind !== 'nudge' && l.status === 'note') again++;
    if (['error', 'failed', 'timeout', 'unknown'].includes(l.status)) bad++;
  }
  const out = [];
  if (given.size) out.push(given.size < 4 ? `Delegated to ${list(unique(given))}` : `${given.size} delegations`);
  if (ended.size) out.push(ended.size < 4 ? `${list(unique(ended))} finished` : `${ended.size} delegations finished`);
  if (tools.size) out.push(unique(tools).length < 4 ? `used ${list(unique(tools))}` : `${tools.size} tool calls`);
  if (declined.size) out.push(`declined ${list(unique(declined))}`);
  if (again) out.push(again === 1 ? 'tried again' : `tried again ${again} times`);
  if (bad) out.push(bad === 1 ? '1 problem' : `${bad} problems`);
  const text = out.join(' · ');
  return given.size || ended.size ? text : text.replace(/^./, (c) => c.toUpperCase());
}

function unique(names) { return [...new Set(names.values())]; }
