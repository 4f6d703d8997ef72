// Why there is no answer, and whether trying again can help.

import assert from 'node:assert/strict';
import test from 'node:test';
import { causeOf } from './page/causes.js';

const cases = [
  [{ code: 'internal', message: "the model's provider does not accept the server's credentials (401)" },
    "The model's provider does not accept the server's credentials (401). Trying again does not help: the people who run this server have to see to it.", false],
  [{ code: 'unavailable', message: 'the model failed (500).' }, 'The model failed (500). Try again in a moment.', true],
  [{ code: 'rate_limited', message: 'too many requests!' }, 'Too many requests! Try again in a minute.', true],
  [{ code: 'too_large', message: '' }, 'Say it shorter, or clear the conversation (the button above) so that the model sees less of it.', false],
  [{ code: 'a_new_code', message: 'x' }, 'X. Try again; if it stays, tell the people who run this server.', true],
];

for (const [error, text, again] of cases) test(`the cause ${error.code} says what to do`, () => { assert.deepEqual(causeOf(error), { text, again }); });
