// The conversation on the screen: where its rows stand, what is scrolled to, what waits.

import { clock, h, reconcile } from './dom.js';
import { draft, fold, partRow, questionRow, userRow } from './rows.js';
import { visibleRows, waitingMessages, working } from './store.js';
import { waitingItem } from './tray.js';

const NEAR = 60; // px from the end that still count as being there

/**
 * Conversation draws one view into its parts of the page. actions: retry(row),
 * discard(row), answer(question, text), toInput(), edit,
 * withdraw, move, dropWaiting, loadOlder() -> Promise of whether it worked, show(key), readonly(),
 * showCall(call), openSession(id), example(text), atEnd(bool).
 */
export class Conversation {
  constructor(parts, actions) {
    Object.assign(this, parts);
    this.actions = actions;
    this.rows = new Map();
    this.draftCache = new Map();
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
    for (const e of [this.log, this.drafts, this.activity, this.tray]) e.replaceChildren();
    for (const cache of [this.rows, this.draftCache, this.waitingCache]) cache.clear();
    this.lastLines = null;
    this.stick = true;
    this.unread = 0;
    this.failed = false;
    this.indicatorText = undefined;
    this.working.hidden = true;
  }

  update(view) {
    const before = this.rows.size;
    const first = this.log.firstElementChild;
    const height = this.scroller.scrollHeight;
    const top = this.scroller.scrollTop;
    this.view = view;
    const rows = visibleRows(view);
    reconcile(this.log, rows, this.rows, (r) => r.key, (r) => this.build(r), (el, r, old) => el.patch?.(r, old));
    reconcile(this.drafts, [...view.drafts.values()].filter((d) => d.text.trim()), this.draftCache, (d) => d.draft, (d) => draft(d), (el, d) => el.patch(d));
    this.showActivity(view);
    this.showWaiting(view);
    this.showWorking(view);
    this.showTyping(view);
    this.older.hidden = view.first <= 1 || !view.synced || rows.length === 0;
    if (this.stick) this.toEnd();
    else if (first && first !== this.log.firstElementChild && this.log.contains(first)) {
      this.scroller.scrollTop = top + (this.scroller.scrollHeight - height); // older rows came above
    } else if (this.rows.size > before && before > 0) {
      this.unread += this.rows.size - before;
    }
    this.showJump();
    this.fill();
  }

  build(row) {
    switch (row.type) {
      case 'user': return userRow(row, this.actions);
      case 'part': return partRow(row, this.actions);
      case 'question': return questionRow(row, this.actions);
      case 'activity': return h('div', { class: 'row activity-row' }, fold(row.lines, this.actions));
      default: return h('div', { class: 'row note', 'data-tone': row.tone }, h('span', {}, row.text));
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

  toEnd() { this.scroller.scrollTop = this.scroller.scrollHeight; }

  scrolled() {
    const s = this.scroller;
    // The browser scrolls, too, when a size changes; nobody left the end by that.
    if (s.scrollHeight !== this.inner || s.clientHeight !== this.outer) return;
    const end = s.scrollHeight - s.scrollTop - s.clientHeight < NEAR;
    if (end !== this.stick) { this.stick = end; this.actions.atEnd(end); }
    if (end) this.unread = 0;
    this.showJump();
    if (s.scrollTop < 200 && !this.older.hidden && !this.loading) this.loadOlder();
  }

  // A window that does not fill the screen cannot be scrolled for more.
  fill() {
    if (!this.older.hidden && !this.loading && !this.failed && this.scroller.scrollHeight <= this.scroller.clientHeight) this.loadOlder();
  }

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
