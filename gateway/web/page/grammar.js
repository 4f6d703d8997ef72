// Markdown as models write it: CommonMark with GitHub's tables, task lists,
// strikethrough and addresses, formulas and mentions, read by markdown-it. What comes
// out is a tree of plain objects, which markdown.js makes elements of; HTML in a text
// stays text. This file and the library come after the page's first paint.

import MarkdownIt from './vendor/markdown-it.js';

const md = new MarkdownIt({ html: false, linkify: true, typographer: false });
md.validateLink = () => true; // linkTo decides, where the element is made
md.core.ruler.disable('strip_references'); // blocks() has to know where they stand

// As GitHub does: http, https, www. and mail addresses become links by themselves, and
// README.md does not.
md.linkify.set({ fuzzyLink: false, fuzzyEmail: true, fuzzyIP: false });
for (const none of ['ftp:', '//']) md.linkify.add(none, null);
const WWW = /[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}_-]{1,63}){1,9}(?::\d{1,5})?(?:[/?#][^\s<>"`]{0,2000})?/uy;
md.linkify.add('www.', {
  validate(text, pos) {
    WWW.lastIndex = pos;
    const found = WWW.exec(text)?.[0] || '';
    let n = found.replace(/&[a-z0-9]+;$/i, '').replace(/[.,;:!?'*_~]+$/, '').length;
    while (n && found[n - 1] === ')' && found.slice(0, n).split('(').length < found.slice(0, n).split(')').length) n--;
    return n;
  },
  normalize(match) { match.url = `http://${match.url}`; },
});

// ---- formulas ----------------------------------------------------------------

const DOLLARS = /\$\$((?:[^$\\]|\\[^]){1,2000}?)\$\$/y;
const DOLLAR = /\$(?![\s$])((?:[^$\\\n`]|\\[^\n]){0,500}?[^$\\\s`])\$(?![\p{L}\p{N}$])/uy;
const MONEY = /^\d(?=.*\s)[^=+*/^_\\<>{}]*$/; // $5 and 10$
const WORD = /[\p{L}\p{N}$\\]/u;

md.inline.ruler.before('escape', 'formula', (state, silent) => {
  const { src, pos } = state;
  let text = '';
  let end = pos;
  if (src[pos] === '$') {
    if (pos > 0 && WORD.test(src[pos - 1])) return false;
    for (const pattern of [DOLLARS, DOLLAR]) {
      pattern.lastIndex = pos;
      const m = pattern.exec(src);
      if (m && !MONEY.test(m[1])) { text = m[1]; end = pattern.lastIndex; break; }
    }
  } else if (src[pos] === '\\' && (src[pos + 1] === '(' || src[pos + 1] === '[')) {
    const within = src.slice(pos + 2, pos + 2002);
    const n = within.indexOf(src[pos + 1] === '(' ? '\\)' : '\\]');
    if (n > 0) { text = within.slice(0, n); end = pos + n + 4; }
  }
  if (!text.trim() || end > state.posMax) return false;
  if (!silent) state.push('formula', '', 0).content = text.trim();
  state.pos = end;
  return true;
});

const LONGEST = 200; // lines of a formula

md.block.ruler.before('fence', 'formula', (state, start, last, silent) => {
  const line = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]).trimEnd();
  if (state.sCount[start] - state.blkIndent >= 4) return false;
  const first = line(start);
  const close = first.startsWith('$$') ? '$$' : first.startsWith('\\[') ? '\\]' : '';
  if (!close) return false;
  const body = [];
  let ended = false;
  let n = start;
  for (; ; n++) {
    if (n > start && first.length > 2) return false; // it began in a line: so it ends in one, or in its paragraph
    if (n === last) break; // not ended yet
    if (n > start && (state.isEmpty(n) || state.sCount[n] < state.blkIndent) || n - start > LONGEST) return false;
    const text = n === start ? first.slice(2) : line(n);
    const at = text.indexOf(close);
    if (at < 0) { body.push(text); continue; }
    if (at + 2 < text.length) return false; // more follows: it stands within a line
    body.push(text.slice(0, -2));
    ended = true;
    n++;
    break;
  }
  const text = body.join('\n').trim();
  if (!text && ended) return false;
  if (silent) return true;
  const token = state.push('formula_block', '', 0);
  token.content = text;
  token.map = [start, n];
  token.meta = { ended };
  state.line = n;
  return true;
}, { alt: ['paragraph', 'reference', 'blockquote', 'list'] });

// ---- mentions ----------------------------------------------------------------

const NAME = /@([\p{L}\p{N}_][\p{L}\p{N}_-]{0,63})/uy;

md.inline.ruler.before('escape', 'mention', (state, silent) => {
  const { src, pos } = state;
  if (src[pos] !== '@' || (pos > 0 && /[\p{L}\p{N}_@/.+-]/u.test(src[pos - 1]))) return false;
  NAME.lastIndex = pos;
  const m = NAME.exec(src);
  if (!m || NAME.lastIndex > state.posMax) return false;
  if (!silent) state.push('mention', '', 0).content = m[0];
  state.pos = NAME.lastIndex;
  return true;
});

// ---- between blocks and what is in them -----------------------------------------

md.core.ruler.after('block', 'tasks', (state) => {
  state.tokens.forEach((t, i) => {
    const inner = state.tokens[i + 2];
    if (t.type !== 'list_item_open' || inner?.type !== 'inline') return;
    const m = /^\[([ xX])\][ \t]+(?=\S)/.exec(inner.content);
    if (!m) return;
    inner.content = inner.content.slice(m[0].length);
    t.meta = inner.meta = { done: m[1] !== ' ' };
  });
});

// What is half written at the end of a draft is shown as what it is about to be.
md.core.ruler.after('tasks', 'half', (state) => {
  if (!state.env.live) return;
  const last = state.tokens.findLast((t) => t.nesting >= 0);
  const placed = state.tokens.findLast((t) => t.map); // a cell of a table has its place from its row
  if (last?.type !== 'inline' || placed.map[1] < state.src.replace(/\n$/, '').split('\n').length) return;
  last.content = whole(last.content);
});

function whole(text) {
  const at = Math.max(0, text.length - 4000);
  let s = text.slice(at);
  // The head of a table, before the line below it says that it is one.
  s = s.replace(/(^|\n)\|[^\n]*(\n[|: -]*)?$/, '');
  s = s.replace(/(\p{Z}|^)[*_~]+$/u, '$1').replace(/!?\[([^\][\n]{0,300})\]\([^\s()]{0,2000}$/, '$1').replace(/!?\[([^\][\n]{0,300})$/, '$1');
  const ticks = s.match(/`+/g) || [];
  if (ticks.length % 2) return text.slice(0, at) + (s.endsWith('`') ? s.replace(/`+$/, '') : s + ticks.at(-1));
  const code = s.replace(/(`+)[^`]*\1/g, (m) => 'x'.repeat(m.length));
  for (const mark of ['**', '~~']) {
    if ((code.split(mark).length - 1) % 2 === 0) continue;
    const half = s.endsWith(mark[0]) && !s.endsWith(mark); // the first half of the mark that ends it
    s = s.endsWith(mark) ? s.slice(0, -2) : s.trimEnd() + (half ? mark[0] : mark);
  }
  return text.slice(0, at) + s;
}

// A line that so far has only the marks of a block could still become any other one.
const MARKS = /(^|\n)[ \t]*(?:[-=+*_~`#>|]+|\d{1,2}|\d{1,9}[.)]|[-+*] +\[[ xX]?\]?)[ \t]*$/;

// ---- the tree ------------------------------------------------------------------

const el = (tag, attrs = {}, ...kids) => ({ tag, attrs, kids });
const leaf = (text) => ({ text });

function say(kids, text) {
  const last = kids.at(-1);
  if (last && last.tag === undefined) last.text += text;
  else if (text) kids.push(leaf(text));
}

/** The address if a link may lead there, else ''. */
export function linkTo(href) { return /^(?:https?:|mailto:)/i.test(href) ? href : ''; }

const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;

function link(href, title, kids, env) {
  const to = env.any ? href : linkTo(href);
  if (!to && !env.any) return kids;
  return [el('a', { href: to, ...(title && { title }), rel: 'noopener noreferrer nofollow', target: '_blank' }, ...kids)];
}

const BREAK = /<br *\/?>/i; // a cell has no other way to have lines

function inline(tokens, env) {
  let kids = [];
  const open = [];
  for (const t of tokens || []) {
    switch (t.type) {
      case 'text': case 'text_special':
        if (env.cell) t.content.split(BREAK).forEach((s, i) => { if (i) kids.push(el('br')); say(kids, s); });
        else say(kids, t.content);
        break;
      case 'softbreak': say(kids, '\n'); break;
      case 'hardbreak': kids.push(el('br')); break;
      case 'code_inline': kids.push(el('code', {}, leaf(t.content))); break;
      case 'formula': kids.push(el('span', { class: 'math', dir: 'ltr' }, leaf(t.content))); break;
      case 'mention': kids.push(el('span', { class: 'mention' }, leaf(t.content))); break;
      case 'image': {
        const src = t.attrGet('src');
        const alt = plain(t.children);
        if (env.any || PICTURE.test(src)) kids.push(el('img', { src, alt, ...(t.attrGet('title') && { title: t.attrGet('title') }) }));
        else for (const k of link(src, t.attrGet('title'), [leaf(alt || src)], env)) if (k.tag) kids.push(k); else say(kids, k.text);
        break;
      }
      default:
        if (t.nesting > 0) { open.push([t, kids]); kids = []; }
        else if (t.nesting < 0 && open.length) {
          const [o, before] = open.pop();
          const made = o.type === 'link_open' ? link(o.attrGet('href'), o.attrGet('title'), kids, env) : [el(o.type === 's_open' ? 'del' : o.tag, {}, ...kids)];
          kids = before;
          for (const k of made) if (k.tag) kids.push(k); else say(kids, k.text);
        } else say(kids, t.content);
    }
  }
  return kids;
}

const plain = (tokens) => (tokens || []).map((t) => (t.type === 'image' ? plain(t.children) : t.type === 'softbreak' || t.type === 'hardbreak' ? '\n' : t.content)).join('');

function code(t, env) {
  const info = t.type === 'fence' ? md.utils.unescapeAll(t.info).trim() : '';
  const lang = info.split(/\s+/)[0];
  const text = t.content.replace(/\n$/, '');
  return codeBlock(lang, text, !env.live || t.type !== 'fence' || closed(t, env));
}

// ready: all of it is there.
function codeBlock(lang, text, ready) {
  return el('div', { class: 'code', dir: 'ltr' },
    el('div', { class: 'code-head' }, el('span', {}, leaf(lang || 'text')), el('button', { type: 'button', class: 'link-button copy' }, leaf('Copy'))),
    el('pre', { tabindex: '0', role: 'group', 'aria-label': lang ? `Code, ${lang}` : 'Code' },
      { ...el('code', {}, leaf(text)), lang, ready }));
}

const CLOSE = /^[\s>]*(`{3,}|~{3,})[ \t]*$/;

// Whether a fenced block has come to its closing line: its last line is one, and is not
// part of the code. A line without an end of its own counts as one of the code.
function closed(t, env) {
  const inside = t.content && t.content.replace(/\n$/, '').split('\n').length;
  return t.map[1] - t.map[0] > 1 + inside && CLOSE.test(env.lines[t.map[1] - 1]);
}

// Elements that a block token opens; null is none of its own.
function opened(t, top) {
  const auto = top ? { dir: 'auto' } : {};
  switch (t.type) {
    case 'paragraph_open': return t.hidden ? null : el('p', auto);
    case 'heading_open': {
      const level = Number(t.tag[1]); // the page itself has h1 and h2
      return el(`h${Math.min(6, level + 2)}`, { ...auto, class: `heading heading-${level}`, ...(level > 4 && { 'aria-level': String(level + 2) }) });
    }
    case 'ordered_list_open': return el('ol', { ...auto, ...(t.attrGet('start') !== null && { start: String(t.attrGet('start')) }) });
    case 'list_item_open': return el('li', t.meta ? { class: 'task' } : {});
    case 'table_open': return el('table', {});
    case 'th_open': case 'td_open': {
      const align = /text-align:(left|right|center)/.exec(t.attrGet('style') || '')?.[1];
      return el(t.tag, { dir: 'auto', ...(t.tag === 'th' && { scope: 'col' }), ...(align && { 'data-align': align }) });
    }
    default: return el(t.tag, t.tag === 'ul' || t.tag === 'blockquote' ? auto : {});
  }
}

// A list says how much room its longest number needs, if that is more than usual.
function widen({ tag, attrs, kids }) {
  const digits = tag === 'ol' ? String(Number(attrs.start ?? 1) + kids.length - 1).length : 0;
  if (digits > 2) attrs['data-wide'] = digits < 5 ? String(digits) : 'more';
}

function build(tokens, env) {
  const root = el('root');
  const open = [root];
  for (const t of tokens) {
    const into = open.at(-1);
    switch (t.type) {
      case 'reference_definition': break;
      case 'inline': {
        const kids = inline(t.children, into.tag === 'td' || into.tag === 'th' ? { ...env, cell: true } : env);
        if (t.meta) into.kids.push(el('input', { type: 'checkbox', disabled: '', ...(t.meta.done && { checked: '' }), 'aria-label': t.meta.done ? 'Done' : 'To do' }), leaf(' '));
        for (const k of kids) if (k.tag) into.kids.push(k); else say(into.kids, k.text);
        break;
      }
      case 'fence': case 'code_block': into.kids.push(code(t, env)); break;
      case 'formula_block': into.kids.push(el('div', { class: 'math', dir: 'ltr', tabindex: '0', role: 'group', 'aria-label': 'Formula' }, leaf(t.content))); break;
      case 'hr': into.kids.push(el('hr')); break;
      default:
        if (t.nesting > 0) {
          const e = opened(t, open.length === 1);
          if (!e) { open.push(into); break; }
          into.kids.push(t.type === 'table_open' ? el('div', { class: 'table', role: 'group', tabindex: '0', 'aria-label': 'Table' }, e) : e);
          open.push(e);
        } else if (t.nesting < 0) widen(open.pop());
    }
  }
  return root.kids;
}

// ---- what a person typed ---------------------------------------------------------

const OPEN = /^(`{3,}|~{3,})(?![`~])[ \t]*([^\s`]*)[^`]*$/;
const CLOSED = /^(`{3,}|~{3,})[ \t]*$/;

/**
 * A text as it was typed: each character stands where it stood. Addresses are links, and
 * what stands between fences is code.
 */
export function typed(text) {
  const out = [];
  const lines = text.split('\n');
  const unclosed = { '`': Infinity, '~': Infinity }; // so long a fence, and a longer one, has no end
  let from = 0;
  const say = (to) => {
    const plain = lines.slice(from, to).join('\n').replace(/^\n+|\s+$/g, '');
    if (plain) out.push(el('p', { class: 'typed', dir: 'auto' }, ...linked(plain)));
  };
  for (let i = 0; i < lines.length; i++) {
    const [, fence, lang] = OPEN.exec(lines[i]) || [];
    if (!fence || fence.length >= unclosed[fence[0]]) continue;
    let end = i + 1;
    while (end < lines.length && !CLOSED.exec(lines[end])?.[1].startsWith(fence)) end++;
    if (end === lines.length) { unclosed[fence[0]] = fence.length; continue; }
    say(i);
    out.push(codeBlock(lang, lines.slice(i + 1, end).join('\n'), true));
    from = (i = end) + 1;
  }
  say(lines.length);
  return out;
}

function linked(text) {
  const kids = [];
  let at = 0;
  for (const m of md.linkify.match(text) || []) {
    say(kids, text.slice(at, m.index));
    for (const k of link(m.url, '', [leaf(m.raw)], {})) if (k.tag) kids.push(k); else say(kids, k.text);
    at = m.lastIndex;
  }
  say(kids, text.slice(at));
  return kids;
}

/**
 * The blocks of a text, each {at: line, end: line, pure, unsure, defines: [label], nodes:
 * [node]}: pure is an address alone, unsure what may become part of the block before;
 * env.references has the addresses that are named elsewhere, and takes more. A node is
 * {text} or {tag, attrs, kids}. live: the text is not at its end yet.
 */
export function blocks(text, env = {}) {
  const src = env.live ? text.replace(MARKS, '$1') : text;
  const tokens = md.parse(src, env);
  const lines = src.split('\n');
  const out = [];
  for (let i = 0; i < tokens.length; i++) {
    const from = i;
    if (tokens[i].nesting > 0) {
      for (let depth = 1; depth > 0;) depth += tokens[++i].nesting;
    }
    const group = tokens.slice(from, i + 1);
    out.push({
      at: group[0].map[0], end: group[0].map[1], pure: group[0].type === 'reference_definition', unsure: group[0].meta?.ended === false,
      defines: group.filter((t) => t.type === 'reference_definition').map((t) => t.meta.label),
      nodes: build(group, { ...env, lines }),
    });
  }
  return out;
}
