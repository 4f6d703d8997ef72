// The WebSocket side: one connection, commands with answers, sessions that are
// followed across reconnects without a gap and without doubles.
//
// Everything that it needs from outside (WebSocket, timers, randomness) is given
// to it, so that tests can drive it.

/** A command that was refused, or that could not be asked. */
export class CommandError extends Error {
  constructor(error, where = '') {
    super(error.message || error.code);
    this.name = 'CommandError';
    this.code = error.code;
    this.retryable = !!error.retryable;
    this.retryAfter = error.retry_after_ms || 0;
    this.where = where; // names the request, for people who look it up in a log
  }
}

const DISCONNECTED = { code: 'disconnected', message: 'The connection was lost before the server answered.', retryable: true };

// Close codes after which another attempt would end the same way.
const FINAL = {
  1002: 'a frame broke the rules of WebSockets', 1003: 'the server did not understand a frame', 1007: 'a frame was not valid UTF-8', 1009: 'a frame was too big',
  4500: 'protocol error', 4501: 'not signed in', 4502: 'not allowed', 4503: 'this page is of another version than the server', 4504: 'too many connections',
};

/** How long to wait before the next attempt: doubled each time, half of it random. */
export function backoff(attempt, random = Math.random, { min = 500, max = 20000 } = {}) {
  const full = Math.min(max, min * 2 ** Math.min(attempt, 30));
  return Math.round(full / 2 + (full / 2) * random());
}

/**
 * Client keeps a connection alive. `on(kind, payload)` is told:
 *   status    {state, retryAt?, code?, reason?}  connecting | open | waiting | stopped
 *   hello     the answer to hello
 *   followed  {session, data, resumed}           answer to follow; resumed = the view goes on
 *   unfollowed {session, error}                  follow was refused
 *   frame     an event of a followed session, in order, never twice
 */
export class Client {
  constructor({ url, on, token = () => '', WebSocket = globalThis.WebSocket, random = Math.random, now = Date.now,
    setTimeout = (f, ms) => globalThis.setTimeout(f, ms), clearTimeout = (t) => globalThis.clearTimeout(t) }) {
    Object.assign(this, { url, on, token, WebSocket, random, now, setTimeout, clearTimeout });
    this.socket = null;
    this.open = false;       // hello was answered
    this.attempt = 0;
    this.nextID = 0;
    this.waiting = new Map(); // id -> {resolve, reject, type}
    this.follows = new Map(); // session -> {last, log, tail, asked}
    this.hint = 0;            // how long the server asked to wait
    this.conn = '';
  }

  start() {
    this.stopped = false;
    this.connect();
  }

  stop() {
    this.stopped = true;
    this.drop();
    this.on('status', { state: 'stopped', code: 1000, reason: '' });
  }

  /** Tries at once instead of waiting for the countdown. */
  retryNow() {
    this.clearTimeout(this.timer);
    if (!this.socket) this.connect();
  }

  /** Asks whether the connection is alive; a silent one is replaced. */
  probe(ms = 5000) {
    if (!this.open) { if (!this.stopped) this.retryNow(); return; }
    this.clearTimeout(this.probing);
    const socket = this.socket;
    this.probing = this.setTimeout(() => { if (this.socket === socket) this.lost(4003, 'no answer'); }, ms);
    const t = this.now();
    this.command('ping', '', { t }).then(() => {
      this.clearTimeout(this.probing);
      this.on('latency', this.now() - t);
    }, () => {});
  }

