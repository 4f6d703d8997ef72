// What was sent and the server does not have yet: of each conversation its messages in
// the order in which they were sent, whichever one is open. One goes after the other, so
// that none overtakes another one that has a file on its way, or whose conversation is
// yet to be created. All of it outlives a reload.

const fieldsOf = ({ client_msg_id, text, mode, in_reply_to, ts, error }) => ({ client_msg_id, text, mode, in_reply_to, ts, ...(error ? { error } : {}) });
const fileOf = ({ hash, name, type, size }) => ({ hash, name, type, size });

/**
 * create(box) gives the session of a conversation that is yet to be created; send(box,
 * message) sends one. keep(key, text) stores a text under a key, '' removes it; kept are
 * [[key, text]] of what was stored. on is told created(box), sent(box, message, answer) and
 * failed(box, message, error), error being what create or send threw.
 *
 * A box is {session, create, fields, list}: create names the conversation until it has a
 * session. A message with an error waits for a person, and holds up nobody.
 */
export class Outbox {
  constructor({ create, send, keep, kept = [], on }) {
    Object.assign(this, { create, send, keep, on });
    this.boxes = kept.map(([key, text]) => read(key, text)).filter(Boolean);
  }

  /** The box of a session, or of the conversation that create names; undefined = nothing is on its way. */
  of(session, create = '') {
    return this.boxes.find((b) => (session ? b.session === session : !b.session && b.create === create));
  }

  /** Those of conversations that have no session yet, the newest last. */
  get begun() { return this.boxes.filter((b) => !b.session); }

  /** Takes a message, for the first time or once more. */
  post({ session = '', create = '', fields = {} }, message) {
    let box = this.of(session, create);
    if (!box) this.boxes.push(box = { session, create, fields, list: [], busy: false });
    box.list = [...box.list.filter((m) => m.client_msg_id !== message.client_msg_id), { ...message, error: '' }];
    this.store(box);
    return this.work(box);
  }

  /** A message that failed is given up. */
  discard(box, id) {
    if (!box) return;
    box.list = box.list.filter((m) => m.client_msg_id !== id);
    this.store(box);
  }

  /** A conversation is gone; gives what was on its way there. */
  forget(session) {
    const box = this.of(session);
    if (!box) return [];
    const list = box.list.splice(0);
    this.store(box);
    return list;
  }

  /** A file of a message has its hash. */
  uploaded(box, id, local, hash) {
    const m = box.list.find((x) => x.client_msg_id === id);
    if (!m) return;
    m.attachments = m.attachments.map((a) => (a.local === local ? { ...a, hash } : a));
    this.store(box);
  }

  /** There is a connection: everything goes on. */
  workAll() { for (const box of [...this.boxes]) this.work(box); }

  /** There will be no connection: everything waits for a person. */
  failAll(error) {
    for (const box of [...this.boxes]) for (const m of box.list.filter((x) => !x.error)) this.fail(box, m, error);
  }

  async work(box) {
    if (box.busy) return;
    box.busy = true;
    try {
      for (let m; (m = box.list.find((x) => !x.error));) {
        if (!box.session) await this.begin(box);
        else await this.deliver(box, m);
      }
    } catch (err) {
      if (err.code !== 'disconnected') throw err;
    } finally { box.busy = false; }
  }

  async begin(box) {
    let session;
    try { session = await this.create(box); } catch (err) {
      if (err.code === 'disconnected') throw err;
      for (const m of box.list.filter((x) => !x.error)) this.fail(box, m, err);
      return;
    }
    this.keep(box.create, '');
    box.session = session;
    this.store(box);
    this.on.created(box);
  }

  async deliver(box, m) {
    let answer;
    try { answer = await this.send(box, m); } catch (err) {
      if (err.code === 'disconnected') throw err;
      if (box.list.includes(m)) this.fail(box, m, err);
      return;
    }
    box.list = box.list.filter((x) => x !== m);
    this.store(box);
    this.on.sent(box, m, answer);
  }

  fail(box, m, err) {
    m.error = err.message || String(err);
    this.store(box);
    this.on.failed(box, m, err);
  }

  store(box) {
    const list = box.list.map((m) => ({ ...fieldsOf(m), attachments: m.attachments.map(fileOf) }));
    const whole = box.session ? { list } : { create: box.create, fields: box.fields, list };
    this.keep(box.session || box.create, list.length ? JSON.stringify(whole) : '');
    if (!box.list.length) this.boxes = this.boxes.filter((b) => b !== box);
    else if (!this.boxes.includes(box)) this.boxes.push(box);
  }
}

// A file that was not uploaded is not here any more: its message waits for a person.
function read(key, text) {
  try {
    const { create = '', fields = {}, list } = JSON.parse(text);
    if (!Array.isArray(list) || !list.length) return null;
    return {
      session: create ? '' : key, create, fields, busy: false,
      list: list.map((m) => {
        const attachments = (m.attachments || []).map((a) => (a.hash ? a : { ...a, lost: true }));
        const lost = attachments.filter((a) => a.lost).map((a) => a.name).join(', ');
        return { ...m, attachments, error: m.error || (lost ? `${lost}: not uploaded before the page was loaded again. Retry sends the message without it.` : '') };
      }),
    };
  } catch { return null; /* not ours */ }
}
