import assert from 'node:assert/strict';
import test from 'node:test';
import { inline, parse } from './page/format.js';

const cases = [
  ['plain text keeps its lines', 'a\nb\n\nc', [{ type: 'p', inline: ['a\nb'] }, { type: 'p', inline: ['c'] }]],
  ['markup is text', '<b onclick="x">&amp;</b>', [{ type: 'p', inline: ['<b onclick="x">&amp;</b>'] }]],
  ['fenced code', '```go\na := `x`\n\n# no\n```\nafter', [{ type: 'code', lang: 'go', text: 'a := `x`\n\n# no' }, { type: 'p', inline: ['after'] }]],
  ['a fence that never ends', '```\nx', [{ type: 'code', lang: '', text: 'x' }]],
  ['lists', '- a\n- b\n  more\n1. no', [{ type: 'list', ordered: false, start: 1, items: [['a'], ['b\nmore']] }, { type: 'list', ordered: true, start: 1, items: [['no']] }]],
  ['a year is no list', 'it was\n1984. a year', [{ type: 'p', inline: ['it was\n1984. a year'] }]],
  ['heading and rule', '# A\n---\n> q\n> r', [{ type: 'h', level: 1, inline: ['A'] }, { type: 'rule' }, { type: 'quote', inline: ['q\nr'] }]],
];
for (const [name, text, want] of cases) test(name, () => assert.deepEqual(parse(text), want));

test('inline pieces', () => {
  assert.deepEqual(inline('a `b*c*` **d** *e* 2 * 3 * 4'), ['a ', { type: 'code', text: 'b*c*' }, ' ', { type: 'strong', inline: ['d'] }, ' ', { type: 'em', inline: ['e'] }, ' 2 * 3 * 4']);
  assert.deepEqual(inline('see https://x.test/a(b).'), ['see ', { type: 'link', href: 'https://x.test/a(b', text: 'https://x.test/a(b' }, ').']);
  assert.deepEqual(inline('[t](https://x.test/a)'), [{ type: 'link', href: 'https://x.test/a', text: 't' }]);
});

test('only http, https and mailto become links', () => {
  for (const bad of ['javascript:alert(1)', 'data:text/html,x', 'vbscript:x', '//x.test', 'JAVASCRIPT:alert(1)']) {
    assert.deepEqual(inline(`[t](${bad})`).filter((p) => p.type === 'link'), [], bad);
  }
});

// M-26
test('mentions are badges, mail addresses and paths are not', () => {
  assert.deepEqual(inline('@max look: a@b.c @éva-2'), [{ type: 'mention', name: 'max' }, ' look: a@b.c ', { type: 'mention', name: 'éva-2' }]);
});

test('code ends with as many backticks as it begins with', () => {
  const code = (text) => ({ type: 'code', text });
  for (const [text, want] of [
    ['``a`b``', [code('a`b')]], ['``a`', ['`', code('a')]], ['`a``', ['`a``']], ['```a``', ['`', code('a')]], ['`a`b`', [code('a'), 'b`']],
    ['`a\nb`', [code('a\nb')]], ['`a` `b', [code('a'), ' `b']], ['`' + 'x'.repeat(4002) + '`', [code('x'.repeat(4002))]],
    ['`' + 'x'.repeat(4003) + '`', ['`' + 'x'.repeat(4003) + '`']], ['`'.repeat(9) + 'a' + '`'.repeat(8), ['`', code('a')]],
  ]) assert.deepEqual(inline(text).reduce((all, p) => (typeof p === 'string' && typeof all.at(-1) === 'string' ? [...all.slice(0, -1), all.at(-1) + p] : [...all, p]), []), want, text.slice(0, 20));
  // Many runs without an end are text in the end, however many follow.
  assert.deepEqual(inline('``` ` '.repeat(9) + '``').map((p) => typeof p).includes('object'), true);
});

// A text of this size took the scan a fraction of a second; a quadratic one would
// not end within the test's own time limit.
test('hostile texts end', { timeout: 20000 }, () => {
  for (const s of ['`', '``a', '*', '**', '[', '[a](', '@', '> ', '- ', 'https://', '`a``', '`````````a ', '`\n']) {
    const text = s.repeat(60000);
    const back = (pieces) => pieces.map((p) => (typeof p === 'string' ? p : p.inline ? back(p.inline) : p.text ?? p.name)).join('');
    assert.ok(back(inline(text)).length <= text.length);
    parse(text);
  }
});
