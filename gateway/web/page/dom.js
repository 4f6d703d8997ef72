// Small helpers for the DOM. Texts enter by textContent or as text nodes only.

/** An element: h('button', {class: 'x', onclick: f, 'aria-label': 'y'}, child, ...). */
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') e.className = value;
    else if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name in e && typeof value !== 'string') e[name] = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c);
  return e;
}

const SVG = 'http://www.w3.org/2000/svg';
const PATHS = {
  send: 'M12 19V5M6 11l6-6 6 6', stop: 'M7 7h10v10H7z', plus: 'M12 5v14M5 12h14', menu: 'M4 7h16M4 12h16M4 17h16',
  up: 'M12 18V6M7 11l5-5 5 5', edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4', x: 'M6 6l12 12M18 6L6 18', down: 'M6 9l6 6 6-6',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
  moon: 'M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z', auto: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18', tasks: 'M4 6h2M10 6h10M4 12h2M10 12h10M4 18h2M10 18h10',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1', again: 'M4 12a8 8 0 1 1 2.5 5.8M4 20v-5h5', reply: 'M9 8L4 12l5 4M4 12h9a6 6 0 0 1 6 6', save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  settings: 'M4 7h10M18 7h2M16 5v4M4 12h2M10 12h10M8 10v4M4 17h8M16 17h4M14 15v4',
  clear: 'M4 12h16M8 6h8M8 18h8', pin: 'M9 4h6l-1 6 4 4H6l4-4zM12 14v6', archive: 'M4 5h16v4H4zM6 9v10h12V9M10 13h4', bell: 'M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10.500 20h3', bellOff: 'M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10.500 20h3M4 4l16 16', keys: 'M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8',
  clip: 'M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.300 3.300 0 0 1 4.700 4.700L9.500 17a1.600 1.600 0 0 1-2.300-2.300L15 7', file: 'M6 3h8l4 4v14H6zM14 3v5h4M9 13h6M9 17h6',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13', back: 'M15 5l-7 7 7 7', search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4.5 4.5', more: 'M6 12h.01M12 12h.01M18 12h.01',
};

/** A line icon; it says nothing to screen readers, its button has the label. */
export function icon(name) {
  if (!icons.has(name)) icons.set(name, drawn(name));
  return icons.get(name).cloneNode(true);
}

const icons = new Map(); // a copy costs less than one made of its attributes

function drawn(name) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [k, v] of Object.entries({ viewBox: '0 0 24 24', width: '18', height: '18', fill: 'none', stroke: 'currentColor', 'stroke-width': name === 'more' ? '3' : '2', 'stroke-linecap': 'round', 'stroke-linejoin': 'round', 'aria-hidden': 'true' })) svg.setAttribute(k, v);
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

export function iconButton(name, label, onclick, cls = '') {
  return h('button', { type: 'button', class: `icon-button ${cls}`, 'aria-label': label, title: label, onclick }, icon(name));
}

/**
 * Makes the children of parent those of items, keeping elements of keys that stay
 * and moving as few as possible: who is moved loses focus and selection.
 */
export function reconcile(parent, items, cache, key, build, patch) {
  const live = new Set(items.map(key));
  for (const [k, entry] of cache) {
    if (!live.has(k)) { entry.el.remove(); cache.delete(k); }
  }
  let cursor = parent.firstChild;
  for (const it of items) {
    const k = key(it);
    let entry = cache.get(k);
    if (entry && entry.item !== it) {
      if (!patch?.(entry.el, it, entry.item)) {
        const fresh = build(it);
        if (cursor === entry.el) cursor = fresh;
        entry.el.replaceWith(fresh);
        entry.el = fresh;
      }
      entry.item = it;
    } else if (!entry) {
      entry = { el: build(it), item: it };
      cache.set(k, entry);
    }
    if (cursor === entry.el) cursor = cursor.nextSibling;
    else if (cursor && cursor.nextSibling === entry.el) cursor = entry.el.nextSibling; // the one before it goes to a later place
    else parent.insertBefore(entry.el, cursor);
  }
}

let tray;

/** A notice that goes away by itself; errors stay longer and name their request. */
export function toast(text, { tone = 'info', where = '', ms } = {}) {
  tray ??= document.getElementById('toasts');
  const close = iconButton('x', 'Dismiss', () => box.remove(), 'small');
  const box = h('div', { class: `toast ${tone}`, role: tone === 'bad' ? 'alert' : 'status' },
    h('div', {}, h('p', {}, text), where ? h('p', { class: 'where' }, `Request ${where}`) : null), close);
  tray.append(box);
  while (tray.children.length > 4) tray.firstChild.remove();
  setTimeout(() => box.remove(), ms || (tone === 'bad' ? 12000 : 5000));
}

/** Shows what went wrong in words a person can use. */
export function complain(what, err) {
  const why = String(err?.message || 'Something went wrong.');
  toast(`${what} ${why[0].toUpperCase()}${why.slice(1)}`.trim(), { tone: 'bad', where: err?.where });
}

// One formatter for each way to write a time: to make it costs more than the rest of a row's words.
const formatters = new Map();
function written(t, locale, options) {
  const way = JSON.stringify([locale, options]);
  if (!formatters.has(way)) formatters.set(way, new Intl.DateTimeFormat(locale, options));
  return formatters.get(way).format(t);
}
const WHOLE = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' };

/** When it was, in short: today the time of day, else the day before it, and the year of another one. */
export function stamp(ts, now = Date.now(), locale = []) {
  const [t, today] = [new Date(ts), new Date(now)];
  if (!ts || Number.isNaN(t.getTime())) return '';
  const hour = written(t, locale, { hour: '2-digit', minute: '2-digit' });
  if (today.toDateString() === t.toDateString()) return hour;
  const year = t.getFullYear() === today.getFullYear() ? {} : { year: 'numeric' };
  return `${written(t, locale, { day: 'numeric', month: 'short', ...year })}, ${hour}`;
}

/** The same as an element, with the whole time as a title. */
export function time(ts) {
  const text = stamp(ts);
  return text ? h('time', { datetime: ts, title: written(new Date(ts), [], WHOLE) }, text) : h('time');
}

/** The time of day, to the second. */
export function clock(ts) {
  const t = new Date(ts);
  return Number.isNaN(t.getTime()) ? '' : t.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
}

/** 950 -> "0.9 s", 65000 -> "1 min 5 s". */
export function duration(ms) {
  if (!(ms >= 0)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** A random id that the server can recognise a retry by. */
export function newID() {
  const b = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');
}
