// The conversation on the screen: where its rows stand, what is scrolled to, what waits.

import { clock, h, reconcile } from './dom.js';
import { fold, partRow, questionRow, userRow } from './rows.js';
import { openDrafts, visibleRows, waitingMessages, working } from './store.js';
import { waitingItem } from './tray.js';

const SPOKEN = new Set(['user', 'part', 'question']); // what counts as new
const NEAR = 60; // px from the end that still count as being there

/**
 * Conversation draws one view into its parts of the page. actions: retry(row),
 * discard(row), answer(question, text), keepText(text), toInput(), edit,
 * withdraw, move, dropWaiting, loadOlder() -> Promise of whether it worked, show(key), readonly(),
 * showCall(call), openSession(id), example(text), atEnd(bool).
 */
export class Conversation {
  constructor(parts, actions) {
    Object.assign(this, parts);
    this.actions = actions;
    this.rows = new Map();      // key -> {el, item}
    this.keys = [];             // of the elements of the log, in their order
    this.arriving = new Set();
    this.waitingCache = new Map();
    this.stick = true;
    this.unread = 0;
    this.scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    // Late growth (fonts, unfolding, the keyboard of a phone) must not lose the end.
    this.observer = new ResizeObserver(() => {
      [this.inner, this.outer] = [this.scroller.scrollHeight, this.scroller.clientHeight];
      if (this.stick) this.toEnd();
    });
    this.observer.observe(this.scroller);
    this.observer.observe(this.scroller.firstElementChild);
    this.jump.addEventListener('click', () => { this.stick = true; this.toEnd(); this.scrolled(); });
  }

  /** Forgets the elements of another conversation. */
  reset() {
    for (const e of [this.log, this.activity, this.tray]) e.replaceChildren();
    for (const cache of [this.rows, this.waitingCache]) cache.clear();
    this.keys = [];
    this.view = null;
    this.lastLines = null;
    this.stick = true;
    this.unread = 0;
    this.failed = false;
    this.indicatorText = undefined;
    this.working.hidden = true;
  }

  update(view) {
    const opening = this.rows.size === 0;
    const place = this.stick ? null : this.place();
    const drafts = openDrafts(view);
    const { added, finished } = this.streams(view, drafts) ? this.write(drafts) : this.draw(view, drafts, opening);
    this.view = view;
    this.showActivity(view);
    this.showWaiting(view);
    this.showWorking(view);
    this.showTyping(view);
    this.older.hidden = view.first <= 1 || !view.synced || view.order.length === 0;
    if (this.stick) this.toEnd();
    else {
      this.restore(place);
      this.unread += added.filter((r) => !r.mine && SPOKEN.has(r.type)).length;
    }
    this.speak(finished);
    this.showJump();
    this.fill();
  }

  // Nothing has changed but what drafts say: the rows need not be looked at, however many.
  streams(view, drafts) {
    const was = this.view;
    return !!was && was.session === view.session && was.rows === view.rows && was.order === view.order && was.pending === view.pending && drafts.length === this.writing
      && drafts.every((d) => this.rows.has(d.key));
  }

  write(drafts) {
    for (const d of drafts) {
      const entry = this.rows.get(d.key);
      if (entry.item === d) continue;
      entry.el.patch(d);
      entry.item = d;
    }
    return { added: [], finished: [] };
  }

  draw(view, drafts, opening) {
    const rows = visibleRows(view);
    const all = [...rows, ...drafts];
    const added = opening ? [] : this.added(rows);
    this.arriving = new Set(opening ? [] : [...added, ...all.slice(rows.length)].map((r) => r.key));
    const finished = this.finish(added);
    reconcile(this.log, all, this.rows, (r) => r.key, (r) => this.build(r), (el, r, old) => el.patch?.(r, old));
    this.keys = all.map((r) => r.key);
    this.writing = drafts.length;
    return { added, finished };
  }

