// What the parts of the page share: where things are, and what is open.

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

/** What the page knows now. Every part reads it; who changes it is said here. */
export const state = {
  hello: null,          // the server's answer to hello (app.js)
  view: null,           // the conversation that is open (routes.js, view.js, sending.js)
  chat: null,           // its rows on the screen (app.js)
  tasks: null,          // the tasks view (routes.js)
  views: new Map(),     // the conversations that were open lately
  drafts: new Map(),    // texts that were typed and not sent
  watched: new Set(),   // sessions followed only for hints
  unclear: false,       // the connection was lost; say how it came back
};

/** Reads or writes a value of this tab or this browser; without storage the page works, too. */
export function stored(kind, key, value) {
  try {
    const s = kind === 'tab' ? sessionStorage : localStorage;
    if (value === undefined) return s.getItem(key) || '';
    if (value === '') s.removeItem(key); else s.setItem(key, value);
  } catch { /* private mode */ }
  return '';
}

/** What this tab has under keys that begin so: [[the rest of the key, text]]. */
export function storedWith(prefix) {
  try { return Object.entries(sessionStorage).filter(([key]) => key.startsWith(prefix)).map(([key, text]) => [key.slice(prefix.length), text]); } catch { return []; /* private mode */ }
}
