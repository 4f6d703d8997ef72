// Markdown as the page shows it: what becomes of a text, that growing texts come out
// the same as whole ones, the examples of the CommonMark specification, and what
// somebody hostile would write.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { counts, document, html } from './fakedom.js';
import { blocks } from './page/grammar.js';
import { paint, ready } from './page/markdown.js';

await ready();

const draw = (text, options) => { const e = document.createElement('div'); paint(e, text, options); return e; };

// What every element of a kind has is left out, so that the tables below can be read.
const ALWAYS = { a: ['rel', 'target'], th: ['scope', 'dir'], td: ['dir'], input: ['type', 'disabled'] };
function short(n) {
  const { class: cls } = Object.fromEntries(n.attributes);
  if (n.tag === 'div' && cls === 'code') {
    const [head, pre] = n.childNodes;
    const lang = head.firstChild.textContent;
    return { tag: 'pre', attributes: new Map(lang === 'text' ? [] : [['lang', lang]]), childNodes: pre.firstChild.childNodes };
  }
  if (n.tag === 'div' && cls === 'table') return short(n.firstChild);
  const attributes = new Map([...n.attributes].filter(([k, v]) => !(ALWAYS[n.tag] || []).includes(k) && !(k === 'dir' && v === 'auto')));
  if (cls?.startsWith('heading')) attributes.delete('class');
  if (cls === 'math') for (const k of ['dir', 'role', 'tabindex', 'aria-label']) attributes.delete(k);
  return { tag: n.tag, attributes, childNodes: n.childNodes };
}
const shown = (text, options) => html({ tag: '#fragment', attributes: new Map(), childNodes: draw(text, options).childNodes }, short);

for (const [name, text, want] of JSON.parse(readFileSync(new URL('./testdata/markdown/cases.json', import.meta.url)))) {
  test(name, () => assert.equal(shown(text), want));
}

test('what is half written is held back while a text grows', () => {
  for (const [text, want] of JSON.parse(readFileSync(new URL('./testdata/markdown/half.json', import.meta.url)))) {
    assert.equal(shown(text, { live: true }), want, JSON.stringify(text));
  }
});

test('only http, https and mailto become links', () => {
  for (const bad of ['javascript:alert(1)', 'data:text/html,x', 'vbscript:x', '//x.test', '/x', '#x', 'JAVASCRIPT:alert(1)', 'java&#10;script:x', '&#106;avascript:x', 'file:///x', '\u0001javascript:x', 'blob:x']) {
    for (const text of [`[t](${bad})`, `[t](<${bad}>)`, `![t](${bad})`, `<${bad}>`, `[t]\n\n[t]: ${bad}`, `[t]\n\n[t]: <${bad}>`]) {
      assert.doesNotMatch(shown(text), /<(?:a|img)\b/, text);
    }
  }
  assert.match(html(draw('[t](https://x.test)')), /<a href="https:\/\/x.test" rel="noopener noreferrer nofollow" target="_blank">t<\/a>/);
});

test('a line break is the only markup that a cell may have', () => {
  assert.equal(shown('| a<br>b |\n|---|\n| c<br/>*d*<BR />e |\n| `<br>` <b>f</b> |'),
    '<table><thead><tr><th>a<br>b</th></tr></thead><tbody><tr><td>c<br><em>d</em><br>e</td></tr><tr><td><code>&lt;br&gt;</code> &lt;b&gt;f&lt;/b&gt;</td></tr></tbody></table>');
  assert.equal(shown('a<br>b'), '<p>a&lt;br&gt;b</p>');
});

test('a list says how wide its numbers are', () => {
  assert.equal(shown('1986. a'), '<ol data-wide="4" start="1986"><li>a</li></ol>');
  assert.match(shown(Array.from({ length: 100 }, (_, i) => `${i + 1}. a`).join('\n')), /^<ol data-wide="3">/);
  assert.match(shown('98. a\n99. b'), /^<ol start="98">/);
});

