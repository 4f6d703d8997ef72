// What "parley-bench conform" starts to check this client: see docs/CLIENTS.md.
// In Node 20: parley-bench conform -- node --experimental-websocket clients/js/conform.mjs

import { createInterface } from 'node:readline';
import { connect } from './index.js';

if (!globalThis.WebSocket) {
  console.error('This Node has no WebSocket: node --experimental-websocket clients/js/conform.mjs');
  process.exit(2);
}
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const parley = connect(process.env.PARLEY_URL);
const acknowledged = (id) => [({ message }) => say({ sent: id, message }), (err) => say({ failed: id, code: err.code })];

parley.on('status', ({ state, code }) => {
  if (state === 'stopped' && code !== 1000) say({ stopped: code });
  if (state === 'waiting') say({ lost: code });
});
for await (const text of createInterface({ input: process.stdin })) {
  const told = JSON.parse(text);
  if (told.stop) break;
  if (told.follow) {
    const session = parley.session(told.follow);
    session.on('reset', ({ reason }) => say({ reset: session.id, reason }));
    session.on('event', ({ seq, type }) => say({ seq, type, session: session.id }));
  }
  if (told.send) parley.session(told.session).send(told.send, { id: told.id }).then(...acknowledged(told.id));
  if (told.answer) parley.session(told.session).answer(told.answer, told.text, { id: told.id }).then(...acknowledged(told.id));
}
parley.close();
process.exit(); // a socket of a server that is frozen would keep Node for a while
