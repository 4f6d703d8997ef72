// The WebSocket side: one connection, commands with answers, sessions that are
// followed across reconnects without a gap and without doubles. index.js builds
// on it what most programs want; the page uses it as it stands.
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

/**
 * How long to wait before the next attempt: any time up to a bound that doubles,
 * so that clients that were lost together do not come back together.
 */
export function backoff(attempt, random = Math.random, { least = 100, min = 500, max = 20000 } = {}) {
  const full = Math.min(max, min * 2 ** Math.min(attempt, 30));
  return Math.round(least + (full - least) * random());
}

/** Pace holds commands back so that the server need not refuse them as too many. */
class Pace {
  constructor(now) {
    this.now = now;
    this.set(0, 0);
  }

  set(rate, burst) {
    this.rate = rate * 0.95;      // the two clocks differ
    this.most = Math.max(1, burst - 2); // hello was one, and a ping is never held back
    this.left = this.most;
    this.at = this.now();
  }

  /** 0 = a command may go, and is counted; else how long to wait. */
  take() {
    if (!this.rate) return 0;
    const now = this.now();
    this.left = Math.min(this.most, this.left + ((now - this.at) / 1000) * this.rate);
    this.at = now;
    if (this.left >= 1) { this.left--; return 0; }
    return Math.ceil(((1 - this.left) / this.rate) * 1000);
  }
}

/** When a signed token (JWT) ends, in ms; 0 = it does not say. */
function expiry(token) {
  try {
    const claims = JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')));
    return claims.exp ? claims.exp * 1000 : 0;
  } catch { return 0; }
}

/**
 * Client keeps a connection alive. `on(kind, payload)` is told:
 *   status    {state, retryAt?, code?, reason?}  connecting | open | waiting | stopped
 *   hello     the answer to hello
 *   followed  {session, data, resumed, reason}   answer to follow; resumed = the view goes on;
 *                                                reason why not: other_log, ahead, '' = it begins
 *   unfollowed {session, error}                  follow was refused
 *   frame     an event of a followed session, in order, never twice
 *   notice    a frame that is of no session: listed, chat, …
 *   latency   how many ms a ping took
 *   refresh_failed  why a new token was refused; the connection goes on until the old one ends
 *
 * token() gives the token, or {token, expiresAt}, or a promise of either; it is
 * asked again before that time. quiet is how long the server may be silent before
 * it is asked for a sign of life, patience how long that may take, in ms. parse reads
 * frames; JSON.parse makes doubles of numbers, so one that keeps more may be given.
 */
export class Client {
  constructor({ url, on, token = () => '', WebSocket = globalThis.WebSocket, random = Math.random, now = Date.now,
    name = 'parley-page', version = '1', caps = ['deltas'], quiet = 0, patience = 0, opening = 15000, wait = {}, parse = JSON.parse,
    setTimeout = (f, ms) => globalThis.setTimeout(f, ms), clearTimeout = (t) => globalThis.clearTimeout(t) }) {
    Object.assign(this, { url, on, token, WebSocket, random, now, name, version, caps, quiet, patience, opening, wait, parse, setTimeout, clearTimeout });
    this.pace = new Pace(now);
    this.unsent = [];         // frames that the pace holds back
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
    if (!this.socket && !this.stopped) this.connect();
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
    // onclose follows, but not in Node 22 when nobody listens.
    socket.onerror = (e) => {
      this.clearTimeout(this.failing);
      this.failing = this.setTimeout(() => { if (this.socket === socket) this.lost(1006, String(e?.message || 'the connection failed')); }, 250);
    };
    this.watchdog = this.setTimeout(() => { if (this.socket === socket) this.lost(1006, 'no answer'); }, this.opening);
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.open = false;
    this.clearTimeout(this.timer);
    this.clearTimeout(this.watchdog);
    this.clearTimeout(this.probing);
    this.clearTimeout(this.pacing);
    this.clearTimeout(this.failing);
    this.clearTimeout(this.renewing);
    this.unsent = [];
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.onerror = () => {}; // ws tells that it was not open yet, and what nobody hears ends the process
      try { socket.close(1000); } catch { /* it never opened */ }
      if (socket.terminate) {    // of ws, which else waits half a minute for a server that is frozen
        const late = this.setTimeout(() => socket.terminate(), 1000);
        socket.onclose = () => this.clearTimeout(late);
      }
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
    const wait = this.hint || backoff(this.attempt, this.random, this.wait);
    this.hint = 0;
    this.attempt++;
    this.on('status', { state: 'waiting', retryAt: this.now() + wait, code, reason, attempt: this.attempt });
    this.timer = this.setTimeout(() => this.connect(), wait);
  }

  async hello() {
    const socket = this.socket;
    let given = this.token();
    if (typeof given?.then === 'function') {
      try { given = await given; } catch (err) { if (this.socket === socket) this.lost(1006, String(err?.message || err)); return; }
      if (this.socket !== socket) return;
    }
    const { token, expiresAt } = this.credential(given);
    const data = { proto: 1, client: { name: this.name, version: this.version }, caps: this.caps };
    if (token) data.token = token;
    this.refused = null;
    let hello;
    try {
      hello = await this.command('hello', '', data, (ok) => this.greeted(ok));
    } catch (err) {
      if (err.code !== 'disconnected') this.refused = err; // the server closes with the code that fits
      return;
    }
    if (this.socket !== socket) return;
    this.renew(expiresAt);
    this.on('hello', hello);
    this.on('status', { state: 'open' });
    for (const session of this.follows.keys()) this.ask(session);
  }