test('what a person typed is shown as it was typed', () => {
  const typed = (text) => shown(text, { typed: true }).replaceAll(' class="typed"', '');
  for (const text of ['def __init__(self):\n    return 2*3*4', '# comment', '- a\n\n\n- b', '| a |\n|---|', '$x$ *a* `b` ~~c~~ @max &amp; \\*', '    indented', '```js\nnot closed', '> said\n\n\tthen']) {
    assert.equal(typed(text), `<p>${text.replaceAll('&', '&amp;').replaceAll('>', '&gt;')}</p>`);
  }
  assert.equal(typed('see https://x.test/a_b_c, or javascript:x'), '<p>see <a href="https://x.test/a_b_c">https://x.test/a_b_c</a>, or javascript:x</p>');
  assert.equal(typed('<b>\n\n```js\nlet *x*;\n\n  y\n```\n\n  after\n'), '<p>&lt;b&gt;</p><pre lang="js">let *x*;\n\n  y</pre><p>  after</p>');
  assert.equal(typed('~~~~\n```\n~~~\n~~~~'), '<pre>```\n~~~</pre>');
  assert.equal(typed(' \n '), '');
});

test('a picture is loaded only if it is in the text', () => {
  assert.equal(shown('![alt](https://x.test/a.png)'), '<p><a href="https://x.test/a.png">alt</a></p>');
  assert.equal(shown('![alt](data:image/png;base64,AAAA)'), '<p><img alt="alt" src="data:image/png;base64,AAAA"></p>');
  assert.equal(shown('![alt](data:image/svg+xml;base64,AAAA)'), '<p>alt</p>');
});

test('no element and no attribute but of the list', () => {
  const elements = new Set('div p h3 h4 h5 h6 ul ol li blockquote hr table thead tbody tr th td pre code em strong del a br span input button img'.split(' '));
  const attributes = new Set('class dir href title rel target start scope data-align data-wide type disabled checked aria-label aria-level tabindex role src alt'.split(' '));
  const walk = (n) => {
    if (n.tag === undefined) return;
    assert.ok(elements.has(n.tag), n.tag);
    for (const k of n.attributes.keys()) assert.ok(attributes.has(k), k);
    n.childNodes.forEach(walk);
  };
  const random = generator(1);
  for (const text of [...examples().map((e) => e.markdown), ...Array.from({ length: 500 }, () => written(random))]) walk(draw(text));
});

// ---- growing ------------------------------------------------------------------------