  build(row) {
    const el = this.element(row);
    if (this.arriving.has(row.key)) el.classList.add('arrives');
    return el;
  }

  element(row) {
    switch (row.type) {
      case 'user': return userRow(row, this.actions);
      case 'part': case 'draft': return partRow(row, this.actions);
      case 'question': return questionRow(row, this.actions);
      case 'activity': return h('div', { class: 'row activity-row' }, fold(row.lines, this.actions));
      default: return h('div', { class: 'row note', 'data-tone': row.tone }, h('span', {}, row.text));
    }
  }

  // What came at the end since the last time: not what came above, because somebody
  // scrolled up.
  added(rows) {
    const out = [];
    for (let i = rows.length - 1; i >= 0; i--) {
      if (!this.rows.has(rows[i].key)) out.push(rows[i]);
      else if (!rows[i].pending) break;
    }
    return out.reverse();
  }

  // A part takes over the element in which its draft was written.
  finish(added) {
    return added.filter((row) => {
      const draft = row.draft && this.rows.get(`d:${row.draft}`);
      if (!draft) return false;
      this.rows.delete(`d:${row.draft}`);
      this.rows.set(row.key, draft);
      return true;
    });
  }

  // The log says what is added to it. An answer that has grown in its place was not
  // added, so it is said here, and does not stay to be read twice.
  speak(finished) {
    if (!finished.length) return;
    this.spoken.textContent = finished.map((r) => r.text).join('\n\n');
    clearTimeout(this.silence);
    this.silence = setTimeout(() => { this.spoken.textContent = ''; }, 1000);
  }

  // Where the reader is: the first rows on the screen, and how high they stand. Some
  // of them may go; the first that is still there counts.
  place() {
    const top = this.scroller.getBoundingClientRect().top;
    const list = this.log.children;
    let [from, to] = [0, list.length];
    while (from < to) { // the first one that ends below the upper edge
      const mid = (from + to) >> 1;
      if (list[mid].getBoundingClientRect().bottom > top) to = mid; else from = mid + 1;
    }
    const out = [];
    for (let i = from; i < Math.min(list.length, from + 12); i++) out.push({ el: list[i], key: this.keys[i], y: list[i].getBoundingClientRect().top });
    return out;
  }

  restore(place) {
    for (const { el, key, y } of place) {
      const now = el.parentNode === this.log ? el : this.rows.get(key)?.el;
      if (!now) continue;
      const by = now.getBoundingClientRect().top - y;
      if (by) this.scroller.scrollTop += by;
      return;
    }
  }

  showActivity(view) {
    if (this.lastLines === view.lines || (this.lastLines?.length === view.lines.length && view.lines.every((l, i) => l === this.lastLines[i]))) return;
    this.lastLines = view.lines;
    if (!view.lines.length) { this.activity.replaceChildren(); return; }
    const opened = this.activity.querySelector('details')?.open ?? true;
    const details = fold(view.lines, this.actions);
    details.open = opened;
    this.activity.replaceChildren(details);
  }

  showWaiting(view) {
    const waiting = waitingMessages(view);
    const readonly = view.session.includes('/') || view.closed;
    this.tray.hidden = waiting.length === 0;
    if (!waiting.length && this.tray.contains(document.activeElement)) this.actions.toInput();
    if (!waiting.length) { this.tray.replaceChildren(); this.waitingCache.clear(); this.trayList = null; return; }
    if (!this.trayList) {
      this.trayTitle = h('span', { class: 'tray-title' });
      this.trayList = h('ol', { class: 'tray-list' });
      const drop = readonly ? null : h('button', { type: 'button', class: 'link-button', onclick: () => this.actions.dropWaiting() }, 'Stop and drop all');
      this.tray.replaceChildren(h('div', { class: 'tray-head' }, this.trayTitle, drop), this.trayList);
    }
    this.trayTitle.textContent = waiting.length === 1 ? '1 message is waiting to be read' : `${waiting.length} messages are waiting to be read`;
    const items = waiting.map((m, i) => ({ ...m, above: i > 0 ? waiting[i - 1].message : '', sig: `${i}|${i > 0 ? waiting[i - 1].message : ''}|${m.text}` }));
    // Equal entries keep their element, so an edit in progress is not lost.
    const stable = items.map((m) => { const old = this.waitingCache.get(m.message)?.item; return old && old.sig === m.sig ? old : m; });
    const at = this.trayFocus();
    reconcile(this.trayList, stable, this.waitingCache, (m) => m.message, (m) => waitingItem(m, this.actions, readonly), (el) => el.editing === true);
    if (at) this.focusTray(at);
  }