  greeted(hello) {
    this.open = true;
    this.attempt = 0;
    this.conn = hello.conn || '';
    this.heartbeat = hello.heartbeat_ms || 25000;
    this.most = hello.limits?.frame_bytes || 0;
    this.pace.set(hello.limits?.commands_per_second || 0, hello.limits?.commands_burst || 0);
    this.watch();
  }

  /** What token() gave, as {token, expiresAt in ms or 0}. */
  credential(given) {
    const { token = '', expiresAt = 0 } = typeof given === 'string' ? { token: given } : given || {};
    return { token, expiresAt: expiresAt ? new Date(expiresAt).getTime() : expiry(token) };
  }

  // A new token goes to the server when a tenth of the time is left, at most a minute.
  renew(expiresAt) {
    this.clearTimeout(this.renewing);
    if (!expiresAt) return;
    const left = expiresAt - this.now();
    this.renewing = this.setTimeout(async () => {
      const socket = this.socket;
      try {
        const next = this.credential(await this.token());
        if (this.socket !== socket || !next.token) return;
        const ok = await this.command('refresh', '', { token: next.token });
        if (this.socket === socket) this.renew(ok.expires_at ? Date.parse(ok.expires_at) : next.expiresAt);
      } catch (err) { if (this.socket === socket) this.on('refresh_failed', err); }
    }, Math.min(2 ** 31 - 1, Math.max(1000, left - Math.min(60000, left / 10))));
  }

  // The server says something every heartbeat. One that is silent for longer is
  // asked; when nothing comes then either, the connection is dead, whatever the
  // system believes.
  watch() {
    this.clearTimeout(this.watchdog);
    this.watchdog = this.setTimeout(() => {
      this.write({ type: 'ping', id: String(++this.nextID), data: {} });
      this.watchdog = this.setTimeout(() => this.lost(4003, 'the server went silent'), this.patience || this.heartbeat);
    }, this.quiet || this.heartbeat * 1.2);
  }

  receive(text) {
    let f;
    try { f = this.parse(text); } catch { return; }
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
        else this.on('notice', f);
    }
  }

  event(f) {
    const follow = this.follows.get(f.session);
    if (!follow) return;
    if (typeof f.seq === 'number') {
      if (follow.next && f.seq < follow.next) return;
      if (follow.next && f.seq > follow.next) { this.ask(f.session); return; } // a hole: ask again from before it
      follow.last = f.seq;
      follow.next = f.seq + 1;
    }
    if (f.type === 'synced' && follow.next && f.data?.head >= follow.next) { this.ask(f.session); return; } // the last ones are missing
    if (f.type === 'gone') this.follows.delete(f.session);
    this.on('frame', f);
  }

  /**
   * Follows a session until unfollow, across reconnects: from its last `tail`
   * events on, or behind the event `last` of the log `log`, or, with `whole`,
   * from the first event.
   */
  follow(session, { tail = 200, last = 0, log = '', whole = false } = {}) {
    if (this.follows.has(session)) return;
    this.follows.set(session, { last, log, tail, whole, next: 0, asked: false });
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
    const since = follow.last || follow.whole;
    const data = since ? { since: follow.last, ...(follow.log ? { log: follow.log } : {}) } : { tail: follow.tail };
    this.command('follow', session, data, (ok) => {
      follow.asked = false;
      if (this.follows.get(session) !== follow) return;
      const resumed = !!since && ok.resumed !== false;
      follow.log = ok.log || '';
      follow.next = resumed ? follow.last + 1 : 0;
      if (!resumed) follow.last = 0;
      if (!resumed && follow.whole && ok.first > 1) { // the tail of another log: its beginning first
        follow.next = 1;
        follow.why = ok.reason || 'other_log';
        this.ask(session);
        return;
      }
      const reason = ok.reason || follow.why || '';
      follow.why = '';
      this.on('followed', { session, data: ok, resumed: resumed && !reason, reason });
    }).catch((error) => {
      follow.asked = false;
      if (error.code === 'disconnected') return;
      if (this.follows.get(session) !== follow) return;
      if (error.retryable) { // too many at once, or its node is away for a moment
        this.setTimeout(() => { if (this.open && this.follows.get(session) === follow) this.ask(session); },
          error.retryAfter || backoff(follow.refused = (follow.refused || 0) + 1, this.random, this.wait));
        return;
      }
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
      const frame = { type, id, ...(session ? { session } : {}), data };
      if (type === 'hello') this.write(frame); else this.hand(frame);
    });
  }

  /** Sends a command that has no answer; without a connection it is forgotten. */
  tell(type, session, data) {
    if (this.open && !(type === 'typing' && this.unsent.length)) this.hand({ type, session, data });
  }

  /** Writes a frame as soon as the server's limit has room for it, after those before it. */
  hand(frame) {
    this.unsent.push(frame);
    if (this.unsent.length === 1) this.flush();
  }

  flush() {
    while (this.unsent.length) {
      const wait = this.pace.take();
      if (wait) { this.pacing = this.setTimeout(() => this.flush(), wait); return; }
      this.write(this.unsent.shift());
    }
  }

  write(frame) {
    const text = JSON.stringify(frame);
    // The server would end the connection, and would do so each time it is sent again.
    if (this.most && text.length * 3 > this.most && new TextEncoder().encode(text).length > this.most) {
      this.waiting.get(frame.id)?.reject(new CommandError({ code: 'too_large', message: `This is longer than the ${this.most} bytes that the server takes at once.` }));
      this.waiting.delete(frame.id);
      return;
    }
    try { this.socket.send(text); } catch { /* closing: onclose tells */ }
  }
}
