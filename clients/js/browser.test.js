// The modules where nothing is of Node: a context that has only what browsers have too.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// Only that may be used: no process, Buffer, require, setImmediate.
const program = `
import { readFile } from 'node:fs/promises';
import vm from 'node:vm';
class WebSocket {
  constructor(url) { this.url = url; setTimeout(() => this.onopen()); }
  send(text) {
    const { type, id } = JSON.parse(text);
    const answers = [{ type: 'ok', re: id, data: type === 'send' ? { message: 'm1', seq: 1 } : { user: 'ann', heartbeat_ms: 25000, log: 'l', resumed: true } }];
    if (type === 'send') answers.push({ type: 'message_accepted', session: 's', seq: 1, data: { text: 'hi' } });
    setTimeout(() => answers.forEach((a) => this.onmessage({ data: JSON.stringify(a) })));
  }
  close() {}
}
const stored = new Map();
const browser = vm.createContext({
  WebSocket, URL, URLSearchParams, fetch, crypto, TextEncoder, MessageChannel, setTimeout, clearTimeout, atob, Blob,
  location: { href: 'https://h.example/talk/index.html' }, said: [],
  localStorage: { getItem: (k) => stored.get(k) ?? null, setItem: (k, v) => { stored.set(k, v); } },
});
const modules = new Map();
async function load(url) {
  if (!modules.has(url)) modules.set(url, new vm.SourceTextModule(await readFile(new URL(url), 'utf8'), { context: browser, identifier: url }));
  return modules.get(url);
}
const page = new vm.SourceTextModule(\`
import { browserStorage, connect } from './index.js';
const parley = connect('.', { storage: browserStorage() });
const session = parley.session('s');
session.on('event', ({ data }) => said.push(data.text));
const { message } = await session.send('hi');
said.push(message, parley.client.url, parley.user);
await new Promise((resolve) => { setTimeout(resolve); });
parley.close();
\`, { context: browser, identifier: process.argv[1] });
await page.link((name, from) => load(new URL(name, from.identifier).href));
await page.evaluate();
console.log(JSON.stringify([browser.said.sort(), [...stored]]));
process.exit();
`;

test('N-03 a page without a bundler uses it: nothing of Node is needed', async () => {
  const here = new URL('page.js', import.meta.url).href;
  const { stdout } = await promisify(execFile)(process.execPath, ['--experimental-vm-modules', '--no-warnings', '--input-type=module', '-e', program, here],
    { cwd: fileURLToPath(new URL('.', import.meta.url)) });
  assert.deepEqual(JSON.parse(stdout), [['ann', 'hi', 'm1', 'wss://h.example/talk/ws'], [['parley.outbox', '[]']]]);
});
