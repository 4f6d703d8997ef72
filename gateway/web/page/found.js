// What a search has found, as elements: the words are marked in it.

import { h } from './dom.js';
import { stampOf } from './listing.js';
import { marksOf, pieces } from './words.js';

export function marked(text, marks) {
  return pieces(text, marks).map((p) => (p.marked ? h('mark', {}, p.text) : p.text));
}

/** The address of a message: its conversation, opened where it stands. */
export const addressOf = (m) => `#/s/${encodeURIComponent(m.session)}/at/${encodeURIComponent(m.message)}.${m.seq || 0}`;

/** A search's results in order, for lists that draw them: [{key, href, section, body}]. */
export function resultsOf(found) {
  return [
    ...found.titles.map((s) => ({
      key: `t:${s.session}`, href: `#/s/${encodeURIComponent(s.session)}`, section: 'Titles',
      body: [h('span', { class: 'session-title' }, marked(s.title || 'Untitled conversation', marksOf(s.title || '', found.query))),
        h('span', { class: 'session-meta' }, s.archived ? 'archived · ' : null, stampOf(s.last_at || s.activity_at))],
    })),
    ...found.messages.map((m) => ({
      key: `m:${m.session}:${m.message}`, href: addressOf(m), section: 'In messages',
      body: [h('span', { class: 'snippet' }, marked(m.snippet || '', m.marks || marksOf(m.snippet || '', found.query))),
        h('span', { class: 'session-meta' }, h('span', { class: 'found-in' }, m.title || 'Untitled conversation'), m.created_at ? stampOf(m.created_at) : null)],
    })),
  ];
}
