// Text from people and models, shown safely: paint(element, text) draws it there, again
// and again while it grows. What did not change keeps its elements, and text that only
// grew its text nodes, so that a selection stays. Elements and text nodes alone are
// made: there is no way from a text to markup.
//
// What reads Markdown (grammar.js) and what colours code come later than the page's
// first paint. Until then a text is shown as it was written.

let grammar = null;
const early = new Set(); // WeakRefs of elements that were painted without it

let loading = null;

/**
 * Settled once texts are painted as Markdown. It begins with the first text, so that
 * nothing of it is in the way of the page and of the text itself.
 */
export function ready() {
  loading ??= import('./grammar.js').then((g) => {
    grammar = g;
    for (const ref of early) {
      const el = ref.deref();
      const s = el && states.get(el);
      if (s) draw(el, s, s.text, s.live);
    }
    early.clear();
  }, () => { loading = null; /* the text stays as it was written, until the next one */ });
  return loading;
}

const states = new WeakMap();

/**
 * Draws text into el, whose children are this module's own from then on.
 * live: more of the text is to come; what is half written at its end is held back.
 * typed: a person wrote it, who did not think of Markdown.
 */
export function paint(el, text, { live = false, typed = false } = {}) {
  let s = states.get(el);
  if (!s) {
    s = { text: null, live: false, typed, stable: '', kept: 0, references: {}, known: '', nodes: [] };
    states.set(el, s);
    if (!grammar) { early.add(new WeakRef(el)); ready(); }
  }
  const t = String(text ?? '').replace(/\r\n?/g, '\n');
  if (s.text === t && s.live === live) return;
  draw(el, s, t, live);
}

/** A new element with a text that does not grow. */
export function render(text, options = {}) {
  const box = document.createElement('div');
  box.className = 'text';
  paint(box, text, options);
  return box;
}

function draw(el, s, text, live) {
  s.text = text;
  s.live = live;
  let from = 0;
  let nodes;
  if (grammar && s.typed) nodes = grammar.typed(text);
  else if (s.typed) nodes = text.trim() ? [{ tag: 'p', attrs: { class: 'typed', dir: 'auto' }, kids: [{ text: text.replace(/^\n+|\s+$/g, '') }] }] : [];
  else if (!grammar) nodes = text.trim() ? text.trim().split(/\n{2,}/).map((p) => ({ tag: 'p', attrs: { dir: 'auto' }, kids: [{ text: p }] })) : [];
  else [from, nodes] = grow(s, text, live);
  patch(el, s.nodes, nodes, from);
  s.nodes.length = from;
  for (const n of nodes) s.nodes.push(n);
}

// What begins a text cannot change any more once another block follows it, except by an
// address that is named later. So only the end is read again: the block that the last
// whole line is part of, and what follows it. Gives the nodes from the first one that
// may be another, and its place.
function grow(s, text, live) {
  if (!text.startsWith(s.stable)) restart(s);
  let tail = text.slice(s.stable.length);
  let env = { live, references: Object.create(s.references) };
  let blocks = grammar.blocks(tail, env);
  const known = JSON.stringify([s.references, env.references]);
  if (known !== s.known && s.kept) {
    restart(s);
    tail = text;
    env = { live, references: {} };
    blocks = grammar.blocks(tail, env);
  }
  const from = s.kept;
  // The end of what stays: before the last block, or an earlier one if that could still
  // become part of what stands right above it.
  let last = blocks.length - 1;
  const lines = tail.split('\n').length - 1;
  const loose = (b, above) => b.at >= lines || (above.end >= b.at && (above.pure || b.unsure || lines - b.at < 3));
  while (last > 0 && loose(blocks[last], blocks[last - 1])) last--;
  if (last > 0) {
    for (const b of blocks.slice(0, last)) {
      for (const label of b.defines) if (!Object.hasOwn(s.references, label)) s.references[label] = env.references[label];
      s.kept += b.nodes.length;
    }
    s.stable += tail.slice(0, offset(tail, blocks[last].at));
  }
  const rest = {};
  for (const label of Object.keys(env.references)) if (!Object.hasOwn(s.references, label)) rest[label] = env.references[label];
  s.known = JSON.stringify([s.references, rest]);
  return [from, blocks.flatMap((b) => b.nodes)];
}

function restart(s) { Object.assign(s, { stable: '', kept: 0, references: {}, known: '' }); }

function offset(text, line) {
  let at = 0;
  for (; line > 0; line--) at = text.indexOf('\n', at) + 1;
  return at;
}

// ---- elements ------------------------------------------------------------------

