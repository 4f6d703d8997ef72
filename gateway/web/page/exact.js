// JSON as the server wrote it. Arguments and results of calls are shown to people who
// decide by them: a number like 9007199254740993 must not lose a digit, and a member that
// is there twice must not be there once. So of these the text is kept, not a value.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const KEPT = /^(?:args|result)$/;

/** An object or a list as its text. */
export class Json {
  constructor(text) { this.text = text; }
  /** In an exported file: with all digits, where the browser can write them. */
  toJSON() { return JSON.parse(this.text, (_, v, at) => (typeof v === 'number' && at?.source && JSON.rawJSON ? JSON.rawJSON(at.source) : v)); }
  /** Whether the server hides it. */
  get redacted() { return this.text === '{"redacted":true}'; }
}

/** Like JSON.parse, with a Json for each object or list that is named args or result. */
export function exact(text) {
  if (!/"(?:args|result)"\s*:\s*[{[]/.test(text)) return JSON.parse(text);
  const mark = `kept ${Math.random()}${Math.random()} `;
  const kept = [];
  let out = '';
  let from = 0;              // up to here it is in out
  let [key, colon, depth, begin] = ['', false, 0, -1];
  for (const { 0: t, index } of text.matchAll(TOKEN)) {
    if (begin >= 0) {
      if (t === '{' || t === '[') depth++;
      if ((t === '}' || t === ']') && --depth === 0) {
        out += `${text.slice(from, begin)}"${mark}${kept.length}"`;
        from = index + 1;
        kept.push(text.slice(begin, from));
        begin = -1;
      }
      continue;
    }
    if (t === ':') { colon = true; continue; }
    if (colon && KEPT.test(key) && (t === '{' || t === '[')) [begin, depth] = [index, 1];
    colon = false;
    key = t[0] === '"' ? t.slice(1, -1) : '';
  }
  for (const k of kept) JSON.parse(k); // what is no JSON there is none here
  return JSON.parse(out + text.slice(from), (_, v) => (typeof v === 'string' && v.startsWith(mark) ? new Json(kept[v.slice(mark.length)]) : v));
}

/** JSON with a member a line. Numbers keep their digits, and a member that is there twice stays so. */
export function indented(text) {
  let out = '';
  let depth = 0;
  let was = '';
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [t] of text.matchAll(TOKEN)) {
    if (t === '}' || t === ']') {
      depth--;
      if (was !== '{' && was !== '[') out += line();
    } else if (was === '{' || was === '[') out += line();
    if (t === '{' || t === '[') depth++;
    out += t[0] === '"' ? JSON.stringify(JSON.parse(t)) : t; // é, not \u00e9
    if (t === ',') out += line();
    if (t === ':') out += ' ';
    was = t;
  }
  return out;
}

/** Arguments for people: JSON as it stands, or a text that is none. */
export function pretty(args) {
  const text = args instanceof Json ? args.text : typeof args === 'string' ? args : JSON.stringify(args ?? null);
  try { JSON.parse(text); } catch { return text; }
  return plain(indented(text));
}

// Characters that have no looks of their own, or turn others round, are written out:
// JSON means the same with them, and nobody approves what cannot be seen.
function plain(json) {
  return json.replace(/[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g,
    (c) => Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join(''));
}

/** What is wrong with arguments that a person typed; '' = nothing. They are sent as they were typed. */
export function wrongArguments(text) {
  try {
    const args = JSON.parse(text);
    if (args && typeof args === 'object' && !Array.isArray(args)) return '';
  } catch (err) { return `This is not valid JSON, nothing was sent. ${err.message}`; }
  return 'The arguments must be a JSON object, {…}. Nothing was sent.';
}
