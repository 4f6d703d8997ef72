// The Agent Client Protocol, by its official SDK as the editor: over "parley acp", which the
// editor starts, and over the WebSocket itself.
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import WebSocket from 'ws';
import { ask, check, equal, judge, key, narrowKey, otherKey, until, url } from './check.mjs';

const { PARLEY_PROGRAM, PARLEY_SERVE_VARIABLE } = process.env;

/** An editor: what it is told, what it is asked, and what it answers. */
class Editor {
  updates = [];
  asked = [];
  permission = async () => ({ outcome: { outcome: 'cancelled' } });
  form = async () => ({ action: 'cancel' });
  errors = '';

  constructor(name, { forms = true, stream, as = key } = {}) {
    this.name = name;
    if (!stream) {
      this.child = spawn(PARLEY_PROGRAM, ['acp', '--url', url], { env: { ...process.env, PARLEY_KEY: as, [PARLEY_SERVE_VARIABLE]: '1' } });
      this.child.stderr.on('data', (b) => { this.errors += b; });
      stream = acp.ndJsonStream(Writable.toWeb(this.child.stdin), Readable.toWeb(this.child.stdout));
    }
    this.connection = acp.client({ name })
      .onNotification(acp.methods.client.session.update, ({ params }) => { this.updates.push(params); })
      .onRequest(acp.methods.client.session.requestPermission, (x) => { this.asked.push(x); return this.permission(x); })
      .onRequest(acp.methods.client.elicitation.create, (x) => { this.asked.push(x); return this.form(x); })
      .connect(stream);
    this.agent = this.connection.agent;
    this.capabilities = forms ? { elicitation: { form: {} } } : {};
  }

  async begin(version = acp.PROTOCOL_VERSION) {
    return await this.agent.request('initialize', { protocolVersion: version, clientCapabilities: this.capabilities, clientInfo: { name: this.name, version: '1' } });
  }

  async open() {
    return (await this.agent.request('session/new', { cwd: '/work', mcpServers: [] })).sessionId;
  }

  prompt(sessionId, text, meta, options) {
    return this.agent.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }], ...(meta && { _meta: { parley: meta } }) }, options);
  }

  /** The chunks of one kind, as texts by their messages, in order. */
  texts(sessionId, kind = 'agent_message_chunk') {
    const texts = new Map();
    for (const { sessionId: of, update } of this.updates) {
      if (of === sessionId && update.sessionUpdate === kind && update.content.type === 'text') {
        texts.set(update.messageId, (texts.get(update.messageId) ?? '') + update.content.text);
      }
    }
    return [...texts.values()];
  }

  calls(sessionId) {
    return this.updates.filter((u) => u.sessionId === sessionId && u.update.sessionUpdate.startsWith('tool_call')).map((u) => u.update);
  }

  end() {
    this.connection.close();
    this.child?.kill();
  }
}

const failure = async (promise) => {
  try {
    return await promise;
  } catch (e) {
    return e;
  }
};