  // Entries that move are built anew; whoever works by keyboard stays on the
  // same button of the same message, or on the next message when it is gone.
  trayFocus() {
    const button = document.activeElement;
    const items = [...this.trayList.children];
    const i = items.findIndex((li) => li.contains(button));
    if (i < 0 || items[i].editing) return null;
    return { button, li: items[i], message: items[i].dataset.message, label: button.getAttribute('aria-label'), i };
  }

  focusTray({ button, li, message, label, i }) {
    if (button.isConnected && this.trayList.contains(li)) return;
    const items = [...this.trayList.children];
    const to = items.find((x) => x.dataset.message === message) || items[Math.min(i, items.length - 1)];
    const buttons = [...to.querySelectorAll('button:not(:disabled)')];
    (buttons.find((b) => b.getAttribute('aria-label') === label) || buttons[0])?.focus();
  }

  showWorking(view) {
    const w = working(view);
    const show = w && w.state !== 'awaiting' ? w : null;
    this.working.hidden = !show;
    this.working.dataset.state = show ? show.state : '';
    const text = !show ? '' : show.sign ? `${show.text}, last sign ${clock(show.sign)}` : show.text;
    if (text !== this.indicatorText) { this.workingText.textContent = text; this.indicatorText = text; }
  }

  showTyping(view) {
    const who = [...view.typing.keys()];
    this.typing.hidden = who.length === 0;
    this.typing.textContent = who.length === 0 ? '' : who.length === 1 ? `${who[0]} is typing…` : `${who.length} people are typing…`;
  }

  // The page of a conversation without rows is read from its top.
  toEnd() { this.scroller.scrollTop = this.keys.length ? this.scroller.scrollHeight : 0; }

  scrolled() {
    const s = this.scroller;
    // The browser scrolls, too, when a size changes; nobody left the end by that.
    if (s.scrollHeight !== this.inner || s.clientHeight !== this.outer) return;
    const end = s.scrollHeight - s.scrollTop - s.clientHeight < NEAR;
    if (end !== this.stick) { this.stick = end; this.actions.atEnd(end); }
    if (end) this.unread = 0;
    this.showJump();
    this.wantOlder();
  }

  // Near the top, or in a window that does not fill the screen, older rows are
  // wanted, and again after those that came.
  wantOlder() {
    const s = this.scroller;
    if (this.older.hidden || this.loading) return;
    if (s.scrollTop < Math.max(200, 2 * s.clientHeight)) this.loadOlder();
  }

  // Without a gesture only once after a failure, so that a server that is away is not asked on and on.
  fill() { if (!this.failed) this.wantOlder(); }

  async loadOlder() {
    this.loading = true;
    this.older.classList.add('busy');
    try { this.failed = !(await this.actions.loadOlder()); } finally { this.loading = false; this.older.classList.remove('busy'); }
    this.fill();
  }

  showJump() {
    this.jump.hidden = this.stick;
    this.jumpText.textContent = this.unread ? `${this.unread} new` : 'Latest';
  }

  show(key) {
    const el = this.rows.get(key)?.el;
    if (!el) return;
    el.scrollIntoView({ block: 'center', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
    el.classList.remove('flash');
    void el.offsetWidth; // starts the animation anew
    el.classList.add('flash');
  }
}
