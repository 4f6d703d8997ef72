// Text from people and models, shown safely. parse() makes a small tree of what
// this page knows of Markdown (fenced code, headings, lists, quotes, code,
// emphasis, links, @mentions); everything else stays the text that it was.
// render() builds it from elements and text nodes alone: there is no way from a
// text to markup.

/** Blocks of a text: {type: p|h|code|list|quote|rule, ...}. */
export function parse(text) {
  const lines = String(text ?? '').replace(/\r\n?/g, '\n').split('\n');
  const blocks = [];
  let para = [];
  const flush = () => {
    while (para.length && !para[para.length - 1].trim()) para.pop();
    if (para.length) blocks.push({ type: 'p', inline: inline(para.join('\n')) });
    para = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const s = lines[i];
    let m;
    if ((m = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/.exec(s)) && !s.slice(m[0].length).includes('`')) {
      flush();
      const body = [];
      for (i++; i < lines.length && !isFence(lines[i], m[1]); i++) body.push(lines[i]);
      blocks.push({ type: 'code', lang: m[2], text: body.join('\n') });
    } else if (!s.trim()) {
      flush();
    } else if ((m = /^(#{1,6}) +(.+)$/.exec(s))) {
      flush();
      blocks.push({ type: 'h', level: m[1].length, inline: inline(m[2]) });
    } else if (/^ {0,3}(-{3,}|\*{3,}|_{3,}) *$/.test(s)) {
      flush();
      blocks.push({ type: 'rule' });
    } else if ((m = item(s)) && (para.length === 0 || !m.ordered || m.start === 1)) {
      flush();
      const ordered = m.ordered;
      const list = { type: 'list', ordered, start: m.start, items: [] };
      for (; i < lines.length; i++) {
        const next = item(lines[i]);
        if (next && next.ordered === ordered) list.items.push([next.text]);
        else if (/^\s+\S/.test(lines[i]) && list.items.length) list.items[list.items.length - 1].push(lines[i].trim());
        else break;
      }
      i--;
      list.items = list.items.map((parts) => inline(parts.join('\n')));
      blocks.push(list);
    } else if (/^ {0,3}> ?/.test(s)) {
      flush();
      const quoted = [];
      for (; i < lines.length && /^ {0,3}> ?/.test(lines[i]); i++) quoted.push(lines[i].replace(/^ {0,3}> ?/, ''));
      i--;
      blocks.push({ type: 'quote', inline: inline(quoted.join('\n')) });
    } else {
      para.push(s);
    }
  }
  flush();
  return blocks;
}

function isFence(line, open) {
  const t = line.trim();
  return t.length >= open.length && t === open[0].repeat(t.length);
}

function item(s) {
  let m = /^ {0,3}[-*+] +(\S.*)$/.exec(s);
  if (m) return { ordered: false, start: 1, text: m[1] };
  m = /^ {0,3}(\d{1,9})[.)] +(\S.*)$/.exec(s);
  return m ? { ordered: true, start: Number(m[1]), text: m[2] } : null;
}

// Each alternative starts with another character and ends at the first thing
// that fits within a bound; what does not fit is text. The end of code is looked
// for by codeSpan, which reads a text eight times at most, so the scan stays linear.
const TOKEN = /(`+)()|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\][\n]{1,500})\]\((https?:\/\/[^\s()<>]{1,2000}|mailto:[^\s()<>]{1,500})\)|(https?:\/\/[^\s<>"'`]{1,2000})|(?<![\p{L}\p{N}_@/.])@([\p{L}\p{N}_][\p{L}\p{N}_-]{0,63})/gu;

/** Inline pieces of a text: strings, and {type: code|strong|em|link|mention, ...}. */
export function inline(text, depth = 0) {
  const out = [];
  let at = 0;
  const push = (piece) => { if (piece !== '') out.push(piece); };
  const token = new RegExp(TOKEN);
  const budget = { left: 8 * text.length };
  for (let m; (m = token.exec(text));) {
    if (m[1] !== undefined) {
      const code = codeSpan(text, m.index, token.lastIndex, budget);
      if (!code) continue;
      push(text.slice(at, code.open));
      push({ type: 'code', text: text.slice(code.from, code.to) });
      at = token.lastIndex = code.end;
      continue;
    }
    push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[3] !== undefined) push({ type: 'strong', inline: depth < 4 ? inline(m[3], depth + 1) : [m[3]] });
    else if (m[4] !== undefined) push({ type: 'em', inline: depth < 4 ? inline(m[4], depth + 1) : [m[4]] });
    else if (m[5] !== undefined) push({ type: 'link', href: m[6], text: m[5] });
    else if (m[7] !== undefined) {
      const href = m[7].replace(/[.,;:!?)\]}]+$/, '');
      push({ type: 'link', href, text: href });
      push(m[7].slice(href.length));
    } else push({ type: 'mention', name: m[8] });
  }
  push(text.slice(at));
  return out;
}

