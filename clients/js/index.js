// A client for parley, for browsers and Node: what is sent arrives once, what
// happens is seen once and in order, across lost connections and restarts.
//
//   const parley = connect('http://127.0.0.1:8080');
//   const session = await parley.create({ title: 'Login' });
//   const { text } = await session.ask('What is 17 * 23?');

import { Client, CommandError, backoff } from './client.js';

export { Client, CommandError, backoff };

/** A request over HTTP that was refused (`code`), or that could not be made (`disconnected`). */
export class RequestError extends Error {
  constructor(status, problem, cause) {
    super(problem.detail || problem.title || (status ? `The server answered ${status}.` : 'The server cannot be reached.'), { cause });
    this.name = 'RequestError';
    this.status = status;
    this.code = problem.code || (status ? 'internal' : 'disconnected');
    this.request = problem.request_id || '';
    this.problem = problem;
  }
}

/** Keeps what is not acknowledged in memory: it is lost with the process. */
export const memory = () => {
  let entries = [];
  return { load: () => entries, save: (all) => { entries = all; } };
};

/** Keeps what is not acknowledged in the browser, across reloads of the page. One tab at a time may use a key. */
export const browserStorage = (key = 'parley.outbox', storage = globalThis.localStorage) => ({
  load: () => JSON.parse(storage.getItem(key) || '[]'),
  save: (all) => storage.setItem(key, JSON.stringify(all)),
});

const newID = () => globalThis.crypto.randomUUID();

// Runs f when everything has run that the promises settled so far have woken.
const later = globalThis.setImmediate ? (f) => globalThis.setImmediate(f) : (() => {
  const queue = [];
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => queue.shift()();
  return (f) => { queue.push(f); port2.postMessage(0); };
})();

// What f promises, or the signal's reason when it is aborted before.
const within = (signal, f) => (!signal ? f() : new Promise((resolve, reject) => {
  const end = () => reject(signal.reason);
  if (signal.aborted) { end(); return; }
  signal.addEventListener('abort', end);
  f().then(resolve, reject).then(() => signal.removeEventListener('abort', end));
}));

/** Connects to the server at url; see Parley. */
export function connect(url, options = {}) {
  return new Parley(url, options);
}

/**
 * Parley is one user's connection. Options: token, storage (the outbox), name and
 * version (of the program), caps, WebSocket and fetch (where the platform has
 * none), and those of Client.
 */
export class Parley {
  constructor(url, { storage = memory(), token = () => '', WebSocket = globalThis.WebSocket, fetch = globalThis.fetch, name = 'parley-js', ...options } = {}) {
    if (!WebSocket) throw new Error('This platform has no WebSocket. Use Node 22, or give one: connect(url, { WebSocket }), such as that of the package ws.');
    this.base = new URL(url, globalThis.location?.href);
    if (!this.base.pathname.endsWith('/')) this.base.pathname += '/'; // a server may live below a path
    const socket = new URL('ws', this.base);
    socket.protocol = this.base.protocol.replace('http', 'ws');
    this.fetch = fetch;
    this.token = typeof token === 'function' ? token : () => token;
    this.storage = storage;
    this.sessions = new Map();
    this.listeners = new Map();
    this.held = [];        // deliveries that wait for those who await an answer
    this.holding = false;
    this.state = 'connecting';
    this.user = '';
    this.settled = new Map(); // client_msg_id -> {resolve, reject}
    this.lanes = new Map();   // session -> is its next entry under way?
    this.client = new Client({ ...options, url: socket.href, token: this.token, WebSocket, name, on: (kind, p) => this.told(kind, p) });
    this.random = this.client.random;
    this.setTimeout = this.client.setTimeout;
    this.entries = null;      // what is not acknowledged, in order; null = not loaded yet
    this.kept = new Set();    // the ids of those that the storage has
    this.starting = (async () => [...await storage.load()])().then((all) => {
      this.entries = all;
      this.kept = new Set(all.map((e) => e.id));
      if (!this.client.stopped) this.client.start();
    });
    this.starting.catch((err) => { this.fail(err); });
  }

  // ---- what happens -------------------------------------------------------

  /** Calls f with what happens: status, hello, listed, error. Returns how to end that. */
  on(kind, f) { return listen(this.listeners, kind, f); }

  emit(kind, value) { this.deliver(() => call(this.listeners, kind, value)); }

