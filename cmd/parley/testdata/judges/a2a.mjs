// The official SDK of A2A as the client, over JSON-RPC and over HTTP+JSON.
import { createHmac, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { ClientFactory, createAuthenticatingFetchWithRetry, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { Role, StreamResponse, TaskState } from '@a2a-js/sdk';
import { A2AError, RequestMalformedError, TaskNotCancelableError, TaskNotFoundError, ContentTypeNotSupportedError, UnsupportedOperationError, VersionNotSupportedError } from '@a2a-js/sdk/errors';
import { ask, check, equal, judge, key, narrowKey, otherKey, until, url } from './check.mjs';

// The SDK's own way to bring a key.
const signedBy = (key) => createAuthenticatingFetchWithRetry(fetch, { headers: async () => ({ Authorization: `Bearer ${key}` }), shouldRetryWithHeaders: async () => undefined });
const factoryOf = (name, fetchImpl = fetch) => new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })], preferredTransports: [name], cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const at = { acceptedOutputModes: [], taskPushNotificationConfig: undefined };
const once = { ...at, returnImmediately: true };

const text = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });
const data = (value) => ({ content: { $case: 'data', value }, metadata: undefined, filename: '', mediaType: '' });
const said = (parts, more = {}) => ({
  tenant: '', metadata: undefined, configuration: more.configuration,
  message: {
    messageId: more.id ?? randomUUID(), contextId: more.contextId ?? '', taskId: more.taskId ?? '', role: Role.ROLE_USER,
    parts: typeof parts === 'string' ? [text(parts)] : parts, metadata: more.metadata, extensions: [], referenceTaskIds: [],
  },
});
const state = (task) => TaskState[task.status?.state];
const shown = (artifacts) => artifacts.map((a) => a.parts.map((p) => p.content?.value).join(''));
const last = (task) => shown(task.artifacts).at(-1);
const asksOf = (status) => status?.message?.parts.map((p) => p.content?.value);

// What a client has of a task after the events of a stream, by the protocol's rules.
class Watched {
  constructor() { this.texts = new Map(); this.states = []; this.receipts = []; this.events = 0; this.first = undefined; }
  add(e) {
    const { $case, value } = e.payload;
    this.first ??= $case;
    this.events++;
    const note = value.metadata?.parley ?? {};
    this.number = note.number ?? this.number;
    if ($case === 'task') {
      this.id = value.id;
      this.context = value.contextId;
      this.history = value.history;
      this.states.push(state(value));
      for (const a of value.artifacts) this.texts.set(a.artifactId, shown([a])[0]);
    } else if ($case === 'statusUpdate') {
      this.states.push(state(value));
      this.status = value.status;
      if (note.receipt) this.receipts.push(note.receipt);
    } else if ($case === 'artifactUpdate') {
      const { artifactId } = value.artifact;
      this.texts.set(artifactId, (value.append ? this.texts.get(artifactId) ?? '?' : '') + shown([value.artifact])[0]);
      this.done = value.lastChunk;
    }
    return this;
  }
  async all(stream, each = () => {}) {
    for await (const e of stream) {
      this.add(e);
      if ((await each(this, e)) === 'stop') break;
    }
    return this;
  }
  text() { return [...this.texts.values()].filter((t) => t !== '').join('|'); }
}
const fails = async (name, kind, run) => {
  try {
    check(name, false, `it did not fail: ${JSON.stringify(await run())}`);
  } catch (e) {
    check(name, e instanceof kind, `${e.name}: ${e.message}`);
  }
};
const drained = async (stream) => { for await (const _ of stream); };
const started = () => until(async () => (await fetch(url + '/readyz').catch(() => ({}))).ok);