const longestCode = 4002;

/**
 * The code that begins with backticks of a run, from start to end: as many of them
 * as another run has, 8 at most. null if there is none within the bounds.
 */
function codeSpan(text, start, end, budget) {
  const most = Math.min(8, end - start);
  const last = Math.min(text.length, end + longestCode);
  const closing = []; // by the length of the run: where the first of them is
  let at = end;
  for (; at <= last && budget.left > 0 && closing[most] === undefined; at++) {
    let n = 0;
    while (text[at + n] === '`') n++;
    if (n > 0 && n <= most && closing[n] === undefined) closing[n] = at;
    budget.left -= n + 1;
    at += n;
  }
  for (let n = most; n > 0; n--) {
    if (closing[n] !== undefined) return { open: end - n, from: end, to: closing[n], end: closing[n] + n };
  }
  return null;
}

/** Elements for a text, in a fragment. */
export function render(text, doc = document) {
  const out = doc.createDocumentFragment();
  for (const b of parse(text)) out.append(block(b, doc));
  return out;
}

/**
 * Makes el show a text. What was shown there before and is the same stays the same
 * elements, and a paragraph that goes on gets its words at its end: so what somebody
 * has marked in it stays marked.
 */
export function paint(el, text, doc = document) {
  const old = el.blocks || [];
  const now = parse(text);
  el.blocks = now;
  let i = 0;
  while (i < old.length && i < now.length && el.childNodes[i] && goesOn(el.childNodes[i], old[i], now[i])) i++;
  while (el.childNodes.length > i) el.lastChild.remove();
  for (; i < now.length; i++) el.append(block(now[i], doc));
}

function goesOn(node, was, is) {
  if (JSON.stringify(was) === JSON.stringify(is)) return true;
  if (was.type !== is.type) return false;
  const [box, before, after] = is.type === 'code' && was.lang === is.lang ? [node.querySelector('code'), was.text, is.text]
    : is.type === 'p' && was.inline.length === 1 && is.inline.length === 1 ? [node, was.inline[0], is.inline[0]] : [];
  if (!box || typeof before !== 'string' || typeof after !== 'string' || !before || !after.startsWith(before)) return false;
  box.firstChild.appendData(after.slice(before.length));
  return true;
}

function block(b, doc) {
  switch (b.type) {
    case 'code': {
      const box = el(doc, 'div', 'code');
      const head = el(doc, 'div', 'code-head');
      head.append(el(doc, 'span', '', b.lang || 'text'));
      const copy = el(doc, 'button', 'link-button', 'Copy');
      copy.type = 'button';
      copy.addEventListener('click', async () => {
        try { await navigator.clipboard.writeText(pre.textContent); copy.textContent = 'Copied'; } catch { copy.textContent = 'Copy failed'; }
        setTimeout(() => { copy.textContent = 'Copy'; }, 1600);
      });
      head.append(copy);
      const pre = el(doc, 'pre');
      pre.tabIndex = 0; // it scrolls sideways
      pre.append(el(doc, 'code', '', b.text));
      box.append(head, pre);
      return box;
    }
    case 'h': { const h = words(el(doc, 'p', `heading heading-${Math.min(b.level, 3)}`)); spans(h, b.inline, doc); return h; }
    case 'rule': return el(doc, 'hr');
    case 'quote': { const q = words(el(doc, 'blockquote')); spans(q, b.inline, doc); return q; }
    case 'list': {
      const list = words(el(doc, b.ordered ? 'ol' : 'ul'));
      if (b.ordered && b.start !== 1) list.start = b.start;
      for (const i of b.items) { const li = el(doc, 'li'); spans(li, i, doc); list.append(li); }
      return list;
    }
    default: { const p = words(el(doc, 'p')); spans(p, b.inline, doc); return p; }
  }
}

function spans(parent, pieces, doc) {
  for (const piece of pieces) {
    if (typeof piece === 'string') { parent.append(piece); continue; }
    switch (piece.type) {
      case 'code': parent.append(el(doc, 'code', '', piece.text)); break;
      case 'mention': parent.append(el(doc, 'span', 'mention', `@${piece.name}`)); break;
      case 'link': {
        const a = el(doc, 'a', '', piece.text);
        a.href = piece.href; // the pattern lets http, https and mailto through, nothing else
        a.target = '_blank';
        a.rel = 'noopener noreferrer nofollow';
        parent.append(a);
        break;
      }
      default: { const e = el(doc, piece.type); spans(e, piece.inline, doc); parent.append(e); }
    }
  }
}

// Each block is written in the direction of its own first letter.
function words(e) { e.dir = 'auto'; return e; }

function el(doc, tag, cls, text) {
  const e = doc.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
}
