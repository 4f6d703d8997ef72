// The Tasks view: every task of every conversation, one of them in detail, and
// the box to reply to a task that waits for it.

import { tasks as api } from './api.js';
import { composer } from './composer.js';
import { complain, h, iconButton, newID, time, icon } from './dom.js';
import { isLive, onChange } from './list.js';
import { paint, render } from './markdown.js';
import { callBlock } from './rows.js';
import { ENDED, excerpt } from './store.js';

export const STATUS = {
  QUEUED: 'Queued', RUNNING: 'Running', AWAITING_RESPONSE: 'Awaiting response', COMPLETE: 'Complete', ERROR: 'Error', CANCELLED: 'Cancelled',
};

export function pill(status) { return h('span', { class: 'pill', 'data-status': status }, STATUS[status] || status); }

/** The session that a task belongs to is part of what the server says of it. */
function sessionOf(task) { return task.session || ''; }

/**
 * Tasks shows the list, or one task when show(id) names it. deps: root, menu()
 * (opens the drawer), watch(sessions) (asks to be told when they change).
 */
export class Tasks {
  constructor({ root, menu, watch }) {
    Object.assign(this, { root, menu, watch });
    this.status = '';
    this.id = '';
    this.visible = false;
    this.items = [];
    onChange(() => this.hint());
  }

  show(id) {
    this.visible = true;
    if (this.id !== id || !this.root.firstChild) {
      this.id = id;
      this.task = null;
      this.root.replaceChildren();
      if (id) this.buildDetail(); else this.buildList();
    }
    this.refresh();
    clearInterval(this.poll);
    // The list of conversations says where something happens; this is for a server that does not tell it.
    this.poll = setInterval(() => { if (!isLive() && document.visibilityState === 'visible') this.refresh(); }, 5000);
  }

  hide() {
    this.visible = false;
    clearInterval(this.poll);
    this.watch([]);
    this.root.replaceChildren();
    this.id = '';
  }

  /** Something happened in a session that is watched. */
  hint() {
    if (!this.visible || this.hinted) return;
    this.hinted = setTimeout(() => { this.hinted = 0; if (this.visible) this.refresh(); }, 120);
  }

  async refresh() {
    const turn = (this.turn = (this.turn || 0) + 1);
    const current = () => turn === this.turn && this.visible;
    try {
      if (this.id) {
        const task = await api.get(this.id);
        if (current()) this.drawDetail(task);
      } else {
        const page = await api.list({ status: this.status });
        if (current()) this.drawList(page.items || [], page.next_cursor || '');
      }
    } catch (err) {
      if (!current()) return;
      if (this.id && err.status === 404) { this.root.replaceChildren(this.head('Task', true), h('div', { class: 'scroller' }, h('div', { class: 'column' }, h('p', { class: 'empty-note' }, 'There is no such task.')))); clearInterval(this.poll); } else if (!this.failed) complain('The tasks could not be loaded.', err);
      this.failed = true;
      return;
    }
    this.failed = false;
  }

  head(title, back) {
    return h('header', { class: 'head' },
      iconButton('menu', 'Conversations', (e) => this.menu(e.currentTarget), 'menu-button'),
      back ? h('a', { class: 'icon-button', href: '#/tasks', 'aria-label': 'All tasks', title: 'All tasks' }, icon('back')) : null,
      h('div', { class: 'head-title' }, h('h1', {}, title)));
  }

  buildList() {
    this.list = h('ul', { class: 'task-list' });
    this.none = h('p', { class: 'empty-note', hidden: true });
    this.more = h('button', { type: 'button', class: 'link-button', hidden: true, onclick: () => this.loadMore() }, 'Show more');
    const filter = h('div', { class: 'filter', role: 'group', 'aria-label': 'Filter by status' });
    for (const [value, label] of [['', 'All'], ...Object.entries(STATUS)]) {
      filter.append(h('button', { type: 'button', class: 'filter-button', 'data-status': value, 'aria-pressed': String(value === this.status), onclick: () => {
        this.status = value;
        for (const b of filter.children) b.setAttribute('aria-pressed', String(b.dataset.status === value));
        this.refresh();
      } }, label));
    }
    this.root.append(this.head('Tasks'), h('div', { class: 'scroller' }, h('div', { class: 'column' }, filter, this.list, this.none, this.more)));
  }