judge(async () => {
  const editor = new Editor('zed');
  const hello = await editor.begin();
  equal('it speaks version 1', hello.protocolVersion, 1);
  equal('it says what it can', [hello.agentCapabilities.loadSession, hello.agentCapabilities.promptCapabilities.embeddedContext, hello.authMethods], [true, true, []]);
  const s = await editor.open();
  check('it opens a session', typeof s === 'string' && s.length > 0, s);

  // A prompt and its answer.
  const first = await editor.prompt(s, '/say Hello');
  equal('a prompt is answered', [first.stopReason, editor.texts(s)], ['end_turn', ['Hello']]);
  equal('with a receipt', [first._meta.parley.status, first._meta.parley.how], ['COMPLETE', 'answered']);
  equal('what one has said is not told back', editor.texts(s, 'user_message_chunk'), []);
  await editor.prompt(s, '/stream 5 word');
  check('a text streams', editor.texts(s).at(-1).split('word').length === 6, editor.texts(s).at(-1));
  check('in pieces', editor.updates.filter((u) => u.update.sessionUpdate === 'agent_message_chunk').length > 3);
  const linked = await editor.agent.request('session/prompt', { sessionId: s, prompt: [
    { type: 'text', text: '/say see ' }, { type: 'resource_link', name: 'main.go', uri: 'file:///work/main.go' },
  ] });
  equal('a link stands in the text', [linked.stopReason, editor.texts(s).at(-1)], ['end_turn', 'see [main.go](file:///work/main.go)']);
  const image = await failure(editor.agent.request('session/prompt', { sessionId: s, prompt: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] }));
  equal('a picture is refused', image.code, -32602);

  // The SDK's own helper.
  const session = await editor.agent.buildSession('/work').start();
  session.prompt('/say by the helper');
  equal('the helper reads it', await session.readText(), 'by the helper');
  session.dispose();

  // Tools.
  const tooled = await editor.prompt(s, '/tool clock {}\n/say done');
  const calls = editor.calls(s);
  equal('a call is shown', [tooled.stopReason, calls.map((c) => [c.sessionUpdate, c.status])], ['end_turn', [['tool_call', 'in_progress'], ['tool_call_update', 'completed']]]);
  equal('of one id', new Set(calls.map((c) => c.toolCallId)).size, 1);

  // Questions.
  editor.form = async ({ params }) => ({ action: 'accept', content: { answer: params.requestedSchema.properties.answer.enum?.[1] ?? 'blue' } });
  const colour = await editor.prompt(s, '/ask Which colour?\n/say it is $reply');
  equal('a question is a form', [colour.stopReason, editor.asked.at(-1).params.message, editor.texts(s).at(-1)], ['end_turn', 'Which colour?', 'it is blue']);
  const choice = await editor.prompt(s, '/ask Which? [A/B]\n/say it is $reply');
  equal('with its choices', [choice.stopReason, editor.texts(s).at(-1)], ['end_turn', 'it is B']);
  editor.form = async () => ({ action: 'decline' });
  const declined = await editor.prompt(s, '/ask Shall I?\n/say so $reply');
  equal('one that is not answered ends the turn', [declined.stopReason, declined._meta.parley.status, typeof declined._meta.parley.question], ['end_turn', 'AWAITING_RESPONSE', 'string']);
  const later = await editor.prompt(s, 'certainly');
  equal('and the next prompt answers it', [later.stopReason, editor.texts(s).at(-1)], ['end_turn', 'so certainly']);

  const plain = new Editor('plain', { forms: false });
  await plain.begin();
  const p = await plain.open();
  const asked = await plain.prompt(p, '/ask Your name?\n/say hello $reply');
  equal('without forms a question ends the turn', [asked.stopReason, plain.texts(p)], ['end_turn', ['Your name?']]);
  const named = await plain.prompt(p, 'Max');
  equal('its answer is the next prompt', [named.stopReason, plain.texts(p).at(-1)], ['end_turn', 'hello Max']);

  // Approvals.
  const greet = '/tool hi_greet {"name":"Max"}\n/say $result';
  editor.permission = async ({ params }) => ({ outcome: { outcome: 'selected', optionId: params.options.find((o) => o.kind === 'allow_once').optionId } });
  const allowed = await editor.prompt(s, greet);
  const permission = editor.asked.at(-1).params;
  equal('an approval is a request for a permission', [allowed.stopReason, permission.toolCall.title, permission.toolCall.rawInput, permission.options.length], ['end_turn', 'hi_greet', { name: 'Max' }, 2]);
  equal('the call waits, runs and ends', editor.calls(s).slice(-3).map((c) => [c.toolCallId === permission.toolCall.toolCallId, c.status]), [[true, 'pending'], [true, 'in_progress'], [true, 'completed']]);
  editor.permission = async ({ params }) => ({ outcome: { outcome: 'selected', optionId: params.options.find((o) => o.kind === 'reject_once').optionId } });
  const rejected = await editor.prompt(s, greet);
  equal('it may be declined', [rejected.stopReason, editor.calls(s).at(-1).status, editor.texts(s).at(-1).includes('denied')], ['end_turn', 'failed', true]);
  let withdrawn = false;
  let begun = false;
  editor.permission = ({ signal }) => new Promise((resolve) => {
    begun = true;
    signal.addEventListener('abort', () => { withdrawn = true; resolve({ outcome: { outcome: 'cancelled' } }); });
  });
  const elsewhere = editor.prompt(s, greet);
  await until(() => begun);
  const api = async (method, path, body) => await (await fetch(url + path, { method, headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + key }, body: body && JSON.stringify(body) })).json();
  const questions = (await api('GET', `/api/sessions/${s}/questions`)).items;
  await api('POST', `/api/sessions/${s}/questions/${questions.at(-1).question}/answer`, { text: 'yes' });
  equal('another client may answer', [(await elsewhere).stopReason, withdrawn], ['end_turn', true]);
  editor.permission = async () => { throw new Error('there is no window'); };
  const unanswered = await editor.prompt(s, greet);
  equal('who cannot answer gets the turn back', [unanswered.stopReason, unanswered._meta.parley.status], ['end_turn', 'AWAITING_RESPONSE']);
  equal('and may say yes', [(await editor.prompt(s, 'yes')).stopReason, editor.calls(s).at(-1).status], ['end_turn', 'completed']);

  // Cancelling.
  const long = editor.prompt(s, '/stream 500 long');
  await until(() => editor.texts(s).at(-1)?.includes('long'));
  await editor.agent.notify('session/cancel', { sessionId: s });
  equal('a prompt is cancelled', (await long).stopReason, 'cancelled');
  const abort = new AbortController();
  const aborted = editor.prompt(s, '/stream 500 more', undefined, { cancellationSignal: abort.signal });
  await until(() => editor.texts(s).at(-1)?.includes('more'));
  abort.abort();
  const how = await failure(aborted);
  check('by its request, too', how.stopReason === 'cancelled' || how.code === -32800, how);
  await until(() => editor.updates.at(-1).update._meta?.parley.status === 'CANCELLED');

  // Steering, and two prompts at once.
  const running = editor.prompt(s, '/wait 1s\n/say first');
  const steered = await editor.prompt(s, '/say steered', { mode: 'steer' });
  equal('a steered prompt joins the task', [steered.stopReason, steered._meta.parley.task], ['end_turn', (await running)._meta.parley.task]);
  const both = await Promise.all([editor.prompt(s, '/say one'), editor.prompt(s, '/say two')]);
  equal('two prompts have two answers', [both.map((r) => r.stopReason), editor.texts(s).slice(-2)], [['end_turn', 'end_turn'], ['one', 'two']]);

  // Reading what was.
  const second = new Editor('jetbrains');
  await second.begin();
  const list = await second.agent.request('session/list', { cwd: '/work' });
  check('the session is in the list', list.sessions.some((x) => x.sessionId === s && x.cwd === '/work'), list);
  await second.agent.request('session/load', { sessionId: s, cwd: '/work', mcpServers: [] });
  equal('what was said can be read', second.texts(s, 'user_message_chunk').slice(0, 2), ['/say Hello', '/stream 5 word']);
  equal('and what was answered', second.texts(s).at(0), 'Hello');

  // Others are seen, live.
  await editor.prompt(s, '/say for both');
  await until(() => second.texts(s).at(-1) === 'for both');
  equal('others are seen', second.texts(s, 'user_message_chunk').at(-1), '/say for both');
  check('by their names', second.updates.some((u) => u.update._meta?.parley.author !== undefined));
  check('with receipts', second.updates.some((u) => u.update._meta?.parley.receipt?.how === 'answered'));

  // kill -9 in mid-answer, under the same editor.
  const count = 300;
  const survived = editor.prompt(s, `/stream ${count} tick`);
  await until(() => editor.texts(s).at(-1)?.includes('tick'));
  await ask('kill');
  const seen = editor.texts(s).at(-1);
  check('it is killed in mid-answer', seen.split('tick').length - 1 < count, seen.length);
  const meanwhile = editor.prompt(s, '/say said meanwhile');
  await ask('start');
  const end = await survived;
  equal('a prompt survives the server', end.stopReason, 'end_turn');
  equal('what is said meanwhile is said', (await meanwhile).stopReason, 'end_turn');
  const reader = new Editor('reader');
  await reader.begin();
  await reader.agent.request('session/load', { sessionId: s, cwd: '/work', mcpServers: [] });
  const stored = reader.texts(s).filter((t) => t.includes('tick'));
  const shown = new Map();
  for (const { update } of editor.updates) {
    if (update.sessionUpdate !== 'agent_message_chunk') continue;
    if (update._meta.parley.dropped) shown.delete(update.messageId);
    else shown.set(update.messageId, (shown.get(update.messageId) ?? '') + update.content.text);
  }
  equal('without a gap or a double', [...shown.values()].filter((t) => t.includes('tick')), stored);
  equal('once', reader.texts(s, 'user_message_chunk').filter((t) => t.includes(`/stream ${count}`)).length, 1);
  equal('nothing of one\'s own is told back', editor.texts(s, 'user_message_chunk').filter((t) => t.startsWith('/')), []);

  // It goes away in good order, too.
  const drained = editor.prompt(s, '/stream 300 tock');
  await until(() => editor.texts(s).at(-1)?.includes('tock'));
  await ask('stop');
  await ask('start');
  equal('a prompt survives a restart', (await drained).stopReason, 'end_turn');

  // The server is killed while a question is open.
  let answer;
  editor.form = () => new Promise((resolve) => { answer = resolve; });
  const before = editor.asked.length;
  const open = editor.prompt(s, '/ask Still there?\n/say yes: $reply');
  await until(() => answer);
  await ask('kill');
  await ask('start');
  await until(() => editor.errors.split('connected again').length > 3);
  answer({ action: 'accept', content: { answer: 'here' } });
  equal('a question survives the server', [(await open).stopReason, editor.texts(s).at(-1), editor.asked.length - before], ['end_turn', 'yes: here', 1]);

  // Errors.
  const code = async (method, params) => (await failure(editor.agent.request(method, params))).code;
  equal('errors have their codes', [
    await code('session/prompt', { sessionId: 'nowhere', prompt: [{ type: 'text', text: 'x' }] }),
    await code('session/load', { sessionId: 'nowhere', cwd: '/', mcpServers: [] }),
    await code('session/set_mode', { sessionId: s, modeId: 'x' }),
    await code('_other/method', {}),
    await code('session/prompt', { sessionId: s, prompt: [{ type: 'text', text: '' }] }),
    await code('authenticate', { methodId: 'x' }),
  ], [-32002, -32002, -32601, -32601, -32602, -32602]);
  equal('a failed task is an error', (await failure(editor.prompt(s, '/fail 500 99'))).code, -32603);

  // Other users.
  const other = new Editor('other', { as: otherKey });
  await other.begin();
  const theirs = { sessionId: s, cwd: '/', mcpServers: [] };
  equal('what belongs to others is not there', [(await failure(other.agent.request('session/load', theirs))).code, (await other.agent.request('session/list', {})).sessions], [-32002, []]);
  for (const as of [narrowKey, 'parley_nobody']) {
    const stranger = new Editor('stranger', { as });
    equal('a key that is not good is refused', (await failure(stranger.begin())).code, -32000);
    stranger.end();
  }

  // Versions.
  const newer = new Editor('newer');
  equal('a newer client is told the version', (await newer.begin(7)).protocolVersion, 1);

  // Over the WebSocket itself.
  const socket = new Editor('socket', { stream: createWebSocketStream(url.replace('http', 'ws') + '/acp', { WebSocket, headers: { Authorization: 'Bearer ' + key } }) });
  await socket.begin();
  const w = await socket.open();
  equal('the SDK\'s own transport works', [(await socket.prompt(w, '/say by socket')).stopReason, socket.texts(w)], ['end_turn', ['by socket']]);
  await socket.agent.request('session/close', { sessionId: w });
  equal('a closed session is resumed', [await socket.agent.request('session/resume', { sessionId: w, cwd: '/' }).then((r) => typeof r), socket.texts(w)], ['object', ['by socket']]);

  for (const e of [editor, plain, second, reader, other, newer, socket]) e.end();

  // No server.
  const alone = spawn(PARLEY_PROGRAM, ['acp', '--url', 'http://127.0.0.1:1'], { env: { ...process.env, [PARLEY_SERVE_VARIABLE]: '1' } });
  let out = '';
  let err = '';
  alone.stdout.on('data', (b) => { out += b; });
  alone.stderr.on('data', (b) => { err += b; });
  alone.stdin.write('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n');
  const status = await new Promise((resolve) => alone.on('close', resolve));
  check('without a server there is a clear error', status === 1 && JSON.parse(out).error.code === -32603 && err.includes('no connection'), { status, out, err });
});