  // An answer wakes whoever awaits it, some turns of promises later. What comes
  // behind it in the same moment waits for that, so that the order is the wire's;
  // and so does what comes while something still waits.
  deliver(f) {
    if (this.holding || this.held.length) this.held.push(f); else attempt(f);
  }

  hold() {
    if (this.holding) return;
    this.holding = true;
    later(() => {
      this.holding = false;
      while (this.held.length && !this.holding) attempt(this.held.shift());
    });
  }

  told(kind, p) {
    switch (kind) {
      case 'status':
        this.state = p.state;
        if (p.state === 'stopped' && p.code !== 1000) this.fail(Object.assign(new Error(p.reason), { code: 'stopped', close: p.code }));
        this.emit('status', p);
        return;
      case 'hello':
        this.hold();
        this.user = p.user;
        this.info = p;
        this.emit('hello', p);
        for (const session of new Set(this.entries.map((e) => e.session))) this.push(session);
        if (this.watching) this.watchAgain();
        return;
      case 'followed': this.sessions.get(p.session)?.followed(p); return;
      case 'unfollowed': this.sessions.get(p.session)?.ended(p.error); return;
      case 'frame': this.sessions.get(p.session)?.frame(p); return;
      case 'notice': if (p.type === 'listed') this.emit('listed', p.data); return;
      case 'refresh_failed': this.emit('error', p); return;
      default:
    }
  }

  fail(err) {
    this.broken = err;
    for (const { reject } of this.settled.values()) reject(err);
    this.settled.clear();
    for (const s of this.sessions.values()) s.ended(err);
    this.emit('broken', err);
    if (err.code !== 'closed') this.emit('error', err);
  }

  /** Resolves with hello's answer once there is a connection. */
  ready({ signal } = {}) {
    if (this.client.open) return Promise.resolve(this.info);
    if (this.broken) return Promise.reject(this.broken);
    const ends = [];
    const told = () => new Promise((resolve, reject) => { ends.push(this.on('hello', resolve), this.on('broken', reject)); });
    return within(signal, told).finally(() => ends.forEach((f) => f()));
  }

  /** Ends the connection. What is not acknowledged stays in the storage. */
  close() {
    this.client.stop();
    this.fail(Object.assign(new Error('The client was closed.'), { code: 'closed' }));
  }

  // ---- commands -----------------------------------------------------------

  /**
   * Asks a command that may be asked twice: again after a lost connection, and
   * after a refusal that is retryable, not before retry_after_ms, until signal is aborted.
   */
  command(type, session, data = {}, { signal } = {}) {
    return within(signal, async () => {
      for (let attempt = 0; ; attempt++) {
        await this.ready({ signal });
        signal?.throwIfAborted();
        try {
          return await this.once(type, session, data);
        } catch (err) {
          if (!err.retryable) throw err;
          if (err.code !== 'disconnected') await this.pause(err.retryAfter || backoff(attempt, this.random));
          else await new Promise(later);
        }
      }
    });
  }

  /** Asks a command once. */
  once(type, session, data) {
    return new Promise((resolve, reject) => {
      this.client.command(type, session, data, (ok) => { this.hold(); resolve(ok); }).catch((err) => { this.hold(); reject(err); });
    });
  }

  pause(ms) { return new Promise((r) => { this.setTimeout(r, ms); }); }

  /** Opens a session and follows it from its first event. */
  async create(data = {}, options = {}) {
    const { session } = await this.command('create', '', { client_session_id: newID(), ...data }, options);
    return this.session(session);
  }

  /** A session that is there: from its first event, or {since, log}, or {tail}. */
  session(id, options = {}) {
    let s = this.sessions.get(id);
    if (!s) this.sessions.set(id, s = new Session(this, id, options));
    return s;
  }

  /** Tells f each change of a row of one's list, also across reconnects, until the function it resolves to is called. */
  async watch(f) {
    const end = this.on('listed', f);
    this.watching = (this.watching || 0) + 1;
    try { await this.command('watch', ''); } catch (err) { this.watching--; end(); throw err; }
    return () => {
      end();
      if (--this.watching === 0 && this.client.open) this.client.command('unwatch', '', {}).catch(() => {});
    };
  }

  watchAgain() {
    this.command('watch', '').catch((err) => this.emit('error', err));
  }