function generator(seed) {
  let s = seed >>> 0;
  return (n) => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

const PIECES = ['# Title\n', 'Title\n===\n', 'a line\n', 'two **bold** and *em*\n', '- item\n', '- [ ] task\n', '1. one\n', '   more\n', '    code\n', '```js\n', '```\n', 'let x = 1;\n', '> quote\n', '| a | b |\n', '|---|:-:|\n', '| 1 | `2` |\n', '\n', '\n\n', '---\n', '***\n',
  '[a]: https://a.test\n', '[a]: https://b.test "t"\n', '"title"\n', 'see [a] and [b][a]\n', '[b]:\n', '/url\n', '$$\n', 'x = y\n', '\\[\n', '\\]\n', '$x_1$ and \\(y\\)', '@max', '<b>', '`', '``', '**', '*', '_', '~~', '[', '](https://x.test)', '![', 'https://x.test/a_b ', 'www.x.test', ' ', '\t', '\r\n', '\r', '  \n', '\\\n', '\\', '&amp;', '|', '=', '-', '+', 'مرحبا ', 'é', '😀', '\u0000', 'word ', 'word', '~~~\n', '* x\n', '10) ten\n', '      deep\n', '  - nested\n'];
const written = (random) => Array.from({ length: 1 + random(30) }, () => PIECES[random(PIECES.length)]).join('');

// D-13: live and stored text come out the same.
test('a text that grew is shown as the same text at once', { timeout: 60000 }, (t) => {
  const seed = Number(process.env.SEED || 1); // another one looks for other texts
  t.diagnostic(`seed ${seed}`);
  const random = generator(seed);
  for (let n = 0; n < Number(process.env.TEXTS || 1000); n++) {
    const text = n % 3 ? written(random) : Array.from({ length: 3 }, () => { const all = examples(); return all[random(all.length)].markdown; }).join(random(2) ? '\n' : '');
    const e = document.createElement('div');
    const cuts = Array.from({ length: 1 + random(12) }, () => random(text.length + 1)).sort((a, b) => a - b);
    const said = `seed ${seed}, ${JSON.stringify(text)} at ${cuts}`;
    for (const at of cuts) {
      const live = random(3) > 0;
      paint(e, text.slice(0, at), { live });
      assert.equal(html(e), html(draw(text.slice(0, at), { live })), said);
    }
    if (random(8) === 0) paint(e, written(random)); // and another text between
    paint(e, text);
    assert.equal(html(e), html(draw(text)), said);
  }
});

test('what does not change keeps its elements and its text nodes', () => {
  const e = document.createElement('div');
  const text = '# A\n\none\n\n- x\n- y\n\n```go\na\nb\n```\n\n| a |\n|---|\n| 1 |\n\nlast words of it';
  paint(e, text, { live: true });
  const [h, p, list, code, table, last] = e.childNodes;
  const words = last.firstChild;
  const before = counts.made;
  for (const more of [' and', ' more', ' **bold', '** x']) paint(e, `${text}${more}`.trimEnd(), { live: true });
  paint(e, `${text} and more`, { live: true });
  assert.deepEqual(e.childNodes, [h, p, list, code, table, last]);
  assert.equal(last.firstChild, words);
  assert.ok(counts.made - before < 8, `${counts.made - before} nodes were made`);
  paint(e, `${text} and more\n\nnext`);
  assert.deepEqual(e.childNodes.slice(0, 6), [h, p, list, code, table, last]);
  const lines = document.createElement('div');
  paint(lines, '```go\na', { live: true });
  const body = () => lines.firstChild.childNodes[1].firstChild.firstChild;
  const first = body();
  paint(lines, '```go\na\nbc', { live: true });
  paint(lines, '```go\na\nbcd\n```', { live: true });
  assert.equal(body(), first);
  assert.equal(first.data, 'a\nbcd');
});

// The colours come when there is time, maybe much later than the text: what they are put on
// is the text of that moment, and what is added behind them is seen.
test('colours that come late cut nothing off', async () => {
  globalThis.requestAnimationFrame = () => {};
  const e = document.createElement('div');
  const [head, whole] = ['```bash\nnpm i foo   # com', '```bash\nnpm i foo   # comment'];
  const code = () => e.firstChild.childNodes[1].firstChild;
  const coloured = async () => {
    await import('./page/colours.js'); // however long that takes
    for (let n = 0; n < 1e4 && code().firstChild.tag === undefined; n++) await new Promise(setImmediate);
    return code().childNodes.some((k) => k.tag === 'span');
  };
  try {
    for (let at = head.length - 4; at <= whole.length; at++) paint(e, whole.slice(0, at), { live: true });
    paint(e, `${whole}\nls\n\`\`\`\n`, { live: true });
    assert.ok(await coloured());
    assert.equal(code().textContent, 'npm i foo   # comment\nls');
    paint(e, `${whole}\nls -l\n\`\`\`\nend`);
    assert.equal(code().textContent, 'npm i foo   # comment\nls -l');
    assert.ok(await coloured());
    assert.equal(code().textContent, 'npm i foo   # comment\nls -l');
  } finally { delete globalThis.requestAnimationFrame; }
});

test('code is coloured while a text grows once its last line is there', () => {
  const code = (nodes) => nodes.reduce((found, n) => found ?? (n.ready !== undefined ? n : n.kids && code(n.kids)), undefined);
  const ready = (text) => code(blocks(text, { live: true }).at(-1).nodes).ready;
  for (const text of ['```js\nlet x', '```js\nlet x\n', '```js\n', '```js', '> ```js\n> ', '> ```js\n> let x', '- ```js\n  let', '```js\n> ```', '````js\n```\n']) assert.equal(ready(text), false, text);
  for (const text of ['```js\nlet x\n```\n', '```js\n```\n', '> ```js\n> let\n> ```\n', '- ~~~js\n  let\n  ~~~~\n', '    let x\n']) assert.equal(ready(text), true, text);
});

// A long text costs per word what its last block costs, not what all of it does.
test('a growing text is not read from its beginning again', () => {
  const e = document.createElement('div');
  let text = '';
  const before = counts.made + counts.changed;
  for (let n = 0; n < 2000; n++) {
    text += n % 10 ? 'some more words ' : '\n\n- a new one\n- of two\n\n';
    paint(e, text, { live: true });
  }
  assert.ok(counts.made + counts.changed - before < 12000, `${counts.made + counts.changed - before} changes`);
});

// ---- the specification ---------------------------------------------------------------

let read;
function examples() { return (read ??= JSON.parse(readFileSync(new URL('./testdata/markdown/commonmark-0.31.2.json', import.meta.url)))); }

// What the page adds to what the specification says is taken away again.
function spec(n) {
  const cls = n.attributes.get('class') || '';
  const kids = n.childNodes;
  const only = (...names) => new Map(names.filter((k) => n.attributes.has(k)).map((k) => [k, n.attributes.get(k)]));
  if (n.tag === 'div' && cls === 'code') {
    const lang = kids[0].firstChild.textContent;
    const text = kids[1].firstChild.textContent;
    const code = document.createElement('code');
    if (lang !== 'text') code.setAttribute('class', `language-${lang}`);
    code.append(document.createTextNode(text && `${text}\n`));
    return { tag: 'pre', attributes: new Map(), childNodes: [code] };
  }
  if (/^heading/.test(cls)) return { tag: `h${cls.at(-1)}`, attributes: new Map(), childNodes: kids };
  if (n.tag === 'div' && cls === 'table') return spec(kids[0]);
  if (n.tag === 'th' || n.tag === 'td') return { tag: n.tag, attributes: new Map(n.attributes.has('data-align') ? [['align', n.attributes.get('data-align')]] : []), childNodes: kids };
  if (n.tag === 'input') return { tag: n.tag, attributes: only('checked', 'disabled', 'type'), childNodes: kids };
  return { tag: n.tag, attributes: n.tag === 'ol' ? only('start') : n.tag === 'a' ? only('href', 'title') : n.tag === 'code' ? only('class') : n.tag === 'img' ? only('src', 'alt', 'title') : ['span', 'div'].includes(n.tag) ? n.attributes : new Map(), childNodes: kids };
}

// Line ends between blocks mean nothing, and code that ends without one is the same code.
const plainly = (s) => s.replace(/<pre>[^]*?<\/pre>|\s*(<\/?(?:p|ul|ol|li|table|thead|tbody|tr|t[hd]|blockquote|h[1-6]|hr)(?: [^<>]*)?\/?>)\s*/g, (m, tag) => tag || m)
  .replace(/\s*(<pre>)/g, '$1').replace(/(<\/pre>)\s*/g, '$1').replace(/(<br) ?\/?>\n?/g, '$1>').replace(/<hr ?\/?>/g, '<hr>')
  .replace(/<img src="([^"]*)" (alt="[^"]*")( title="[^"]*")? ?\/?>/g, '<img $2 src="$1"$3>').replace(/\n+<\/code><\/pre>/g, '\n</code></pre>').trim();

