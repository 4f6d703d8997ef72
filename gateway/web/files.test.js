// Which files messages may have.

import assert from 'node:assert/strict';
import test from 'node:test';
import { isFull, refusal, sizeOf, takesFiles, typeOf, wordsOf } from './page/files.js';

const text = (s) => new TextEncoder().encode(s);
const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0);

for (const [name, declared, bytes, want] of [
  ['a picture is what its bytes are', 'image/jpeg', png, 'image/png'],
  ['a picture without a type', '', png, 'image/png'],
  ['jpeg', 'image/jpeg', Uint8Array.of(0xff, 0xd8, 0xff, 0xe0), 'image/jpeg'],
  ['gif', 'image/gif', text('GIF89a....'), 'image/gif'],
  ['webp', 'image/webp', text('RIFF....WEBPVP8 '), 'image/webp'],
  ['another container', 'audio/wav', text('RIFF....WAVEfmt '), ''],
  ['a picture that is none', 'image/png', text('no picture'), ''],
  ['a drawing', 'image/svg+xml', text('<svg/>'), ''],
  ['a text', 'text/markdown', text('# größer'), 'text/markdown'],
  ['a text with a charset', 'text/csv; charset=utf-8', text('a,b'), 'text/csv'],
  ['JSON', 'application/json', text('{}'), 'application/json'],
  ['code', 'application/javascript', text('x = 1'), 'text/plain'],
  ['a text without a type', '', text('log'), 'text/plain'],
  ['another encoding', 'text/plain', Uint8Array.of(0x67, 0xf6), ''],
  ['NUL', 'text/plain', Uint8Array.of(0x61, 0, 0x62), ''],
  ['an archive', 'application/zip', Uint8Array.of(0x50, 0x4b, 3, 4, 0), ''],
]) test(`the type of a file: ${name}`, () => assert.equal(typeOf(declared, bytes), want));

for (const [name, limits, takes, full] of [
  ['before hello', undefined, false, null],
  ['a server that has none', {}, false, null],
  ['three', { attachments_per_message: 3 }, true, [false, false, false, true]],
  ['any number', { attachments_per_message: 0 }, true, [false, false, false, false]],
]) test(`how many files a message may have: ${name}`, () => {
  assert.equal(takesFiles(limits), takes);
  if (takes) assert.deepEqual([0, 1, 2, 3].map((n) => isFull(limits, n)), full);
});

test('the size of a file in words', () => {
  assert.deepEqual([1, 950, 1024, 20480, 1536 * 1024, 10 << 20].map(sizeOf), ['1 byte', '950 bytes', '1 KiB', '20 KiB', '1.5 MiB', '10 MiB']);
});

test('a refused file says why and what to do', () => {
  assert.equal(refusal('storage_full', 'this tenant has stored as much as it may'), 'This tenant has stored as much as it may. The people who run this server have to make room; then try again.');
  assert.equal(refusal('', ''), 'The server did not take it. Try again.');
});

test('a message without a text is told by its files', () => {
  assert.equal(wordsOf(' ', [{ name: 'a.png' }, { name: 'b.txt' }]), 'a.png, b.txt');
  assert.equal(wordsOf('see', [{ name: 'a.png' }]), 'see');
});