  // ---- the outbox ---------------------------------------------------------

  /** What is not acknowledged yet: [{id, type, session, data}], the oldest first. */
  pending() { return this.entries ? [...this.entries] : []; }

  async post(type, session, data) {
    await this.starting;
    if (this.broken) throw this.broken;
    const entry = { id: data.client_msg_id, type, session, data };
    this.entries.push(entry);
    const answer = new Promise((resolve, reject) => { this.settled.set(entry.id, { resolve, reject }); });
    answer.catch(() => {}); // whoever awaits it hears
    try {
      await this.storage.save(this.pending());
    } catch (err) {
      this.entries.splice(this.entries.indexOf(entry), 1);
      this.settled.delete(entry.id);
      throw err;
    }
    this.kept.add(entry.id);
    this.push(session);
    return answer;
  }

  // One at a time for a session, so that a refusal lets no later one overtake.
  async push(session, refused = 0) {
    if (this.lanes.get(session) || !this.client.open) return;
    const entry = this.entries.find((e) => e.session === session);
    if (!entry || !this.kept.has(entry.id)) return;
    this.lanes.set(session, true);
    let answer; let wrong;
    try { answer = await this.once(entry.type, session, entry.data); } catch (err) { wrong = err; }
    if (wrong?.retryable) {
      if (wrong.code !== 'disconnected') await this.pause(wrong.retryAfter || backoff(refused, this.random));
      this.lanes.set(session, false);
      this.push(session, refused + 1);
      return;
    }
    this.entries.splice(this.entries.indexOf(entry), 1);
    this.kept.delete(entry.id);
    const waiter = this.settled.get(entry.id);
    this.settled.delete(entry.id);
    if (wrong) waiter?.reject(wrong); else waiter?.resolve(answer);
    this.hold();
    try { await this.storage.save(this.pending()); } catch (err) { this.emit('error', err); }
    this.lanes.set(session, false);
    this.push(session);
  }

  // ---- HTTP ---------------------------------------------------------------