// Makes the children of parent, from the given one on, those of next.
function patch(parent, old, next, from = 0) {
  const doc = parent.ownerDocument;
  for (let i = 0; i < next.length; i++) {
    const a = old[from + i];
    if (!a) parent.append(make(next[i], doc));
    else if (a.tag === next[i].tag) update(a, next[i]);
    else parent.replaceChild(make(next[i], doc), a.dom);
  }
  for (let i = from + next.length; i < old.length; i++) old[i].dom.remove();
}

function make(node, doc) {
  if (node.tag === undefined) return (node.dom = doc.createTextNode(node.text));
  const e = (node.dom = doc.createElement(node.tag));
  for (const [name, value] of Object.entries(node.attrs)) e.setAttribute(name, value);
  for (const k of node.kids) e.append(make(k, doc));
  if (node.tag === 'button') e.addEventListener('click', () => copy(e));
  if (node.lang !== undefined) codes.set(e, node);
  if (node.ready) colour(node);
  return e;
}

function update(a, b) {
  b.dom = a.dom;
  if (b.tag === undefined) { write(a, b); return; }
  for (const name of Object.keys(a.attrs)) if (!(name in b.attrs)) b.dom.removeAttribute(name);
  for (const [name, value] of Object.entries(b.attrs)) if (a.attrs[name] !== value) b.dom.setAttribute(name, value);
  if (b.lang === undefined && a.lang === undefined) { patch(b.dom, a.kids, b.kids); return; }
  codes.set(b.dom, b);
  // Code: colours stay for the same text, and go with it.
  if (a.coloured && a.kids[0].text === b.kids[0].text && a.lang === b.lang) {
    b.kids = a.kids;
    b.coloured = true;
    return;
  }
  if (a.coloured) b.dom.replaceChildren(make(b.kids[0], b.dom.ownerDocument));
  else patch(b.dom, a.kids, b.kids);
  if (b.ready) colour(b);
}

function write(a, b) {
  if (a.text === b.text) return;
  if (b.text.startsWith(a.text)) b.dom.appendData(b.text.slice(a.text.length));
  else b.dom.data = b.text;
}

// ---- code: copied, coloured ---------------------------------------------------------

let said = null; // tells screen readers

async function copy(button) {
  const doc = button.ownerDocument;
  const code = button.closest('.code').querySelector('code');
  let word = 'Copied';
  try { await navigator.clipboard.writeText(code.textContent); } catch {
    // Without a secure connection there is no clipboard but this one.
    const s = doc.getSelection();
    s.selectAllChildren(code);
    try { if (!doc.execCommand('copy')) word = 'Copy failed'; } catch { word = 'Copy failed'; }
    if (word === 'Copied') s.removeAllRanges();
  }
  if (!said?.isConnected) {
    said = doc.createElement('div');
    said.className = 'visually-hidden';
    said.setAttribute('role', 'status');
    doc.body.append(said);
  }
  said.textContent = '';
  button.firstChild.data = word;
  setTimeout(() => { said.textContent = word; }, 50); // a change after it was made is said
  setTimeout(() => { button.firstChild.data = 'Copy'; said.textContent = ''; }, 1600);
}

const PLAIN = new Set(['', 'text', 'txt', 'plain', 'plaintext']);
const LONGEST = 40000; // what is longer stays in one colour
let colours = null;
const codes = new WeakMap(); // element of a code -> the node that it shows now
const queue = new Set();     // elements that wait for their colours
let running = false;

// Colours a block of code when there is time. Blocks wait for their turn one by one; what
// is coloured then is what the element shows then, for the text may have grown meanwhile.
function colour(node) {
  if (PLAIN.has(node.lang) || node.kids[0].text.length > LONGEST || typeof requestAnimationFrame === 'undefined') return;
  queue.add(node.dom);
  if (running) return;
  running = true;
  colours ??= import('./colours.js');
  colours.then((c) => {
    const step = () => {
      const [e] = queue;
      if (!e) { running = false; return; }
      queue.delete(e);
      const n = codes.get(e);
      if (n.ready && !n.coloured && e.isConnected && e.textContent === n.kids[0].text && !selected(e)) {
        const made = c.coloured(n.kids[0].text, n.lang, e.ownerDocument);
        if (made) { e.replaceChildren(made); n.coloured = true; }
      }
      setTimeout(step);
    };
    step();
  }, () => { colours = null; queue.clear(); running = false; });
}

function selected(e) {
  const s = e.ownerDocument.getSelection();
  return s && !s.isCollapsed && s.containsNode(e, true);
}
