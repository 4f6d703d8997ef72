// Wires the parts of the page: what the server tells goes to who wants to hear
// it, and what the browser tells (address, visibility, keys) likewise.

import { actions } from './actions.js';
import { banner, client, handlers } from './connection.js';
import { duration, h, icon, toast } from './dom.js';
import { gone } from './gone.js';
import './keys.js';
import { later } from './lazy.js';
import { drawList, entryFor, isLive, listHint, watchList } from './list.js';
import { ready } from './markdown.js';
import { box } from './messagebox.js';
import { Conversation } from './render.js';
import { route, startNew } from './routes.js';
import { giveUpSending, isAnyWaiting, sendAll } from './sending.js';
import './bar.js';
import './settings.js';
import './starters.js';
import { $, state } from './state.js';
import { working } from './store.js';
import { resume } from './uploads.js';
import { apply, flush, fresh, markSeen, onPaint, paint, push } from './view.js';

const { watched } = state;

state.chat = new Conversation({
  scroller: $('scroller'), log: $('log'), spoken: $('spoken'), activity: $('activity'), working: $('working'), workingText: $('working-text'),
  tray: $('tray'), typing: $('typing'), older: $('older'), jump: $('jump'), jumpText: $('jump-text'),
}, actions);

// ---- what the server tells ---------------------------------------------------

const TASK_HINTS = new Set(['task_status', 'response', 'partial_response', 'question']);

const said = handlers.status;
Object.assign(handlers, {
  status(s) {
    said(s);
    drawList(); // what waits to be sent is marked there
  },
  hello(data) {
    state.hello = data;
    resume();
    $('demo').hidden = data.model !== 'scripted';
    if (state.view) state.view = { ...state.view, me: data.user };
    route();
    sendAll();
    watchList();
  },
  followed({ session, data, resumed }) {
    if (watched.has(session) && state.view?.session !== session) { state.tasks.hint(); return; }
    push({ type: resumed ? '@resumed' : '@followed', session, data });
    if (state.unclear && state.view?.session === session) {
      state.unclear = false;
      banner(resumed ? 'Back online. Nothing was missed.' : 'Back online. The conversation was loaded again.', 'good', 3500);
    }
    flush();
  },
  unfollowed({ session, error }) {
    if (state.view?.session !== session) return;
    apply({ type: 'gone', session, data: { reason: error.code === 'not_found' ? 'This conversation does not exist, or it was erased.' : error.message } });
    if (error.code === 'not_found') gone(session);
    paint();
  },
  frame(f) {
    listHint(f);
    if (TASK_HINTS.has(f.type)) state.tasks.hint();
    if (f.type === 'gone') gone(f.session, entryFor(f.session)?.title);
    if (state.view?.session === f.session) push(f);
  },
  given_up: giveUpSending,
});

// ---- what the browser tells --------------------------------------------------

$('jump').prepend(icon('down'));
$('tasks-link').append(icon('tasks'), 'Tasks');
$('new').prepend(icon('plus'));
$('new').addEventListener('click', startNew);
$('skip').addEventListener('click', () => box.focus());

$('search').addEventListener('focus', () => later().catch(() => {}), { once: true });

// Once it can be answered: what reads Markdown, and then the rest of the page.
let complete = false;
onPaint((view) => {
  if (complete || !state.hello || !(fresh(view) || view?.synced)) return;
  complete = true;
  setTimeout(() => ready().then(later).catch(() => { complete = false; }));
});

// A file that is dropped beside its place must not take the page's place.
for (const type of ['dragover', 'drop']) {
  addEventListener(type, (e) => {
    if (e.defaultPrevented || !e.dataTransfer?.types.includes('Files')) return;
    e.preventDefault();
    e.dataTransfer.dropEffect = 'none';
  });
}

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState !== 'visible') return;
  client.probe();
  markSeen();
});
// A reload keeps what was not sent, but a page that is closed does not.
addEventListener('beforeunload', (e) => { if (!client.open && isAnyWaiting()) e.preventDefault(); });
addEventListener('online', () => client.probe());
addEventListener('hashchange', () => { if (state.hello) route(); });
// Without it the browser would keep the socket half open until it times out.
addEventListener('pagehide', () => client.drop());
addEventListener('pageshow', (e) => { if (e.persisted) client.start(); });

// Where durations run, they run on the screen too.
setInterval(() => {
  const w = state.view && working(state.view);
  const since = w && Date.parse(w.since);
  const e = $('working').querySelector('.elapsed') || $('working').appendChild(h('span', { class: 'elapsed', 'aria-hidden': 'true' }));
  const ms = Date.now() - since;
  e.textContent = since && ms >= 3000 ? duration(Math.floor(ms / 1000) * 1000) : '';
}, 1000);

paint();
client.start();

// For tests in a browser: of the page that runs there is this file alone.
export { handlers, isLive, paint, state, toast };