  /** The address of a route of the HTTP API: url('/api/blobs/…'). */
  url(path) { return new URL(path.replace(/^\//, ''), this.base).href; }

  /** A request of the HTTP API; JSON in and out, or, with read: 'blob', a file out. */
  request(method, path, body, { type = 'application/json', ...options } = {}) {
    return this.exchange(method, path, type === 'application/json' && body !== undefined ? JSON.stringify(body) : body, { type, ...options });
  }

  // The body goes as it is, whatever its type.
  async exchange(method, path, body, { key, type, read = 'json', signal }) {
    signal?.throwIfAborted();
    const { token } = this.client.credential(await this.token());
    const headers = { Accept: 'application/json' };
    if (body !== undefined) headers['Content-Type'] = type;
    if (key) headers['Idempotency-Key'] = key;
    if (token) headers.Authorization = `Bearer ${token}`;
    let res;
    try {
      res = await this.fetch.call(globalThis, this.url(path), { method, headers, body, signal });
    } catch (err) {
      signal?.throwIfAborted();
      throw new RequestError(0, {}, err);
    }
    if (res.ok && read === 'blob') {
      try { return await res.blob(); } catch (err) { throw new RequestError(0, {}, err); }
    }
    let data = {};
    try { data = JSON.parse(await res.text() || '{}'); } catch { /* not ours: the status says enough */ }
    if (!res.ok) throw new RequestError(res.status, data);
    return data;
  }

  /**
   * Stores a file (a Blob or File, bytes, or a text) in a session and resolves with what
   * send names: {hash, name, type, size}. One that a lost connection breaks off is made
   * again; the same bytes are one file.
   */
  upload(session, file, { name = file.name ?? '', type = file.type || 'text/plain', signal } = {}) {
    const path = `/api/sessions/${encodeURIComponent(session)}/blobs?${new URLSearchParams(name ? { name } : {})}`;
    const size = typeof file === 'string' ? new TextEncoder().encode(file).length : file.size ?? file.byteLength;
    return within(signal, async () => {
      for (let attempt = 0; ; attempt++) {
        const most = (await this.ready({ signal })).limits?.attachment_bytes;
        if (most && size > most) throw new RequestError(413, { code: 'too_large', detail: `The file is longer than the ${most} bytes that the server takes.` });
        try {
          return await this.exchange('POST', path, file, { type, signal });
        } catch (err) {
          const passes = err.problem?.retryable ?? [0, 502, 503, 504].includes(err.status);
          if (!(err instanceof RequestError) || !passes) throw err;
          await this.pause(err.problem.retry_after_ms || backoff(attempt, this.random));
        }
      }
    });
  }

  /** The bytes of a file, as a Blob; session: look there only. */
  blob(hash, { session = '' } = {}) { return this.request('GET', this.blobPath(hash, session), undefined, { read: 'blob' }); }

  blobPath(hash, session) { return `/api/blobs/${encodeURIComponent(hash)}${session ? `?${new URLSearchParams({ session })}` : ''}`; }

  /** Where a browser that is signed in by itself finds it: <img src>. */
  blobURL(hash, { session = '' } = {}) { return this.url(this.blobPath(hash, session)); }

  /** A page of one's sessions, those with the newest activity first: {items, next_cursor}. */
  list({ limit = 50, cursor = '' } = {}) { return this.request('GET', `/api/sessions?${new URLSearchParams({ limit, cursor })}`); }

  /** Sessions whose titles, or messages, have these words. */
  search(q, { where = 'titles', limit = 50, cursor = '' } = {}) {
    return this.request('GET', `/api/sessions?${new URLSearchParams({ q, in: where, limit, cursor })}`);
  }
}

/** A session that is followed. Events are read with events(), or heard with on(). */
export class Session {
  constructor(parley, id, { since, log = '', tail } = {}) {
    this.parley = parley;
    this.id = id;
    this.listeners = new Map();
    this.readers = new Set();
    this.drafts = new Map();   // draft -> {text, length in code points, task}
    this.cursor = { since: since || 0, log };
    this.state = null;         // the open tasks, questions and calls when it was followed
    this.error = null;         // why it is not followed any more
    parley.client.follow(id, tail === undefined ? { whole: true, last: since || 0, log } : { tail });
  }

  /**
   * Calls f with what happens: `event` (durable), `ephemeral` (all others),
   * `draft` {draft, text, task}, `draft_end` {draft}, `reset` {reason}: what was
   * seen belongs to another log, it begins anew; `synced`, `ended`.
   */
  on(kind, f) { return listen(this.listeners, kind, f); }

  emit(kind, value) { this.parley.deliver(() => call(this.listeners, kind, value)); }

  followed({ data, resumed, reason }) {
    const anew = !resumed && reason;
    this.parley.deliver(() => {
      this.state = data.state;
      this.cursor = { since: resumed ? this.cursor.since : 0, log: data.log };
      for (const draft of [...this.drafts.keys()]) this.dropDraft(draft); // draft_state says what is open
      if (anew) call(this.listeners, 'reset', { reason });
      call(this.listeners, 'followed', data);
    });
  }

  frame(f) {
    this.parley.deliver(() => {
      if (typeof f.seq === 'number') {
        this.cursor = { since: f.seq, log: this.cursor.log };
        if (f.data?.draft) this.dropDraft(f.data.draft);
        call(this.listeners, 'event', f);
        for (const r of this.readers) r.push(f);
        return;
      }
      switch (f.type) {
        case 'delta': this.draft(f, append(this.drafts.get(f.data.draft), f.data)); break;
        case 'draft_state': this.draft(f, append(undefined, { at: 0, text: f.data.text })); break;
        case 'draft_dropped': this.dropDraft(f.data.draft); break;
        case 'synced': call(this.listeners, 'synced', f.data); break;
        case 'gone': this.ended(Object.assign(new Error(`The session is gone: ${f.data.reason}.`), { code: 'gone' })); break;
        default:
      }
      call(this.listeners, 'ephemeral', f);
    });
  }

  draft(f, next) {
    if (!next) return; // behind what is here: a draft_state follows
    this.drafts.set(f.data.draft, { ...next, task: f.task });
    call(this.listeners, 'draft', { draft: f.data.draft, text: next.text, task: f.task });
  }

  dropDraft(draft) {
    if (this.drafts.delete(draft)) call(this.listeners, 'draft_end', { draft });
  }

  ended(error) {
    if (this.error) return;
    this.error = error;
    this.parley.sessions.delete(this.id);
    for (const r of this.readers) r.end(error.code === 'closed' ? null : error);
    this.parley.deliver(() => call(this.listeners, 'ended', error));
  }

  /** Is not followed any more; readers end. */
  close() {
    this.parley.client.unfollow(this.id);
    this.ended(Object.assign(new Error('The session was closed here.'), { code: 'closed' }));
  }

  /** The durable events from now on, each once and in order: for await (const event of session.events()). */
  events() {
    const waiting = []; const asked = [];
    let over = !!this.error; let why = null;
    const reader = {
      push: (f) => { if (asked.length) asked.shift().resolve({ value: f, done: false }); else waiting.push(f); },
      end: (err) => { over = true; why = err; this.readers.delete(reader); for (const a of asked.splice(0)) if (err) a.reject(err); else a.resolve({ value: undefined, done: true }); },
    };
    if (!over) this.readers.add(reader);
    return {
      next: () => {
        if (waiting.length) return Promise.resolve({ value: waiting.shift(), done: false });
        if (over && why) return Promise.reject(why);
        if (over) return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve, reject) => { asked.push({ resolve, reject }); });
      },
      return: () => { reader.end(null); return Promise.resolve({ value: undefined, done: true }); },
      [Symbol.asyncIterator]() { return this; },
    };
  }

  /** Says something; resolves with {message, seq, disposition, task?} when the server has it on its disk. */
  send(text, { id = newID(), ...data } = {}) { return this.parley.post('send', this.id, { client_msg_id: id, text, ...data }); }

  /** Answers a question: with a text, or an approval with true, false or {approve, args}. */
  answer(question, text, { id = newID() } = {}) {
    const said = typeof text === 'boolean' ? { approve: text } : text;
    return this.parley.post('answer', this.id, { client_msg_id: id, question, text: typeof said === 'string' ? said : JSON.stringify(said) });
  }

  /** Says something and waits for what becomes of it: {how, text, parts, receipt}. A signal ends the wait, not what was said. */
  async ask(text, { signal, ...options } = {}) {
    const events = this.events();
    try {
      return await within(signal, async () => {
        const receipt = await this.send(text, options);
        const said = new Map(); // a part that becomes the last one comes again
        for await (const { type, data } of events) {
          if ((type === 'partial_response' || type === 'response') && data.in_reply_to === receipt.message) said.set(data.message, data.text);
          if (type === 'message_resolved' && data.message === receipt.message) {
            const parts = [...said.values()];
            return { how: data.how, text: parts.join('\n\n'), parts, receipt };
          }
        }
        throw this.error;
      });
    } finally { events.return(); }
  }

  /** Stores a file here, for send(text, { attachments: [it] }); see Parley.upload. */
  upload(file, options) { return this.parley.upload(this.id, file, options); }

  /** The bytes of a file of this session, as a Blob. */
  blob(hash) { return this.parley.blob(hash, { session: this.id }); }

  edit(message, text) { return this.parley.command('edit', this.id, { message, text }); }
  withdraw(message) { return this.parley.command('withdraw', this.id, { message }); }
  move(message, before) { return this.parley.command('move', this.id, before ? { message, before } : { message }); }
  policy(changes) { return this.parley.command('policy', this.id, changes); }
  clear() { return this.parley.command('clear', this.id); }

  /** Ends a task; without one whatever runs, and then it is asked once: another task could run by then. */
  cancel(data = {}) { return data.task ? this.parley.command('cancel', this.id, data) : this.parley.once('cancel', this.id, data); }

  seen(seq = this.cursor.since) { this.parley.client.tell('seen', this.id, { seq }); }
  typing(on) { this.parley.client.tell('typing', this.id, { on }); }
}

/** A draft with a delta: `at` counts code points, a string of JavaScript counts UTF-16. */
function append(draft = { text: '', length: 0 }, { at, text }) {
  if (at > draft.length) return null;
  const before = at === draft.length ? draft.text : [...draft.text].slice(0, at).join('');
  return { text: before + text, length: at + [...text].length };
}

function listen(listeners, kind, f) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(f);
  return () => listeners.get(kind).delete(f);
}

function call(listeners, kind, value) {
  for (const f of [...(listeners.get(kind) || [])]) attempt(f, value);
}

// What f throws is told as if nobody had called it: its mistake must not keep from others what is theirs.
function attempt(f, value) {
  try { f(value); } catch (err) { queueMicrotask(() => { throw err; }); }
}
