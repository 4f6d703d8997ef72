// Asks the server for what a person types: titles at once, messages behind them.
// A newer question cancels an older one; an answer to an older one is forgotten.

/**
 * Finder keeps {query, busy, titles, messages, next, error, why} in found and calls
 * show(found) when it changes. titles(q, signal) and messages(q, cursor, signal)
 * give pages {items, next_cursor}.
 */
export class Finder {
  constructor({ titles, messages, show, wait = 200, setTimeout = (f, ms) => globalThis.setTimeout(f, ms), clearTimeout = (t) => globalThis.clearTimeout(t) }) {
    Object.assign(this, { titles, messages, show, wait, setTimeout, clearTimeout });
    this.found = nothing('');
    this.erased = []; // since it was asked: an answer on its way may still have them
  }

  /** Asks for a query, once nothing was typed for a moment. */
  ask(query) {
    query = query.trim();
    if (query === this.found.query) return;
    this.clearTimeout(this.timer);
    this.asked?.abort();
    this.found = nothing(query);
    this.erased = [];
    if (query) this.found.why = cannot(query);
    if (query && !this.found.why) {
      this.found.busy = true;
      this.timer = this.setTimeout(() => this.go(), this.wait);
    }
    this.show(this.found);
  }

  /** Asks for messages that are older than those found. */
  more() { return this.load((signal) => this.page(signal)); }

  /** A conversation was erased: nothing of it is found any more. */
  forget(session) {
    this.erased.push(session);
    this.change({});
  }

  go() {
    return this.load(async (signal) => {
      const said = this.messages(this.found.query, '', signal);
      said.catch(() => {}); // looked at below
      const titles = await this.titles(this.found.query, signal);
      if (signal.aborted) return;
      this.change({ titles: titles.items || [] });
      this.took(await said, signal);
    });
  }

  async page(signal) { this.took(await this.messages(this.found.query, this.found.next, signal), signal); }

  took(page, signal) {
    if (!signal.aborted) this.change({ messages: [...this.found.messages, ...(page.items || []).filter((m) => m.message)], next: page.next_cursor || '' });
  }

  async load(work) {
    const { signal } = this.asked = new AbortController();
    this.change({ busy: true, error: '' });
    try {
      await work(signal);
      if (!signal.aborted) this.change({ busy: false });
    } catch (err) {
      if (!signal.aborted) this.change({ busy: false, error: err.message || 'The search did not work.' });
    }
  }

  change(what) {
    const there = (row) => !this.erased.some((id) => `${row.session}/`.startsWith(`${id}/`));
    this.found = { ...this.found, ...what };
    for (const list of ['titles', 'messages']) if (!this.found[list].every(there)) this.found[list] = this.found[list].filter(there);
    this.show(this.found);
  }
}

function nothing(query) { return { query, busy: false, titles: [], messages: [], next: '', error: '', why: '' }; }

const LONGEST = 200; // characters that the server takes

// Why the server need not be asked; '' = it is asked.
function cannot(query) {
  if (!/[\p{L}\p{N}]/u.test(query)) return 'Nothing to search for: a search needs a letter or a digit.';
  return [...query].length > LONGEST ? `Too long to search for: at most ${LONGEST} characters.` : '';
}

/** What a search has come to, in words. */
export function outcomeOf({ query, busy, titles, messages, next, error, why }) {
  if (!query) return '';
  if (why) return why;
  if (error) return `The search did not work: ${error}`;
  if (busy && !titles.length && !messages.length) return 'Searching…';
  const some = [];
  if (titles.length) some.push(titles.length === 1 ? '1 title' : `${titles.length} titles`);
  if (messages.length) some.push(messages.length === 1 ? '1 message' : `${messages.length} messages`);
  if (busy) return `${some.join(', ')}; searching on…`;
  if (next) return some.length ? `${some.join(', ')}; older messages were not searched yet` : 'Nothing yet; older messages were not searched';
  return some.length ? some.join(', ') : `Nothing has these words: no title, no message`;
}
