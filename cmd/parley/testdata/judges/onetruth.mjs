// One session with a client of each protocol at once, each by its official SDK, unmodified: one order
// for all, a steer from each, and a kill -9 in the middle of an answer that all of them see.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { Readable, Writable } from 'node:stream';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import { Role } from '@a2a-js/sdk';
import { HttpAgent } from '@ag-ui/client';
import * as acp from '@agentclientprotocol/sdk';
import { Client as Host } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { AbstractChat, DefaultChatTransport } from 'ai';
import OpenAI from 'openai';
import { ask, check, equal, judge, key, until, url } from './check.mjs';

const api = async (method, path, body) => (await fetch(url + path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })).json();
const started = () => until(async () => (await fetch(url + '/readyz').catch(() => ({}))).ok);
const { PARLEY_PROGRAM, PARLEY_SERVE_VARIABLE } = process.env;

// The session as the server's own protocol shows it: the measure for all.
async function log(session) {
  const { items } = await api('GET', `/api/sessions/${session}/messages?limit=200`);
  const user = (m) => m.disposition !== undefined || m.author !== undefined;
  return { users: items.filter(user).map((m) => m.text), agent: items.filter((m) => !user(m)).map((m) => m.text), items };
}

/** Each client can say something (with a mode), say what it sees of the session, and watch a task over a crash. */
class Responses {
  name = 'openai';
  client = new OpenAI({ apiKey: key, baseURL: url + '/v1', maxRetries: 0 });
  constructor(session) { this.conversation = 'conv_' + session; }
  async say(text, mode) {
    const r = await this.client.responses.create({ model: 'parley', input: text, conversation: this.conversation, ...(mode && { metadata: { mode } }) });
    return { task: r.metadata['parley.task'], texts: r.output.map((o) => o.content[0].text), receipt: r.metadata['parley.receipt'] };
  }
  async sees() {
    const items = [];
    for await (const i of this.client.conversations.items.list(this.conversation, { order: 'asc', limit: 100 })) items.push(i);
    const of = (role) => items.filter((i) => i.role === role).map((i) => i.content[0].text);
    return { users: of('user'), agent: of('assistant') };
  }
  async watch(task) {
    this.items = new Map();
    for (let after; ;) {
      try {
        for await (const e of await this.client.responses.retrieve('resp_' + task, { stream: true, ...(after && { starting_after: after }) })) {
          after = e.sequence_number;
          if (e.type === 'response.output_text.delta') this.items.set(e.item_id, (this.items.get(e.item_id) ?? '') + e.delta);
          if (e.type === 'response.output_item.done' && e.item.status === 'incomplete') this.items.delete(e.item.id);
          if (e.type === 'response.completed') return;
        }
      } catch { /* the connection is gone */ }
      await started();
    }
  }
  shown() { return [...(this.items ?? new Map()).values()]; }
}

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: {
      status: 'ready', error: undefined, messages: [],
      pushMessage(m) { this.messages = [...this.messages, structuredClone(m)]; },
      popMessage() { this.messages = this.messages.slice(0, -1); },
      replaceMessage(i, m) { this.messages = this.messages.with(i, structuredClone(m)); },
      snapshot: (x) => structuredClone(x),
    } });
  }
}
class UIStream {
  name = 'ai-sdk';
  constructor(session) {
    this.session = session;
    this.transport = new DefaultChatTransport({ api: url + '/api/ui/chat' });
  }
  open() { return new Chat({ id: this.session, transport: this.transport, onError: () => {} }); }
  texts(m) { return m?.role === 'assistant' ? m.parts.filter((p) => p.type === 'text').map((p) => p.text) : []; }
  async say(text, mode) {
    const chat = this.open();
    await chat.sendMessage({ text }, mode && { body: { mode } });
    const m = chat.messages.findLast((m) => m.role === 'assistant');
    return { task: m?.metadata?.task, texts: this.texts(m), receipt: m?.metadata?.receipts?.[chat.messages.findLast((m) => m.role === 'user').id]?.how };
  }
  async sees() {
    const { messages } = await api('GET', '/api/ui/chat/' + this.session);
    return { users: messages.filter((m) => m.role === 'user').map((m) => m.parts.map((p) => p.text).join('')), agent: messages.flatMap((m) => this.texts(m)) };
  }
  async watch() {
    this.chat = this.open();
    for (let ended = false; !ended; ) {
      await this.chat.resumeStream().catch(() => {});
      ended = this.chat.status === 'ready' && this.chat.messages.length > 0;
      if (!ended) await started();
    }
  }
  shown() { return this.texts(this.chat?.messages.at(-1)); }
}