// An address of the client's: what is pushed there, each once, by the types of the SDK. It says 503 to the first of every path.
class Hook {
  constructor() {
    this.at = new Map();
    this.twice = 0;
    this.server = createServer((request, response) => {
      const body = [];
      request.on('data', (b) => body.push(b));
      request.on('end', () => {
        const at = this.of(request.url), text = Buffer.concat(body).toString(), id = request.headers['webhook-id'];
        at.tries.push(id);
        if (at.tries.length === 1) return response.writeHead(503).end();
        if (!at.ids.has(id)) {
          at.ids.add(id);
          at.posts.push({ headers: request.headers, text, event: StreamResponse.fromJSON(JSON.parse(text)) });
          at.seen.add(at.posts.at(-1).event);
        }
        response.writeHead(204).end();
      });
    });
  }
  of(path) {
    if (!this.at.has(path)) this.at.set(path, { tries: [], ids: new Set(), posts: [], seen: new Watched() });
    return this.at.get(path);
  }
  async open() {
    await new Promise((go) => this.server.listen(0, '127.0.0.1', go));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }
  ended(path) { return until(() => this.of(path).seen.states.at(-1) === 'TASK_STATE_COMPLETED'); }
}

async function pushes(name, client, is, first) {
  const hook = await new Hook().open();
  const to = (path, more = {}) => ({ tenant: '', id: '', taskId: '', url: hook.url + path, token: '', authentication: undefined, ...more });
  const told = (path, more) => ({ ...once, taskPushNotificationConfig: to(path, more) });

  const asked = await client.sendMessage(said('/partial One moment\n/stream 12 word', { configuration: told('/one', { token: 'tok', authentication: { scheme: 'Bearer', credentials: 'cred' } }) }));
  await hook.ended('/one');
  const one = hook.of('/one');
  equal(is('what is pushed'), [one.seen.id, one.seen.first, one.seen.text(), one.seen.receipts.map((r) => r.how)], [asked.id, 'task', 'One moment|' + 'word '.repeat(12).trim(), ['answered']]);
  equal(is('a text is pushed when it has ended'), one.posts.filter((p) => p.event.payload.$case === 'artifactUpdate').map((p) => p.event.payload.value.lastChunk), [true, true]);
  check(is('each push has its proof'), one.posts.every(({ headers: h }) => h.authorization === 'Bearer cred' && h['x-a2a-notification-token'] === 'tok' && h['content-type'] === 'application/a2a+json'), one.posts[0].headers);
  check(is('what is not taken comes again'), one.tries[0] === one.tries[1] && one.tries.length === one.posts.length + 1, one.tries);

  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const signs = await client.sendMessage(said('/ask Which one? [A/B]\n/say So $reply', { configuration: told('/signed', { token: secret }) }));
  const signed = hook.of('/signed');
  await until(() => signed.seen.states.at(-1) === 'TASK_STATE_INPUT_REQUIRED');
  equal(is('a question is pushed'), asksOf(signed.seen.status), ['Which one?']);
  await client.sendMessage(said('B', { taskId: signs.id }));
  await hook.ended('/signed');
  equal(is('and what comes of its answer'), signed.seen.text(), 'So B');
  check(is('a secret of Standard Webhooks signs'), signed.posts.every(({ headers: h, text }) => h['webhook-signature'] === 'v1,' + createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
    .update(`${h['webhook-id']}.${h['webhook-timestamp']}.${text}`).digest('base64') && !h['x-a2a-notification-token']), signed.posts[0].headers);

  // kill -9 in the middle of an answer: the attempt counts no more, and the model speaks again.
  const long = await client.sendMessage(said('/partial Wait\n/stream 60 word', { configuration: told('/killed') }));
  const killed = hook.of('/killed');
  await until(() => killed.seen.text() === 'Wait');
  await ask('kill');
  await ask('start');
  await started();
  await hook.ended('/killed');
  equal(is('pushed after kill -9 without a gap or a double'), [killed.seen.id, killed.seen.text(), killed.seen.wrong ?? []], [long.id, 'Wait|' + 'word '.repeat(60).trim(), []]);

  // Configurations.
  const works = await client.sendMessage(said('/wait 30s\n/say Never', { configuration: once }));
  const made = await client.createTaskPushNotificationConfig(to('/made', { taskId: works.id, id: 'mine', token: 'tok' }));
  equal(is('a configuration'), [made.id, made.taskId, made.url, made.token], ['mine', works.id, hook.url + '/made', '']);
  await client.createTaskPushNotificationConfig(to('/other', { taskId: works.id }));
  equal(is('is got'), (await client.getTaskPushNotificationConfig({ tenant: '', taskId: works.id, id: 'mine' })).url, hook.url + '/made');
  const list = await client.listTaskPushNotificationConfig({ tenant: '', taskId: works.id, pageSize: 0, pageToken: '' });
  equal(is('is listed'), list.configs.map((c) => c.url).sort(), [hook.url + '/made', hook.url + '/other']);
  await until(() => hook.of('/made').seen.states.at(-1) === 'TASK_STATE_WORKING' && hook.of('/other').seen.states.length);
  const gone = { tenant: '', taskId: works.id, id: 'mine' };
  await client.deleteTaskPushNotificationConfig(gone);
  await client.deleteTaskPushNotificationConfig(gone); // a second time is no error
  await fails(is('is gone when it was deleted'), TaskNotFoundError, () => client.getTaskPushNotificationConfig(gone));
  await client.cancelTask({ tenant: '', id: works.id, metadata: undefined });
  await until(() => hook.of('/other').seen.states.at(-1) === 'TASK_STATE_CANCELED');
  equal(is('and nothing is pushed any more'), hook.of('/made').seen.states.at(-1), 'TASK_STATE_WORKING');
  const late = await client.createTaskPushNotificationConfig(to('/late', { taskId: first.id }));
  await hook.ended('/late');
  equal(is('a task that has ended is pushed once'), [hook.of('/late').seen.events, hook.of('/late').seen.text(), (await client.getTaskPushNotificationConfig({ tenant: '', taskId: first.id, id: late.id })).id], [1, 'Hello', late.id]);

  await fails(is('an address that the operator has not named'), RequestMalformedError, () => client.createTaskPushNotificationConfig(to('', { taskId: works.id, url: 'https://example.com/hook' })));
  await fails(is('nor by a message'), RequestMalformedError, () => client.sendMessage(said('x', { configuration: { ...at, taskPushNotificationConfig: to('', { url: 'http://169.254.169.254/' }) } })));
  await fails(is('a configuration of no such task'), TaskNotFoundError, () => client.createTaskPushNotificationConfig(to('/none', { taskId: 't1-nothinghere' })));
  const eve = await factoryOf(name, signedBy(otherKey)).createFromAgentCard(client.agentCard);
  await fails(is('a configuration of a task of another tenant'), TaskNotFoundError, () => eve.createTaskPushNotificationConfig(to('/eve', { taskId: works.id })));
  await fails(is('nor are they listed'), TaskNotFoundError, () => eve.listTaskPushNotificationConfig({ tenant: '', taskId: works.id, pageSize: 0, pageToken: '' }));
  check(is('nothing came of what was refused'), !hook.at.has('/none') && !hook.at.has('/eve'));
  hook.server.close();
}

