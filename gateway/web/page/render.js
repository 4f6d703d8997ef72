// The conversation on the screen: where its rows stand, what is scrolled to, what waits.

import { clock, h, reconcile } from './dom.js';
import { fold, partRow, questionRow, userRow } from './rows.js';
import { Shown, activity, emptyView, openDrafts, waitingMessages, working } from './store.js';
import { waitingItem } from './tray.js';
import { onUpward } from './upward.js';
import { Heights, around, keeping, step } from './window.js';

const SPOKEN = new Set(['user', 'part', 'question']); // what counts as new
const NEAR = 60; // px from the end: who comes so close to it goes on with it
const SCREEN = 12; // rows that a screen is thought to show before it was looked at
const NOTHING = new Shown(emptyView(''), []);
const KEPT = 600; // rows that left the log and are not made again when they come back
const SOON = 25; // ms until more rows are made ahead of the screen
const CLOSE = 80; // rows to go to smoothly; farther ones are jumped to

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
    this.rows = new Map();      // key -> {el, item}, of those that are elements of the log
    this.items = NOTHING;       // all rows in their order, then the drafts
    [this.from, this.to] = [0, 0]; // which of them are elements
    [this.above, this.below] = [0, 0]; // px for the others
    this.heights = new Heights();
    this.left = new Map();      // key -> {el, item, held?}, which left the log; held: somebody did something in them
    this.quiet = new Set();     // elements that came back: nobody has to hear them again
    this.arriving = new Set();
    this.waitingCache = new Map();
    this.places = new Map();    // conversation that was left while somebody had scrolled up -> {key, y} of the first row on the screen
    this.stick = true;
    this.top = 0;               // where the scroller was last, as far as the page has seen or made it
    this.unread = 0;
    this.scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    this.held = false;          // by a finger
    onUpward(this.scroller, () => { if (this.stick) this.stays(false); }, (on) => { this.held = on; this.follow(); });
    // Late growth (fonts, unfolding, the keyboard of a phone) must not lose the end.
    this.observer = new ResizeObserver(() => {
      [this.inner, this.outer] = [this.scroller.scrollHeight, this.scroller.clientHeight];
      this.follow();
    });
    this.observer.observe(this.scroller);
    this.observer.observe(this.scroller.firstElementChild);
    this.jump.addEventListener('click', () => { this.toEnd(); this.stays(true); });
    addEventListener('beforeprint', () => { this.printing = true; this.move([0, this.items.length], this.place()); });
    addEventListener('afterprint', () => { this.printing = false; this.slide(); });
  }

  /** Forgets the elements of another conversation. */
  reset() {
    const [at] = this.view && !this.stick ? this.place() : [];
    if (at) this.places.set(this.view.session, { key: at.key, y: at.y - this.scroller.getBoundingClientRect().top });
    else if (this.view) this.places.delete(this.view.session);
    for (const [id, { el }] of this.waitingCache) el.leave(this.view?.messages.get(id)?.text ?? '', 'Another conversation was opened.');
    for (const e of [this.log, this.activity, this.tray]) e.replaceChildren();
    for (const cache of [this.rows, this.waitingCache, this.heights, this.left, this.quiet]) cache.clear();
    this.items = NOTHING;
    [this.from, this.to] = [0, 0];
    this.space(0, 0);
    this.view = null;
    this.trayList = null;
    this.lastLines = null;
    this.stick = true;
    this.unread = 0;
    this.failed = false;
    this.indicatorText = undefined;
    this.working.hidden = true;
  }

  update(view) {
    const opening = this.items.length === 0;
    let place = this.stick ? null : this.place();
    const drafts = openDrafts(view);
    const { added, finished } = this.streams(view, drafts) ? this.write(view, drafts) : this.draw(view, drafts, opening);
    this.view = view;
    if (opening && this.comeBack()) place = this.place();
    this.showActivity(view);
    this.showWaiting(view);
    this.showWorking(view);
    this.showTyping(view);
    this.older.hidden = view.first <= 1 || !view.synced || view.order.length === 0;
    if (this.stick) this.follow();
    else {
      this.restore(place);
      this.unread += added.filter((r) => !r.mine && SPOKEN.has(r.type)).length;
    }
    this.speak(finished);
    this.showJump();
    this.fill();
  }

  // To where somebody was when they left this conversation for another one.
  comeBack() {
    const { key, y } = this.places.get(this.view.session) || {};
    const at = key ? this.items.indexOf(key) : -1;
    if (at < 0) return false;
    this.stick = false;
    this.places.delete(this.view.session);
    this.move(around(at, Math.min(at + SCREEN, this.items.length - 1), this.items.length, 0, 0), [{ key, y: y + this.scroller.getBoundingClientRect().top }]);
    return true;
  }

  // Nothing has changed but what drafts say: the rows need not be looked at, however many.
  streams(view, drafts) {
    const was = this.view;
    return !!was && was.session === view.session && was.rows === view.rows && was.order === view.order && was.pending === view.pending && drafts.length === this.items.drafts
      && drafts.every((d, i) => this.items.at(this.items.length - drafts.length + i).key === d.key);
  }

  write(view, drafts) {
    this.items = new Shown(view, drafts);
    for (const d of drafts) {
      const entry = this.rows.get(d.key);
      if (!entry || entry.item === d) continue;
      entry.el.patch(d);
      entry.item = d;
    }
    return { added: [], finished: [] };
  }

  draw(view, drafts, opening) {
    const all = new Shown(view, drafts);
    const added = opening ? [] : this.added(all);
    this.arriving = new Set(opening ? [] : [...added, ...drafts].map((r) => r.key));
    this.fresh = opening && !!this.view; // begun here, not loaded
    const finished = this.finish(added);
    this.measure();
    const was = { above: this.above, below: this.below, from: this.from, to: this.to, n: this.items.length };
    // Nothing came above: what stood there still does, and need not be added up.
    const on = !opening && this.view?.session === view.session && this.view.first === view.first && all.logged >= this.items.logged && all.length >= this.items.length;
    const [first, last] = this.again(all, on);
    if (!all.length) this.left.clear();
    this.items = all;
    const wanted = this.printing ? [0, all.length] : around(first, last, all.length, this.from, this.to);
    const range = this.printing ? wanted : this.stick || opening ? this.pinned(wanted) : this.stepped(wanted, first, last);
    this.elements(range);
    this.fresh = false;
    if (on) {
      this.space(was.above + this.between(was.from, this.from),
        was.to < was.n ? was.below + this.between(this.to, was.to) + this.between(was.n, all.length) : this.between(this.to, all.length));
    } else this.space(this.heights.sum(all, 0, this.from), this.heights.sum(all, this.to, all.length));
    // Who has scrolled up hears what comes, though it is no element.
    return { added, finished: [...finished, ...added.filter((r) => !r.mine && SPOKEN.has(r.type) && !this.rows.has(r.key))] };
  }

  // Where the rows that are elements, and those on the screen, stand among all; gives
  // the first and the last one of the screen.
  again(all, on) {
    if (this.stick || !this.items.length) {
      this.from = Math.max(0, this.from + Math.min(0, all.length - this.items.length));
      this.to = all.length;
      return [Math.max(0, all.length - SCREEN), all.length - 1];
    }
    const [first, last] = this.onScreen();
    let by = 0;
    for (let i = first; i < this.to && !on; i++) {
      const at = all.indexOf(this.items.at(i).key);
      if (at >= 0) { by = at - i; break; }
    }
    const within = (i) => Math.max(0, Math.min(all.length - 1, i + by));
    [this.from, this.to] = [Math.max(0, this.from + by), Math.max(0, Math.min(all.length, this.to + by))];
    return [within(first), within(last)];
  }

  // ---- which rows are elements ------------------------------------------------

  /** Brings the elements to where the screen is. */
  slide() {
    if (!this.items.length || this.printing) return;
    const [first, last, y] = this.onScreen();
    const range = this.stepped(around(first, last, this.items.length, this.from, this.to), first, last);
    if (range[0] === this.from && range[1] === this.to) return;
    const far = range[0] >= this.to || range[1] <= this.from;
    this.move(range, far ? [{ key: this.items.at(first).key, y }] : this.place());
  }

  // A frame makes but a few of the rows that are wanted; the next ones make the others.
  stepped(wanted, first, last) {
    const out = this.pinned(step(wanted, first, last, this.from, this.to));
    clearTimeout(this.soon);
    if (out[0] > wanted[0] || out[1] < wanted[1]) this.soon = setTimeout(() => this.slide(), SOON);
    return out;
  }

  // The first and the last row on the screen, also where they are no elements, and how
  // high the first one stands.
  onScreen() {
    const screen = this.scroller.getBoundingClientRect();
    const list = this.log.children;
    const n = this.items.length;
    if (!list.length) return [Math.max(0, n - SCREEN), n - 1, screen.top];
    let i = this.from + this.firstBelow(screen.top);
    let y;
    if (i < this.to) {
      y = list[i - this.from].getBoundingClientRect().top;
      while (i > 0 && i <= this.from && y > screen.top) y -= this.heights.of(this.items.at(--i));
    } else {
      y = list[list.length - 1].getBoundingClientRect().bottom;
      while (i < n - 1 && y + this.heights.of(this.items.at(i)) < screen.top) y += this.heights.of(this.items.at(i++));
      i = Math.min(i, n - 1);
    }
    let last = i;
    const height = (k) => (k >= this.from && k < this.to ? list[k - this.from].offsetHeight : this.heights.of(this.items.at(k)));
    for (let bottom = y + height(i); bottom < screen.bottom && last < n - 1;) bottom += height(++last);
    return [i, last, y];
  }

  // With what is marked and what has the focus, as long as that is near.
  pinned(range) {
    const marks = getSelection();
    const held = marks.isCollapsed ? [document.activeElement] : [marks.anchorNode, marks.focusNode, document.activeElement];
    for (const node of held) {
      if (!node || node === this.log || !this.log.contains(node)) continue;
      const at = [...this.log.children].findIndex((el) => el.contains(node));
      if (at >= 0 && this.from + at < this.items.length) range = keeping(range, this.from + at);
    }
    return range;
  }

  // Makes other rows elements; what is at place stays where it is.
  move(range, place) {
    const [from, to] = [this.from, this.to];
    const spare = this.above;
    this.measure(range);
    this.elements(range);
    if (range[0] >= to || range[1] <= from) this.space(this.between(0, this.from), this.between(this.to, this.items.length));
    else this.space(spare + this.between(from, this.from), this.below + this.between(this.to, to));
    this.restore(place, true);
  }

  // How high the rows [a, b) are; below zero if b is first.
  between(a, b) { return a <= b ? this.heights.sum(this.items, a, b) : -this.heights.sum(this.items, b, a); }

  space(above, below) {
    this.above = this.from > 0 ? Math.max(0, above) : 0;
    this.below = this.to < this.items.length ? Math.max(0, below) : 0;
    this.log.style.paddingTop = `${this.above}px`;
    this.log.style.paddingBottom = `${this.below}px`;
  }

  // Each row with the space below it, so that the sum is what the log loses without them.
  // Those that stay elements are measured when they leave.
  measure([from, to] = [0, 0]) {
    const list = [...this.log.children];
    for (let i = 0; i < list.length; i++) {
      const at = this.from + i;
      const row = this.items.at(at);
      if (!row || this.rows.get(row.key)?.el !== list[i] || (at >= from && at < to && this.heights.known.has(row.key))) continue;
      const next = i + 1 < list.length ? list[i + 1].getBoundingClientRect().top : this.log.getBoundingClientRect().bottom - this.below;
      this.heights.set(row, next - list[i].getBoundingClientRect().top);
    }
  }

  elements([from, to]) {
    const shown = this.items.slice(from, to);
    const stay = new Set(shown.map((r) => r.key));
    const focus = document.activeElement;
    for (const [key, entry] of this.rows) {
      if (stay.has(key)) continue;
      const focused = entry.el.contains(focus) ? focus : null;
      const held = focused || entry.item.type === 'question' || entry.el.querySelector('details[open], .more-text[aria-expanded="true"]:not([hidden])');
      this.left.delete(key); // who left last, stands last
      this.left.set(key, { ...entry, focused, held: !!held });
    }
    let spare = this.left.size - KEPT;
    for (const [key, { held }] of this.left) {
      if (spare-- <= 0) break;
      if (!held) this.left.delete(key);
    }
    reconcile(this.log, shown, this.rows, (r) => r.key, (r) => this.build(r), (el, r, old) => el.patch?.(r, old));
    [this.from, this.to] = [from, to];
    for (const [key, { el, focused }] of this.left) {
      if (this.rows.get(key)?.el !== el) continue;
      this.left.delete(key);
      if (focused && document.activeElement === document.body) focused.focus({ preventScroll: true });
    }
  }

  build(row) {
    const was = this.left.get(row.key);
    if (was && (was.item === row || was.el.patch?.(row, was.item))) {
      was.el.classList.remove('arrives', 'flash'); // else they would move once more
      this.hush(was.el);
      return was.el;
    }
    this.left.delete(row.key);
    const el = this.element(row);
    if (this.arriving.has(row.key)) {
      this.arriving.delete(row.key);
      el.classList.add('arrives');
    } else if (!this.fresh && !this.rows.has(row.key)) this.hush(el);
    return el;
  }

  // What was loaded, and what comes back because somebody scrolls, is no news.
  hush(el) {
    el.setAttribute('aria-live', 'off');
    this.quiet.add(el);
    clearTimeout(this.loud);
    this.loud = setTimeout(() => {
      for (const e of this.quiet) if (!e.classList.contains('draft')) e.removeAttribute('aria-live');
      this.quiet.clear();
    }, 1000);
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
  added(all) {
    const was = this.view;
    const sent = new Set([...was?.pending.values() ?? []].map((r) => r.key));
    const out = [];
    for (let i = all.length - all.drafts - 1; i >= 0; i--) {
      const row = all.at(i);
      if (!was?.rows.has(row.key) && !sent.has(row.key)) out.push(row);
      else if (!row.pending) break;
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
    const list = this.log.children;
    const out = [];
    const from = this.firstBelow(this.scroller.getBoundingClientRect().top);
    for (let i = from; i < Math.min(list.length, from + 12); i++) out.push({ el: list[i], key: this.items.at(this.from + i).key, y: list[i].getBoundingClientRect().top });
    return out;
  }

  // The first element that ends below this height.
  firstBelow(top) {
    const list = this.log.children;
    let [from, to] = [0, list.length];
    while (from < to) {
      const mid = (from + to) >> 1;
      if (list[mid].getBoundingClientRect().bottom > top) to = mid; else from = mid + 1;
    }
    return from;
  }

  // spare: the space above takes up what rows are higher than thought, so that nothing
  // is scrolled under a finger or a wheel.
  restore(place, spare = false) {
    for (const { el, key, y } of place) {
      const now = el?.parentNode === this.log ? el : this.rows.get(key)?.el;
      if (!now) continue;
      const by = now.getBoundingClientRect().top - y;
      if (!by) return;
      if (spare && this.from > 0 && by <= this.above) this.space(this.above - by, this.below);
      else this.scrollTo(this.scroller.scrollTop + by);
      return;
    }
  }

  showActivity(view) {
    const lines = activity(view.lines);
    if (this.lastLines === lines || (this.lastLines?.length === lines.length && lines.every((l, i) => l === this.lastLines[i]))) return;
    this.lastLines = lines;
    if (!lines.length) { this.activity.replaceChildren(); return; }
    const opened = this.activity.querySelector('details')?.open ?? true;
    const details = fold(lines, this.actions);
    details.open = opened;
    this.activity.replaceChildren(details);
  }

  showWaiting(view) {
    const waiting = waitingMessages(view);
    const readonly = view.session.includes('/') || view.closed;
    this.tray.hidden = waiting.length === 0;
    const there = new Set(waiting.map((m) => m.message));
    for (const [id, { el }] of this.waitingCache) if (!there.has(id)) el.leave(view.messages.get(id)?.text ?? '', 'The message that you were changing does not wait any more.');
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
    const focus = document.activeElement;
    reconcile(this.trayList, stable, this.waitingCache, (m) => m.message, (m) => waitingItem(m, this.actions, readonly), (el, m) => el.patch(m));
    if (at) this.focusTray(at);
    else if (this.trayList.contains(focus) && document.activeElement !== focus) focus.focus({ preventScroll: true }); // its entry has moved
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
    const buttons = [...to.querySelectorAll('button:not(:disabled, [hidden])')];
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
  toEnd() {
    const n = this.items.length;
    if (this.to < n) this.move(around(Math.max(0, n - SCREEN), n - 1, n, this.from, this.to), []);
    this.scrollTo(n ? this.scroller.scrollHeight : 0);
  }

  // With whoever is at the end, when that has moved.
  follow() { if (this.stick && !this.held) this.toEnd(); }

  // What the page scrolls itself is nobody's wish.
  scrollTo(y) {
    this.scroller.scrollTop = y;
    this.top = this.scroller.scrollTop;
  }

  scrolled() {
    const s = this.scroller;
    const resized = s.scrollHeight !== this.inner || s.clientHeight !== this.outer;
    const left = s.scrollHeight - s.scrollTop - s.clientHeight;
    const moved = s.scrollTop - this.top;
    this.top = s.scrollTop;
    const ended = this.to === this.items.length;
    this.slide();
    // The browser scrolls, too, when a size changes, and then to the end: nobody left it by that.
    if (this.stick && moved < -1 && left > 1) this.stays(false);
    // Near the end is the end for those only who come down to it: else nobody could leave it slowly.
    else if (!this.stick && left < NEAR && (moved > 0 || (left <= 1 && !resized))) {
      if (!ended) this.toEnd();
      this.stays(true);
    }
    if (!resized || !this.stick) this.wantOlder();
  }

  // Whoever is at the end stays there when it grows.
  stays(end) {
    if (!end && !this.items.length) return; // the page of one without rows has no end
    if (end !== this.stick) { this.stick = end; this.actions.atEnd(end); }
    if (end) this.unread = 0;
    this.showJump();
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
    const n = this.items.length;
    const at = this.items.indexOf(key);
    if (at < 0) return;
    const [first, last] = this.onScreen();
    const close = Math.max(first - at, at - last) < CLOSE;
    if (!this.rows.has(key) || close) {
      const [from, to] = close ? around(Math.min(at, first), Math.max(at, last), n, this.from, this.to) : around(at, at, n, 0, 0);
      if (!close) this.stick = false;
      this.move([from, to], close ? this.place() : []);
    }
    const { el } = this.rows.get(key);
    // At once: while the view still glided away from the end, whatever grew there took it back.
    el.scrollIntoView({ block: 'center' });
    this.top = this.scroller.scrollTop;
    this.stays(this.scroller.scrollHeight - this.top - this.scroller.clientHeight < NEAR);
    el.classList.remove('flash');
    void el.offsetWidth; // starts the animation anew
    el.classList.add('flash');
  }
}