class AGUI {
  name = 'ag-ui';
  constructor(session) { this.session = session; }
  open(more = {}) { return new HttpAgent({ url: url + '/agui', threadId: this.session, ...more }); }
  async say(text, mode) {
    const agent = this.open();
    const custom = [], id = randomUUID();
    agent.addMessage({ id, role: 'user', content: text });
    const { newMessages } = await agent.runAgent(mode ? { forwardedProps: { parley: { mode } } } : {}, { onCustomEvent: ({ event }) => void custom.push(event) });
    const value = (name, fits = () => true) => custom.findLast((e) => e.name === name && fits(e.value))?.value;
    return { task: value('parley.run')?.task, texts: newMessages.filter((m) => m.role === 'assistant').map((m) => m.content), receipt: value('parley.receipt', (v) => v.messageId === id)?.how };
  }
  async sees() {
    const agent = this.open();
    await agent.runAgent();
    const of = (role) => agent.messages.filter((m) => m.role === role && m.content).map((m) => m.content);
    return { users: of('user'), agent: of('assistant') };
  }
  // A client without messages is shown the run that is under way; a connection that breaks is taken
  // up behind the last event that came whole, as an EventSource does it.
  async watch() {
    const fetching = async (address, init) => {
      const first = await fetch(address, init);
      const follow = first.headers.get('content-location');
      if (!first.ok || !follow) return first;
      const text = new TextDecoder(), bytes = new TextEncoder();
      let body = first.body.getReader(), buffer = '', last = '';
      return new Response(new ReadableStream({
        pull: async (out) => {
          for (;;) {
            let done, value;
            try { ({ done, value } = await body.read()); } catch { done = true; }
            if (value) {
              buffer += text.decode(value, { stream: true });
              const whole = [...buffer.matchAll(/^id: (\d+)\n(?:.+\n)*\n/gm)].at(-1);
              if (!whole) continue;
              last = whole[1];
              const end = whole.index + whole[0].length;
              out.enqueue(bytes.encode(buffer.slice(0, end)));
              buffer = buffer.slice(end);
              return;
            }
            if (done && this.ended) return out.close();
            await started();
            buffer = '';
            const again = await fetch(new URL(follow, address), { headers: { ...init.headers, 'Last-Event-ID': last } }).catch(() => ({}));
            if (again.ok) body = again.body.getReader();
          }
        },
      }), { headers: first.headers });
    };
    this.ended = false;
    this.agent = this.open({ fetch: fetching });
    this.agent.subscribe({ onRunFinishedEvent: () => void (this.ended = true) });
    const dropped = new Set();
    this.agent.subscribe({ onCustomEvent: ({ event }) => void (event.name === 'parley.dropped' && dropped.add(event.value.messageId)) });
    this.dropped = dropped;
    await this.agent.runAgent();
  }
  shown() {
    const messages = this.agent?.messages ?? [];
    return messages.slice(messages.findLastIndex((m) => m.role === 'user') + 1).filter((m) => m.role === 'assistant' && !this.dropped.has(m.id)).map((m) => m.content);
  }
}

