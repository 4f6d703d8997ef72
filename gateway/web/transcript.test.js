// A conversation as Markdown, from its stored events.

import assert from 'node:assert/strict';
import test from 'node:test';
import { markdownOf } from './page/transcript.js';

const at = (seq) => `2026-11-21T08:30:0${seq}.007Z`;
const frames = (...list) => list.map(([type, data], i) => ({ type, seq: i + 1, ts: at(i + 1), data }));

test('an exported conversation has what was said, in its order', () => {
  const text = markdownOf('Two\nlines', frames(
    ['session_created', { title: '' }],
    ['message_accepted', { message: 'm1', author: 'ann', name: 'Ann', text: 'Deploy it' }],
    ['message_accepted', { message: 'm2', author: 'bob', text: 'first words' }],
    ['message_edited', { message: 'm2', text: 'other words' }],
    ['message_accepted', { message: 'm3', author: 'bob', text: 'never mind' }],
    ['message_withdrawn', { message: 'm3' }],
    ['question', { question: 'q1', text: 'Where?', choices: ['here', 'there'] }],
    ['message_accepted', { message: 'm4', author: 'ann', text: 'here', question: 'q1' }],
    ['partial_response', { message: 'p1', text: 'I am on it', cut: true }]));
  assert.equal(text, `# Two lines

## Ann, 2026-11-21 08:30:02 UTC

Deploy it

## bob, 2026-11-21 08:30:03 UTC

other words

## Assistant asks, 2026-11-21 08:30:07 UTC

Where?

- here

- there

## ann, 2026-11-21 08:30:08 UTC

*Answers: Where?*

here

## Assistant, 2026-11-21 08:30:09 UTC

*This answer was cut off.*

I am on it
`);
});

test('what is approved is exported whole, whatever it holds', () => {
  const args = '{"text":"```` a fence"}';
  const text = markdownOf('t', frames(['question', { question: 'q1', text: 'May I?', approval: { call: 'c1', tool: 'write', args } }]));
  assert.ok(text.includes(`write:\n\n\`\`\`\`\`json\n{\n  "text": "\`\`\`\` a fence"\n}\n\`\`\`\`\`\n`), text);
});