test('the examples of CommonMark 0.31.2', () => { compare(examples(), 'differences.json', 652); });

test('the examples of GitHub Flavored Markdown 0.29: tables, tasks, strikethrough, addresses', () => {
  compare(JSON.parse(readFileSync(new URL('./testdata/markdown/gfm-0.29.json', import.meta.url))), 'gfm-differences.json', 23);
});

// Each example comes out as it should, or is in a list of differences with its reason.
function compare(list, differences, most) {
  const different = JSON.parse(readFileSync(new URL(`./testdata/markdown/${differences}`, import.meta.url)));
  const wrong = [];
  for (const { example, section, markdown, html: want } of list) {
    const e = document.createElement('div');
    e.append(...elements(markdown));
    const got = plainly(html({ tag: '#fragment', attributes: new Map(), childNodes: e.childNodes }, spec));
    const same = got === plainly(want);
    if (same === !(example in different)) continue;
    wrong.push(same ? `${example} is listed and does not differ` : `${example} (${section}) ${JSON.stringify(markdown)}\n  is    ${JSON.stringify(got)}\n  not   ${JSON.stringify(plainly(want))}`);
  }
  assert.equal(list.length, most);
  assert.deepEqual(wrong, [], wrong.join('\n'));
}

// The elements of a text in which any address may be a link, as the examples have them.
function elements(text) {
  const make = (n) => {
    if (n.tag === undefined) return document.createTextNode(n.text);
    const e = document.createElement(n.tag);
    for (const [k, v] of Object.entries(n.attrs)) e.setAttribute(k, v);
    e.append(...n.kids.map(make));
    return e;
  };
  return blocks(text, { any: true }).flatMap((b) => b.nodes.map(make));
}

// ---- hostile --------------------------------------------------------------------------

// A text of this size takes a few seconds at most; a quadratic reading would not end
// within the test's own time limit.
test('hostile texts end', { timeout: 60000 }, () => {
  for (const s of ['`', '``a', '```js\n', '~~~a\n', '*', '**', '[', '[a](', '@', '> ', '- ', 'https://', '`a``', '`````````a ', '`\n', '_a ', '![', '~~a ', '|a', '<a ', '&amp', '\\', '$', '$a', '$$a\n', '\\(', '\\[', '\\[a\n', 'www.', 'www.a', 'a@', '[a]: b\n', '1. ']) {
    draw(s.repeat(15000));
    draw(`${s.repeat(8000)}\n\nend`, { live: true });
    draw(s.repeat(15000), { typed: true });
  }
});
