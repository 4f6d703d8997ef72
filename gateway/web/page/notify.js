// Calls a person who looks elsewhere: a dot on the tab's icon, a number on the
// app's icon, and notifications where they were asked for.

import { entries, onChange, onList } from './list.js';
import { news, waiting } from './listing.js';
import { calls } from './settings.js';
import { state } from './state.js';

// ---- the icons ---------------------------------------------------------------

const link = document.querySelector('link[rel="icon"]');
const plain = link.href;
let dotted = '';
async function dot(on) {
  if (on && !dotted) {
    try {
      const svg = await (await fetch(plain)).text();
      dotted = `data:image/svg+xml,${encodeURIComponent(svg.replace('</svg>', '<circle cx="25" cy="7" r="6.500" fill="#d2691e" stroke="#fff" stroke-width="1.500"/></svg>'))}`;
    } catch { return; } // without it the number in the title says the same
  }
  const href = on && shown > 0 ? dotted : plain;
  if (link.href !== href) link.href = href;
}

let shown = 0;
function count() {
  const n = waiting(entries.values());
  if (n === shown) return;
  shown = n;
  dot(n > 0);
  (n ? navigator.setAppBadge?.(n) : navigator.clearAppBadge?.())?.catch?.(() => {}); // not installed as an app
}
onList(count);
count(); // the list may have been drawn before this was there

// ---- notifications -----------------------------------------------------------

const open = new Map(); // session -> its notification
const WORDS = { awaiting: 'waits for your answer', finished: 'is finished' };
const visible = (id) => document.visibilityState === 'visible' && state.view?.session.split('/')[0] === id && !state.tasks.visible;

onChange((before, after) => {
  const what = news(before, after);
  if (!what || !calls() || after.archived || visible(after.id)) return;
  try {
    const n = new Notification(after.title || 'Untitled conversation', { body: `This conversation ${WORDS[what]}.`, tag: `parley:${after.id}`, icon: plain });
    n.onclick = () => { focus(); location.hash = `#/s/${encodeURIComponent(after.id)}`; n.close(); };
    n.onclose = () => { if (open.get(after.id) === n) open.delete(after.id); };
    open.set(after.id, n);
  } catch { /* some browsers have them for installed apps only */ }
});

// Who looks needs no call any more.
function seen() { for (const [id, n] of open) if (visible(id)) n.close(); }
document.addEventListener('visibilitychange', seen);
addEventListener('hashchange', () => setTimeout(seen));
