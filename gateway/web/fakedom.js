// As much of the DOM as markdown.js needs, for tests that run without a browser. It
// counts what is made and changed.

export const counts = { made: 0, changed: 0 };

class FakeNode {
  constructor(doc) { this.ownerDocument = doc; this.parentNode = null; counts.made++; }
  remove() {
    if (!this.parentNode) return;
    counts.changed++;
    this.parentNode.childNodes.splice(this.parentNode.childNodes.indexOf(this), 1);
    this.parentNode = null;
  }
}

class FakeText extends FakeNode {
  constructor(doc, data) { super(doc); this.text = data; }
  get data() { return this.text; }
  set data(v) { counts.changed++; this.text = v; }
  get textContent() { return this.text; }
  appendData(more) { counts.changed++; this.text += more; }
}

class FakeElement extends FakeNode {
  constructor(doc, tag) { super(doc); this.tag = tag; this.attributes = new Map(); this.childNodes = []; }
  setAttribute(name, value) {
    if (/^on/i.test(name) || name === 'style') throw new Error(`${name} is made of a text`);
    this.attributes.set(name, String(value));
  }
  removeAttribute(name) { this.attributes.delete(name); }
  get textContent() { return this.childNodes.map((k) => k.textContent).join(''); }
  get isConnected() { return true; }
  get firstChild() { return this.childNodes[0] ?? null; }
  append(...nodes) {
    for (const node of nodes) {
      const n = typeof node === 'string' ? new FakeText(this.ownerDocument, node) : node;
      if (n.tag === '#fragment') { this.append(...n.childNodes); continue; }
      n.remove();
      n.parentNode = this;
      this.childNodes.push(n);
    }
  }
  replaceChild(fresh, old) {
    const at = this.childNodes.indexOf(old);
    if (at < 0) throw new Error('it is not a child');
    fresh.remove();
    counts.changed++;
    this.childNodes[at] = fresh;
    fresh.parentNode = this;
    old.parentNode = null;
  }
  replaceChildren(...nodes) {
    for (const k of [...this.childNodes]) k.remove();
    this.append(...nodes);
  }
  addEventListener() {}
}

export const document = {
  getSelection: () => null,
  createElement: (tag) => new FakeElement(document, tag),
  createTextNode: (data) => new FakeText(document, data),
  createDocumentFragment: () => new FakeElement(document, '#fragment'),
};

const escape = (s) => s.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
const EMPTY = new Set(['br', 'hr', 'img', 'input']);

/** The HTML of a node; view(node) may give another {tag, attributes, childNodes}, or null for none. */
export function html(node, view = (n) => n) {
  if (node.tag === undefined) return escape(node.textContent);
  const v = view(node);
  if (!v) return '';
  const within = () => [...v.childNodes].map((k) => html(k, view)).join('');
  if (v.tag === '#fragment') return within();
  const attrs = [...v.attributes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => ` ${name}="${escape(value)}"`).join('');
  return EMPTY.has(v.tag) ? `<${v.tag}${attrs}>` : `<${v.tag}${attrs}>${within()}</${v.tag}>`;
}