async function binding(name) {
  const factory = factoryOf(name, signedBy(key));
  const client = await factory.createFromUrl(url);
  const is = (what) => `${name}: ${what}`;
  equal(is('the version'), client.protocolVersion, '1.0');
  const card = await client.getAgentCard();
  check(is('the extended card names the agents'), card.skills.length > 0 && card.skills.every((s) => s.id && s.description), card);

  // Send, and wait.
  const id = randomUUID();
  const first = await client.sendMessage(said('/say Hello', { id }));
  equal(is('an answer'), [state(first), last(first)], ['TASK_STATE_COMPLETED', 'Hello']);
  equal(is('its history'), first.history.map((m) => [m.messageId, m.role, m.parts[0].content.value]), [[id, Role.ROLE_USER, '/say Hello']]);
  equal(is('the receipt'), first.metadata.parley.receipts.map((r) => [r.messageId, r.how]), [[id, 'answered']]);
  const again = await client.sendMessage(said('/say Hello', { id }));
  equal(is('the same message makes no other task'), [again.id, again.contextId], [first.id, first.contextId]);
  const more = await client.sendMessage(said('/say And again', { contextId: first.contextId }));
  check(is('another message of the context'), more.contextId === first.contextId && more.id !== first.id, more);
  const mine = 'context-' + randomUUID();
  const named = await client.sendMessage(said('/say Hi', { contextId: mine }));
  const other = await client.sendMessage(said('/say Hi again', { contextId: mine }));
  equal(is('a context that the client names'), [named.contextId, other.contextId, other.metadata.parley.session === named.metadata.parley.session], [mine, mine, true]);

  // At once, and ask for it.
  const soon = await client.sendMessage(said('/wait 200ms\n/say Later', { configuration: once }));
  check(is('an answer at once'), ['TASK_STATE_WORKING', 'TASK_STATE_SUBMITTED'].includes(state(soon)), soon);
  const later = await until(async () => { const t = await client.getTask({ tenant: '', id: soon.id }); return state(t) === 'TASK_STATE_COMPLETED' && t; });
  equal(is('the task later'), last(later), 'Later');
  equal(is('a history of none'), (await client.getTask({ tenant: '', id: soon.id, historyLength: 0 })).history, []);

  // Stream.
  const told = await new Watched().all(client.sendMessageStream(said('/partial One moment\n/stream 12 word')));
  equal(is('a stream begins with the task'), told.first, 'task');
  equal(is('its texts'), told.text(), 'One moment|' + 'word '.repeat(12).trim());
  equal(is('it ends with the task'), told.states.at(-1), 'TASK_STATE_COMPLETED');
  equal(is('a receipt in the stream'), told.receipts.map((r) => r.how), ['answered']);
  check(is('it streams'), told.events > 12, told.events);
  equal(is('asked for, it is the same'), shown((await client.getTask({ tenant: '', id: told.id })).artifacts).join('|'), told.text());

  // A question, and its answer; an approval.
  const asks = await client.sendMessage(said('/ask Which one? [A/B]\n/say So $reply'));
  equal(is('a question'), [state(asks), asksOf(asks.status), asks.status.message.metadata.parley.questions[0].choices], ['TASK_STATE_INPUT_REQUIRED', ['Which one?'], ['A', 'B']]);
  const reply = randomUUID();
  const answered = await client.sendMessage(said('B', { taskId: asks.id, id: reply }));
  equal(is('its answer'), [answered.id, state(answered), last(answered)], [asks.id, 'TASK_STATE_COMPLETED', 'So B']);
  equal(is('the answer once more'), (await client.sendMessage(said('B', { taskId: asks.id, id: reply }))).id, asks.id);
  const asked = await new Watched().all(client.sendMessageStream(said('/ask And now?\n/say Then $reply')));
  equal(is('a stream ends with a question'), [asked.states.at(-1), asksOf(asked.status)], ['TASK_STATE_INPUT_REQUIRED', ['And now?']]);
  const goesOn = await new Watched().all(client.sendMessageStream(said([data({ yes: true })], { taskId: asked.id, contextId: asked.context })));
  equal(is('and goes on with the answer'), [goesOn.id, goesOn.states[0], goesOn.states.at(-1), goesOn.text()], [asked.id, 'TASK_STATE_SUBMITTED', 'TASK_STATE_COMPLETED', 'Then {"yes":true}']);

  const greets = await client.sendMessage(said('/tool hi_greet {"name":"Max"}\n/say $result'));
  const [approval] = greets.status.message.metadata.parley.questions;
  equal(is('an approval'), [state(greets), approval.approval], ['TASK_STATE_INPUT_REQUIRED', { tool: 'hi_greet', arguments: { name: 'Max' } }]);
  const allowed = await client.sendMessage(said([data({ approve: true })], { taskId: greets.id }));
  check(is('allowed, it goes on'), state(allowed) === 'TASK_STATE_COMPLETED' && last(allowed).includes('Max'), allowed);
  const greets2 = await client.sendMessage(said('/tool hi_greet {"name":"Max"}\n/say $result'));
  await fails(is('what is neither yes nor no'), RequestMalformedError, () => client.sendMessage(said('perhaps', { taskId: greets2.id })));
  const denied = await client.sendMessage(said('no', { taskId: greets2.id }));
  check(is('declined, it goes on without'), state(denied) === 'TASK_STATE_COMPLETED' && !last(denied).includes('Max'), denied);

  // Steer.
  let steered = '';
  const steering = await new Watched().all(client.sendMessageStream(said('/stream 40 word')), async (w) => {
    if (steered || !w.text().startsWith('word word')) return;
    steered = randomUUID();
    const t = await client.sendMessage(said('/say Steered', { taskId: w.id, id: steered, configuration: once }));
    equal(is('a message for a task that runs'), t.id, w.id);
  });
  check(is('steers it'), steering.text().includes('Steered') && steering.receipts.some((r) => r.messageId === steered && r.how === 'answered'), [steering.text(), steering.receipts]);

  // Cancel.
  const long = await client.sendMessage(said('/wait 30s\n/say Never', { configuration: once }));
  equal(is('a task that is cancelled'), state(await client.cancelTask({ tenant: '', id: long.id, metadata: undefined })), 'TASK_STATE_CANCELED');
  await fails(is('it is not cancelled twice'), TaskNotCancelableError, () => client.cancelTask({ tenant: '', id: long.id, metadata: undefined }));

  // Resubscribe, from a cursor: the stream is broken off in the middle of a text, twice by the client, and once by kill -9.
  const whole = 'word '.repeat(60).trim();
  const watched = new Watched();
  const broken = client.sendMessageStream(said('/stream 60 word'));
  await watched.all(broken, (w) => (w.text().length > 20 ? 'stop' : ''));
  const resume = (w) => client.resubscribeTask({ tenant: '', id: w.id }, { serviceParameters: { 'Last-Event-ID': w.number } });
  await watched.all(resume(watched), (w) => (w.text().length > 60 ? 'stop' : ''));
  await ask('kill');
  await ask('start');
  await started();
  // The attempt that was cut off counts no more, and the model speaks again.
  await watched.all(resume(watched));
  equal(is('resumed after kill -9 without a gap or a double'), [watched.text(), watched.states.at(-1)], [whole, 'TASK_STATE_COMPLETED']);
  const late = await new Watched().all(resume(watched));
  equal(is('resumed behind its end'), [late.first, late.events], ['task', 1]);
  const live = await client.sendMessage(said('/wait 150ms\n/stream 10 word', { configuration: once }));
  const two = await Promise.all([1, 2].map(() => new Watched().all(client.resubscribeTask({ tenant: '', id: live.id }))));
  equal(is('two subscribers see the same'), two.map((w) => [w.first, w.states.at(-1), w.text()]), [1, 2].map(() => ['task', 'TASK_STATE_COMPLETED', 'word '.repeat(10).trim()]));

  // Lists.
  const list = await client.listTasks({ tenant: '', contextId: mine, status: 0, pageToken: '', pageSize: 1, statusTimestampAfter: undefined });
  equal(is('a page of a list'), [list.tasks.map((t) => [t.id, t.contextId, t.artifacts]), list.pageSize, list.totalSize], [[[other.id, mine, []]], 1, 2]);
  const rest = await client.listTasks({ tenant: '', contextId: mine, status: 0, pageToken: list.nextPageToken, includeArtifacts: true, statusTimestampAfter: undefined });
  equal(is('the next page'), [rest.tasks.map((t) => [t.id, last(t)]), rest.nextPageToken], [[[named.id, 'Hi']], '']);
  const cancelled = await client.listTasks({ tenant: '', contextId: '', status: TaskState.TASK_STATE_CANCELED, pageToken: '', statusTimestampAfter: undefined });
  check(is('a list of a state'), cancelled.tasks.some((t) => t.id === long.id) && cancelled.tasks.every((t) => state(t) === 'TASK_STATE_CANCELED'), cancelled);
  equal(is('a list of a context that is not there'), (await client.listTasks({ tenant: '', contextId: 'nothing-here', status: 0, pageToken: '', statusTimestampAfter: undefined })).tasks, []);

  // Errors.
  const none = { tenant: '', id: 't1-nothinghere' };
  await fails(is('no such task'), TaskNotFoundError, () => client.getTask(none));
  await fails(is('no such task to cancel'), TaskNotFoundError, () => client.cancelTask(none));
  await fails(is('no such task to follow'), TaskNotFoundError, () => drained(client.resubscribeTask(none)));
  await fails(is('a message for no such task'), TaskNotFoundError, () => client.sendMessage(said('x', { taskId: none.id })));
  await fails(is('a message for a task that has ended'), UnsupportedOperationError, () => client.sendMessage(said('x', { taskId: first.id })));
  await fails(is('a task that has ended cannot be followed'), UnsupportedOperationError, () => drained(client.resubscribeTask({ tenant: '', id: first.id })));
  await fails(is('a context of another task'), RequestMalformedError, () => client.sendMessage(said('x', { taskId: asks.id, contextId: mine })));
  await fails(is('a message that says nothing'), RequestMalformedError, () => client.sendMessage(said([])));
  await fails(is('the same message with another text'), RequestMalformedError, () => client.sendMessage(said('/say Other', { id })));
  const raw = { content: { $case: 'raw', value: Buffer.from('tck') }, metadata: undefined, filename: '', mediaType: 'application/x-unknown' };
  await fails(is('a file of an unknown type'), ContentTypeNotSupportedError, () => client.sendMessage(said([raw])));
  await fails(is('an address in the place of a file'), ContentTypeNotSupportedError, () => client.sendMessage(said([{ ...raw, content: { $case: 'url', value: 'http://127.0.0.1/' } }])));
  const file = await client.sendMessage(said([text('Seen?'), { ...raw, mediaType: 'text/plain', filename: 'a.txt' }]));
  equal(is('a file of a known type'), [last(file).includes('a.txt'), file.history[0].parts[1].filename, await (await signedBy(key)(file.history[0].parts[1].content.value)).text()], [true, 'a.txt', 'tck']);
  await pushes(name, client, is, first);
  await fails(is('another version'), VersionNotSupportedError, () => client.transport.getTask({ tenant: '', id: first.id }, { serviceParameters: { 'A2A-Version': '99.0' } }));

  // Who may not.
  const eve = await factoryOf(name, signedBy(otherKey)).createFromAgentCard(client.agentCard);
  await fails(is('a task of another tenant'), TaskNotFoundError, () => eve.getTask({ tenant: '', id: first.id }));
  await fails(is('is not cancelled'), TaskNotFoundError, () => eve.cancelTask({ tenant: '', id: first.id }));
  await fails(is('nor followed'), TaskNotFoundError, () => drained(eve.resubscribeTask({ tenant: '', id: first.id })));
  await fails(is('nor told anything'), TaskNotFoundError, () => eve.sendMessage(said('x', { taskId: first.id })));
  equal(is('nor listed'), (await eve.listTasks({ tenant: '', contextId: mine, status: 0, pageToken: '', statusTimestampAfter: undefined })).tasks, []);
  check(is('a context of the same name is another one'), (await eve.sendMessage(said('/say Eve', { contextId: mine }))).metadata.parley.session !== named.metadata.parley.session);
  for (const [who, fetchImpl, code] of [['no key', fetch, 401], ['a key that is not good for this', signedBy(narrowKey), 403]]) {
    const stranger = await factoryOf(name, fetchImpl).createFromUrl(url); // the card is for everybody
    await fails(is(who), A2AError, () => stranger.getTask({ tenant: '', id: first.id }));
    await fails(is(who + ': a stream'), A2AError, () => drained(stranger.sendMessageStream(said('x'))));
    const answer = await (name === 'JSONRPC' ? fetchImpl(url + '/a2a', { method: 'POST' }) : fetchImpl(url + '/a2a/tasks'));
    equal(is(who + ': the status'), [answer.status, answer.headers.get('WWW-Authenticate')], [code, code === 401 ? 'Bearer' : null]);
  }

  // An agent by its tenant.
  const agents = await (await new ClientFactory(factory.options).createFromUrl(`${url}/a2a/${card.skills[0].id}/`)).getAgentCard();
  equal(is('the card of an agent'), [agents.name, agents.supportedInterfaces.map((i) => i.tenant)], [card.skills[0].id, [card.skills[0].id, card.skills[0].id]]);
  const agent = await new ClientFactory(factory.options).createFromAgentCard(agents);
  equal(is('a task of that agent'), last(await agent.sendMessage(said('/say Mine'))), 'Mine');
}

judge(async () => {
  await binding('JSONRPC');
  await binding('HTTP+JSON');
  const old = await (await signedBy(key)(url + '/a2a', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"jsonrpc":"2.0","id":"x","method":"message/send","params":{}}' })).json();
  equal('a method of an older version', [old.id, old.error.code], ['x', -32009]);
});