  drawList(items, cursor) {
    this.items = items;
    this.cursor = cursor;
    const focused = document.activeElement?.dataset?.task;
    this.list.replaceChildren(...items.map(taskEntry));
    if (focused) this.list.querySelector(`[data-task="${CSS.escape(focused)}"]`)?.focus();
    this.none.hidden = items.length > 0;
    this.none.textContent = this.status ? `No task is ${STATUS[this.status].toLowerCase()}.` : 'No tasks yet. Each message that starts work appears here.';
    this.more.hidden = !cursor;
    const open = items.filter((t) => !ENDED.has(t.status)).map(sessionOf).filter(Boolean);
    this.watch([...new Set(open)].slice(0, 20));
  }

  async loadMore() {
    try {
      const page = await api.list({ status: this.status, cursor: this.cursor });
      this.list.append(...(page.items || []).map(taskEntry));
      this.cursor = page.next_cursor || '';
      this.more.hidden = !this.cursor;
    } catch (err) { complain('More tasks could not be loaded.', err); }
  }

  buildDetail() {
    this.asked = '';
    this.fact = h('dl', { class: 'facts' });
    this.prompt = h('div', { class: 'text' });
    this.output = h('div', { class: 'outputs' });
    this.history = h('ol', { class: 'history' });
    this.historyBox = h('section', { class: 'card', hidden: true }, h('h2', {}, 'Replies'), this.history);
    this.error = h('p', { class: 'form-error', role: 'alert', hidden: true });
    this.question = h('div', { class: 'question-body' });
    this.box = composer({ label: 'Reply', placeholder: 'Type your reply...', id: 'task-reply', compact: true, sendLabel: 'Send', submit: (text) => this.reply(text), onInput: () => { this.error.hidden = true; } });
    this.box.input.addEventListener('input', () => { this.key = ''; });
    this.replyBox = h('section', { class: 'card reply-card', id: 'reply-box', hidden: true }, h('h2', {}, 'Waiting for your reply'), this.question, this.box.element);
    this.cancel = h('button', { type: 'button', class: 'plain-button', hidden: true, onclick: () => this.stop() }, 'Cancel task');
    const head = this.head('Task', true);
    this.name = head.querySelector('h1');
    this.name.after(h('p', { class: 'subtitle' }, 'Task'));
    this.root.append(head, h('div', { class: 'scroller' }, h('div', { class: 'column task-detail' },
      this.fact,
      h('section', { class: 'card' }, h('h2', {}, 'Prompt'), this.prompt),
      h('section', { class: 'card' }, h('h2', {}, 'Output'), this.output),
      this.historyBox, this.error, this.replyBox,
      h('div', { class: 'task-actions' }, this.cancel))));
  }