class Editor {
  name = 'acp';
  updates = [];
  constructor(session) { this.session = session; }
  async begin() {
    this.child = spawn(PARLEY_PROGRAM, ['acp', '--url', url], { env: { ...process.env, [PARLEY_SERVE_VARIABLE]: '1' }, stdio: ['pipe', 'pipe', 'inherit'] });
    this.connection = acp.client({ name: 'editor' })
      .onNotification(acp.methods.client.session.update, ({ params }) => { this.updates.push(params.update); })
      .connect(acp.ndJsonStream(Writable.toWeb(this.child.stdin), Readable.toWeb(this.child.stdout)));
    this.agent = this.connection.agent;
    await this.agent.request('initialize', { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {}, clientInfo: { name: 'editor', version: '1' } });
    await this.agent.request('session/load', { sessionId: this.session, cwd: '/work', mcpServers: [] });
  }
  texts(kind, from = 0) {
    const texts = new Map(), dropped = new Set();
    for (const u of this.updates.slice(from)) {
      if (u._meta?.parley?.dropped) dropped.add(u.messageId);
      if (u.sessionUpdate === kind && u.content?.type === 'text') texts.set(u.messageId, (texts.get(u.messageId) ?? '') + u.content.text);
    }
    return [...texts].filter(([id]) => !dropped.has(id)).map(([, text]) => text);
  }
  async say(text, mode) {
    const from = this.updates.length;
    const r = await this.agent.request('session/prompt', { sessionId: this.session, prompt: [{ type: 'text', text }], ...(mode && { _meta: { parley: { mode } } }) });
    return { task: r._meta.parley.task, texts: this.texts('agent_message_chunk', from), receipt: r._meta.parley.how };
  }
  async sees() {
    const other = new Editor(this.session);
    await other.begin();
    const seen = { users: other.texts('user_message_chunk'), agent: other.texts('agent_message_chunk') };
    other.end();
    return seen;
  }
  async watch(task) {
    this.from = this.updates.length;
    await until(() => this.updates.some((u) => u._meta?.parley?.task === task && ['COMPLETE', 'ERROR', 'CANCELLED'].includes(u._meta.parley.status)));
  }
  shown() { return this.texts('agent_message_chunk', this.from); }
  end() { this.connection.close(); this.child.kill(); }
}

class MCP {
  name = 'mcp';
  constructor(session) { this.session = session; }
  async with(work) {
    const host = new Host({ name: 'host', version: '1' });
    await host.connect(new StreamableHTTPClientTransport(new URL(url + '/mcp'), { requestInit: { headers: { Authorization: `Bearer ${key}` } } }));
    try {
      return await work((name, args) => host.callTool({ name, arguments: { session: this.session, ...args } }).then((r) => r.structuredContent));
    } finally {
      await host.close();
    }
  }
  async say(text, mode) {
    const r = await this.with((call) => call('send_message', { text, ...(mode && { mode }) }));
    return { task: r.task, texts: r.texts.map((t) => t.text), receipt: r.receipt?.how };
  }
  async sees() {
    const { lines } = await this.with((call) => call('read_session', { limit: 500 }));
    const of = (role) => lines.filter((l) => l.role === role).map((l) => l.text);
    return { users: of('user'), agent: of('assistant') };
  }
  // A host reads: that is the protocol's own means.
  async watch(task) {
    for (;;) {
      const seen = await this.with((call) => call('read_session', { limit: 500 })).catch(() => undefined);
      this.lines = seen?.lines.filter((l) => l.role === 'assistant' && l.task === task).map((l) => l.text);
      if (seen && !seen.tasks?.some((t) => t.task === task)) return;
      await new Promise((go) => setTimeout(go, 50));
    }
  }
  shown() { return this.lines ?? []; }
}

class A2A {
  name = 'a2a';
  constructor(session) { this.session = session; }
  async begin() {
    this.client = await new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl: fetch })], preferredTransports: ['JSONRPC'], cardResolver: new DefaultAgentCardResolver({ fetchImpl: fetch }) }).createFromUrl(url);
  }
  texts(artifacts) { return artifacts.map((a) => a.parts.map((p) => p.content?.value).join('')); }
  async say(text, mode, task) {
    const messageId = randomUUID();
    const t = await this.client.sendMessage({ tenant: '', metadata: undefined, configuration: undefined, message: {
      messageId, contextId: this.session, taskId: mode ? task : '', role: Role.ROLE_USER, metadata: undefined, extensions: [], referenceTaskIds: [],
      parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
    } });
    return { task: t.id, texts: this.texts(t.artifacts), receipt: t.metadata?.parley?.receipts?.find((r) => r.messageId === messageId)?.how };
  }
  async sees() {
    const tasks = [];
    for (let pageToken = ''; ; ) {
      const page = await this.client.listTasks({ tenant: '', contextId: this.session, status: 0, pageToken, includeArtifacts: true, historyLength: 100, statusTimestampAfter: undefined });
      tasks.push(...page.tasks);
      pageToken = page.nextPageToken;
      if (!pageToken) break;
    }
    const number = (t) => parseInt(t.id.slice(1), 10);
    tasks.sort((a, b) => number(a) - number(b));
    return { users: tasks.flatMap((t) => t.history.filter((m) => m.role === Role.ROLE_USER).map((m) => m.parts.map((p) => p.content?.value).join(''))), agent: tasks.flatMap((t) => this.texts(t.artifacts)) };
  }
  async watch(task) {
    this.items = new Map();
    for (let number, ended = false; !ended; ) {
      try {
        for await (const e of this.client.resubscribeTask({ tenant: '', id: task }, number === undefined ? {} : { serviceParameters: { 'Last-Event-ID': number } })) {
          const { $case, value } = e.payload;
          number = value.metadata?.parley?.number ?? number;
          const artifacts = $case === 'task' ? value.artifacts : $case === 'artifactUpdate' ? [value.artifact] : [];
          for (const a of artifacts) this.items.set(a.artifactId, (value.append ? this.items.get(a.artifactId) ?? '' : '') + this.texts([a])[0]);
          ended ||= [3, 4, 5].includes(value.status?.state);
        }
      } catch { /* the connection is gone */ }
      if (!ended) await started();
    }
  }
  shown() { return [...(this.items ?? new Map()).values()].filter((t) => t !== ''); }
}