  connect() {
    this.drop();
    this.on('status', { state: 'connecting' });
    let socket;
    try {
      socket = new this.WebSocket(this.url, 'parley.v1');
    } catch (err) {
      this.lost(1006, String(err.message || err));
      return;
    }
    this.socket = socket;
    socket.onopen = () => { if (this.socket === socket) this.hello(); };
    socket.onmessage = (m) => { if (this.socket === socket) this.receive(m.data); };
    socket.onclose = (c) => { if (this.socket === socket) this.lost(c.code, c.reason); };
    socket.onerror = () => {}; // onclose follows
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.open = false;
    this.clearTimeout(this.timer);
    this.clearTimeout(this.watchdog);
    this.clearTimeout(this.probing);
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
      try { socket.close(1000); } catch { /* it never opened */ }
    }
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const w of waiting) w.reject(new CommandError(DISCONNECTED, this.conn));
    for (const f of this.follows.values()) f.asked = false;
  }

  lost(code, reason) {
    this.drop();
    if (this.stopped) return;
    if (FINAL[code]) {
      this.stopped = true;
      this.on('status', { state: 'stopped', code, reason: this.refused?.message || reason || FINAL[code] });
      return;
    }
    const wait = this.hint || backoff(this.attempt, this.random);
    this.hint = 0;
    this.attempt++;
    this.on('status', { state: 'waiting', retryAt: this.now() + wait, code, reason, attempt: this.attempt });
    this.timer = this.setTimeout(() => this.connect(), wait);
  }

  async hello() {
    const token = this.token();
    const data = { proto: 1, client: { name: 'parley-page', version: '1' }, caps: ['deltas'] };
    if (token) data.token = token;
    const socket = this.socket;
    this.refused = null;
    let hello;
    try {
      hello = await this.command('hello', '', data);
    } catch (err) {
      if (err.code !== 'disconnected') this.refused = err; // the server closes with the code that fits
      return;
    }
    if (this.socket !== socket) return;
    this.open = true;
    this.attempt = 0;
    this.conn = hello.conn || '';
    this.heartbeat = hello.heartbeat_ms || 25000;
    this.watch();
    this.on('hello', hello);
    this.on('status', { state: 'open' });
    for (const session of this.follows.keys()) this.ask(session);
  }

  // The server says something every heartbeat; after two of them in silence the
  // connection is dead, whatever the browser believes.
  watch() {
    this.clearTimeout(this.watchdog);
    this.watchdog = this.setTimeout(() => this.lost(4003, 'the server went silent'), 2 * this.heartbeat + 5000);
  }

  receive(text) {
    let f;
    try { f = JSON.parse(text); } catch { return; }
    if (this.open) this.watch();
    switch (f.type) {
      case 'ok': case 'error': {
        const w = this.waiting.get(f.re);
        if (!w) return;
        this.waiting.delete(f.re);
        if (f.type === 'ok') {
          w.sync?.(f.data || {}); // before the events that follow this frame
          w.resolve(f.data || {});
        } else {
          w.reject(new CommandError(f.error || { code: 'internal' }, [this.conn, f.re].filter(Boolean).join(' · ')));
        }
        return;
      }
      case 'hb': return;
      case 'goaway':
        this.hint = f.data?.retry_in_ms ?? f.retry_in_ms ?? 0;
        return;
      default:
        if (f.session) this.event(f);
    }
  }

  event(f) {
    const follow = this.follows.get(f.session);
    if (!follow) return;
    if (typeof f.seq === 'number') {
      if (follow.last && f.seq <= follow.last) return;
      if (follow.last && f.seq > follow.last + 1) { this.ask(f.session); return; } // a hole: ask again from before it
      follow.last = f.seq;
    }
    if (f.type === 'gone') this.follows.delete(f.session);
    this.on('frame', f);
  }

  /** Follows a session until unfollow, across reconnects. */
  follow(session, { tail = 200, last = 0, log = '' } = {}) {
    if (this.follows.has(session)) return;
    this.follows.set(session, { last, log, tail, asked: false });
    if (this.open) this.ask(session);
  }

  unfollow(session) {
    if (!this.follows.delete(session)) return;
    if (this.open) this.command('unfollow', session, {}).catch(() => {});
  }

  ask(session) {
    const follow = this.follows.get(session);
    if (!follow || follow.asked) return;
    follow.asked = true;
    const data = follow.last ? { since: follow.last, log: follow.log } : { tail: follow.tail };
    this.command('follow', session, data, (ok) => {
      follow.asked = false;
      if (this.follows.get(session) !== follow) return;
      const resumed = !!data.since && ok.resumed !== false;
      if (!resumed) follow.last = 0;
      follow.log = ok.log || '';
      this.on('followed', { session, data: ok, resumed });
    }).catch((error) => {
      follow.asked = false;
      if (error.code === 'disconnected') return;
      if (this.follows.get(session) !== follow) return;
      this.follows.delete(session);
      this.on('unfollowed', { session, error });
    });
  }

  /** Sends a command; sync, if given, sees a positive answer before any later frame is handled. */
  command(type, session, data, sync) {
    return new Promise((resolve, reject) => {
      if (!this.socket || (type !== 'hello' && !this.open)) { reject(new CommandError(DISCONNECTED)); return; }
      const id = String(++this.nextID);
      this.waiting.set(id, { resolve, reject, sync });
      this.write({ type, id, ...(session ? { session } : {}), data });
    });
  }

  /** Sends a command that has no answer; without a connection it is forgotten. */
  tell(type, session, data) {
    if (this.open) this.write({ type, session, data });
  }

  write(frame) {
    try { this.socket.send(JSON.stringify(frame)); } catch { /* closing: onclose tells */ }
  }
}
