// Colours for code, by highlight.js: what it finds becomes spans with its classes.

import hljs from './vendor/highlight.js';

// Collects what the library finds as a tree, in place of a string of HTML.
class Tree {
  constructor() { this.root = { kids: [] }; this.open = [this.root]; }
  addText(text) { if (text) this.open.at(-1).kids.push(text); }
  openNode(scope) { const n = { scope, kids: [] }; this.open.at(-1).kids.push(n); this.open.push(n); }
  closeNode() { if (this.open.length > 1) this.open.pop(); }
  startScope(scope) { this.openNode(scope); }
  endScope() { this.closeNode(); }
  __addSublanguage(other) { this.open.at(-1).kids.push(other.root); }
  finalize() { this.open.length = 1; }
  toHTML() { return ''; }
}
hljs.configure({ __emitter: Tree, throwUnescapedHTML: false });

/** Spans of a code, in a fragment; null if its language is not known here. */
export function coloured(text, lang, doc) {
  if (!hljs.getLanguage(lang)) return null;
  const into = (parent, kids) => {
    for (const k of kids) {
      if (typeof k === 'string') { parent.append(k); continue; }
      if (!k.scope) { into(parent, k.kids); continue; }
      const e = doc.createElement('span');
      e.className = `hl-${k.scope.split('.')[0]}`;
      into(e, k.kids);
      parent.append(e);
    }
    return parent;
  };
  return into(doc.createDocumentFragment(), hljs.highlight(text, { language: lang, ignoreIllegals: true })._emitter.root.kids);
}