judge(async () => {
  const { session } = await api('POST', '/api/sessions', { title: 'One truth' });
  const clients = [Responses, UIStream, AGUI, Editor, MCP, A2A].map((Client) => new Client(session));
  for (const c of clients) await c.begin?.();
  const all = (work) => Promise.all(clients.map(work));

  // All speak at once: each has its own answer, and all see one order.
  const answers = await all((c) => c.say(`/say from ${c.name}`));
  // An editor, and an AG-UI client that is new, are shown what others say, too, while they wait; their own answer is the last thing.
  clients.forEach((c, i) => equal(`${c.name} has its own answer`, [answers[i].texts.slice(['ag-ui', 'acp'].includes(c.name) ? -1 : 0), answers[i].receipt], [[`from ${c.name}`], 'answered']));
  const truth = await log(session);
  console.log('the order of the log: ' + truth.users.join(', '));
  equal('the log has all', [truth.users.length, [...truth.agent].sort()], [6, clients.map((c) => `from ${c.name}`).sort()]);
  for (const c of clients) {
    const seen = await c.sees();
    console.log(`${c.name} sees: ` + seen.users.join(', '));
    equal(`${c.name} sees that order`, seen, { users: truth.users, agent: truth.agent });
  }

  // All steer one task, which another client has begun.
  const running = await api('POST', `/api/sessions/${session}/messages`, { text: '/wait 2500ms\n/say first', client_msg_id: 'long', mode: 'queue' });
  // Words of their own: an answer that repeats the words of others is no evidence.
  const words = { openai: 'apples', 'ai-sdk': 'bananas', 'ag-ui': 'cherries', acp: 'dates', mcp: 'elderberries', a2a: 'figs' };
  const steered = await all((c) => c.say(`/say ${words[c.name]}`, 'steer', running.task));
  const after = await log(session);
  clients.forEach((c, i) => equal(`a steer of ${c.name} joins the task that runs`, [steered[i].task, steered[i].receipt], [running.task, 'answered']));
  clients.forEach((c) => check(`and is answered by it: ${c.name}`, after.agent.includes(words[c.name]), after.agent));
  for (const c of clients) equal(`${c.name} sees one order still`, await c.sees(), { users: after.users, agent: after.agent });

  // A kill -9 in the middle of an answer that all of them see.
  const long = await api('POST', `/api/sessions/${session}/messages`, { text: '/stream 120 word\n/say End', client_msg_id: 'killed', mode: 'queue' });
  const watching = all((c) => c.watch(long.task));
  await until(() => clients.every((c) => c.name === 'mcp' || c.shown().join('').length > 20));
  console.log('before the crash: ' + clients.map((c) => `${c.name} ${c.shown().join('').length}`).join(', '));
  await ask('kill');
  await ask('start');
  await watching;
  const whole = [Array(120).fill('word').join(' '), 'End'];
  for (const c of clients) equal(`${c.name} has it whole, without a gap or a double`, c.shown(), whole);
  const end = await log(session);
  equal('the log has it once', end.agent.slice(-2), whole);
  for (const c of clients) equal(`${c.name} sees one order at the end`, await c.sees(), { users: end.users, agent: end.agent });
  clients.find((c) => c.end).end();
});