  drawDetail(task) {
    const before = this.task;
    this.task = task;
    if (!ENDED.has(task.status)) this.watch([sessionOf(task)].filter(Boolean)); else this.watch([]);
    this.fact.replaceChildren(
      h('div', {}, h('dt', {}, 'Status'), h('dd', {}, h('span', { role: 'status' }, pill(task.status)))),
      h('div', {}, h('dt', {}, 'Created'), h('dd', {}, time(task.created_at))),
      h('div', {}, h('dt', {}, 'Updated'), h('dd', {}, time(task.updated_at))),
      h('div', {}, h('dt', {}, 'Conversation'), h('dd', {}, h('a', { href: `#/s/${encodeURIComponent(sessionOf(task))}` }, 'Open'))));
    if (before?.prompt !== task.prompt) {
      this.name.textContent = excerpt(task.prompt, 80) || 'Task';
      paint(this.prompt, task.prompt, { typed: true });
    }
    const q = typeof task.question === 'string' ? task.question : task.question?.text || '';
    const parts = (task.parts || []).map((p) => (typeof p === 'string' ? p : p.text));
    const sig = JSON.stringify([parts, task.output, task.error, task.status]);
    if (this.sig !== sig || !this.output.firstChild) {
      this.sig = sig;
      const shown = parts.length ? parts : task.output && task.output !== q ? [task.output] : [];
      this.output.replaceChildren(...shown.map((t) => render(t)));
      if (!shown.length) this.output.append(h('p', { class: 'hint' }, ENDED.has(task.status) ? 'Nothing was shown.' : 'Nothing yet.'));
      if (task.error) this.output.append(h('p', { class: 'form-error' }, task.error.message || String(task.error)));
    }
    const replies = task.reply_history || [];
    this.historyBox.hidden = replies.length === 0;
    this.history.replaceChildren(...replies.map((r) => h('li', {}, render(r.content, { typed: true }), time(r.timestamp))));
    const awaiting = task.status === 'AWAITING_RESPONSE';
    const was = this.replyBox.hidden;
    this.replyBox.hidden = !awaiting;
    if (awaiting) {
      const asked = task.question?.question || q;
      if (this.asked !== asked) { this.asked = asked; this.drawQuestion(task.question, q); }
      if (was) { this.error.hidden = true; this.box.refresh(); }
    }
    this.cancel.hidden = ENDED.has(task.status);
  }

  // A question with choices, or about a call, can be answered with a button, too.
  drawQuestion(question, text) {
    const choice = (label, reply, cls = '') => h('button', { type: 'button', class: `choice ${cls}`, onclick: () => this.reply(reply) }, label);
    const { approval } = question || {};
    const choices = approval ? [choice('Approve', 'yes', 'good'), choice('Decline', 'no', 'bad')] : (question?.choices || []).map((c) => choice(c, c));
    this.question.replaceChildren(...[
      render(text), approval && callBlock(approval),
      choices.length > 0 && h('div', { class: 'choices' }, choices)].filter(Boolean));
  }

  // The status is read again right before the reply is sent, because the page may
  // be behind; the server checks once more and wins.
  async reply(text) {
    const id = this.id;
    this.error.hidden = true;
    try {
      const now = await api.get(id);
      if (now.status !== 'AWAITING_RESPONSE') {
        this.refuse(now.status);
        this.drawDetail(now);
        return false;
      }
      this.key ||= newID(); // the same for a repeated attempt with the same text
      await api.reply(id, text, this.key);
      this.key = '';
      this.refresh();
      return true;
    } catch (err) {
      if (err.status === 409) { this.refuse(err.body?.task_status); this.refresh(); } else this.fail(`The reply was not sent. ${err.message}${err.where ? ` (request ${err.where})` : ''}`);
      return false;
    }
  }

  refuse(status) { this.fail(`This task no longer waits for a reply: its status is now ${STATUS[status] || status || 'another one'}. Your text was not sent.`); }
  fail(text) { this.error.textContent = text; this.error.hidden = false; }

  async stop() {
    this.cancel.disabled = true;
    try { await api.cancel(this.id); } catch (err) { complain('The task could not be cancelled.', err); } finally { this.cancel.disabled = false; }
    this.refresh();
  }
}

function taskEntry(t) {
  const id = t.task_id || t.task;
  return h('li', {}, h('a', { href: `#/tasks/${encodeURIComponent(id)}`, 'data-task': id },
    h('span', { class: 'task-prompt' }, excerpt(t.prompt, 140) || id),
    h('span', { class: 'task-meta' }, pill(t.status), time(t.updated_at || t.created_at))));
}
