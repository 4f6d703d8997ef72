// The official SDK of the Model Context Protocol for TypeScript, as a host of the server.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { ask, check, equal, judge, key, until, url } from './check.mjs';

const connect = async (capabilities = {}, bearer = key) => {
  const client = new Client({ name: 'judge', version: '1' }, { capabilities });
  await client.connect(new StreamableHTTPClientTransport(new URL(url + '/mcp'), { requestInit: { headers: { Authorization: `Bearer ${bearer}` } } }));
  return client;
};
const call = (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const text = (r) => r.content[0].text;

async function plain() {
  const client = await connect();
  const { tools } = await client.listTools();
  equal('the tools', tools.map((t) => t.name).sort(), ['answer', 'cancel', 'list_sessions', 'read_session', 'send_message']);
  check('reading is marked as such', tools.find((t) => t.name === 'read_session').annotations.readOnlyHint === true);
  const r = await call(client, 'send_message', { session: 'mine', text: '/say Hello' });
  equal('it answers', [text(r), r.structuredContent.status, r.structuredContent.receipt.how], ['Hello', 'COMPLETE', 'answered']);
  const session = r.structuredContent.session;
  const again = await call(client, 'send_message', { session, text: '/say Once', client_id: 'one' });
  const same = await call(client, 'send_message', { session, text: '/say Once', client_id: 'one' });
  equal('said again under the same id it is the same message', [again.structuredContent.message, text(same)], [same.structuredContent.message, 'Once']);
  const read = await call(client, 'read_session', { session: 'mine' });
  equal('the session is read', read.structuredContent.lines.map((l) => [l.role, l.text]), [['user', '/say Hello'], ['assistant', 'Hello'], ['user', '/say Once'], ['assistant', 'Once']]);
  const since = await call(client, 'read_session', { session, since: read.structuredContent.lines[1].seq });
  equal('from a place on', since.structuredContent.lines.map((l) => l.text), ['/say Once', 'Once']);
  const steps = [];
  await call(client, 'send_message', { session, text: '/stream 100 word' }, { onprogress: (p) => steps.push(p) });
  check('progress grows', steps.length > 2 && steps.every((p, i) => i === 0 || p.progress > steps[i - 1].progress), steps);
  const late = await call(client, 'send_message', { session, text: '/wait 1s\n/say Late', wait_seconds: 0 });
  check('it does not have to wait', late.structuredContent.note !== undefined && late.structuredContent.status !== 'COMPLETE', late.structuredContent);
  const long = await call(client, 'send_message', { session: 'long', text: '/stream 2000 x', wait_seconds: 0 });
  equal('cancel ends a task', (await call(client, 'cancel', { session: 'long', task: long.structuredContent.task })).structuredContent.task, long.structuredContent.task);
  await until(async () => (await call(client, 'read_session', { session: 'long' })).structuredContent.tasks === undefined);
  for (const [name, args, code] of [
    ['send_message', { text: 'x', mode: 'never' }, 'bad_request'], ['read_session', { session: 'none' }, 'not_found'],
    ['answer', { session, question: 'q99', text: 'x' }, 'question'], ['answer', { session, question: 'q1' }, 'bad_request'], ['cancel', { session, task: 't1-other' }, 'not_found'],
  ]) {
    const e = await call(client, name, args);
    check(`${name} refuses: ${code}`, e.isError === true && text(e).includes(code), e);
  }
  await client.close();
}

async function asked() {
  const alone = await connect();
  const r = await call(alone, 'send_message', { session: 'asks', text: '/ask Which? [A/B]\n/say You chose $reply' });
  equal('without elicitation a question is in the result', [r.structuredContent.status, r.structuredContent.questions.map((q) => q.text)], ['AWAITING_RESPONSE', ['Which?']]);
  const done = await call(alone, 'answer', { session: 'asks', question: r.structuredContent.questions[0].question, text: 'A' });
  equal('the tool answers it', text(done), 'You chose A');
  const host = await connect({ elicitation: { form: {} } });
  const forms = [];
  host.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    forms.push(params);
    return { action: 'accept', content: { answer: 'B' } };
  });
  const two = await call(host, 'send_message', { session: 'asks', text: '/ask Which? [A/B]\n/say You chose $reply\n/ask Sure?\n/say $reply it is' });
  equal('with it the user is asked', [forms.map((f) => f.message), forms[0].requestedSchema.properties.answer.enum], [['Which?', 'Sure?'], ['A', 'B']]);
  check('and the answers go on', text(two).includes('You chose B') && text(two).includes('B it is'), text(two));
  await Promise.all([alone.close(), host.close()]);
}

async function resources() {
  const client = await connect();
  const one = await call(client, 'send_message', { session: 'watched', text: '/say First' });
  const uri = 'parley://sessions/' + one.structuredContent.session;
  const { resources } = await client.listResources();
  check('sessions are resources', resources.some((r) => r.uri === uri), resources);
  equal('one is read', JSON.parse((await client.readResource({ uri })).contents[0].text).lines.map((l) => l.text), ['/say First', 'First']);
  const updates = [];
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => updates.push(n.params.uri));
  await client.subscribeResource({ uri });
  const other = await connect();
  await call(other, 'send_message', { session: 'watched', text: '/say Second' });
  await until(() => updates.length > 0);
  equal('who subscribes is told of others', updates[0], uri);
  await client.unsubscribeResource({ uri });
  let failed;
  await client.readResource({ uri: 'parley://sessions/nothing' }).catch((e) => (failed = e));
  check('one that is not there is not read', failed !== undefined);
  await Promise.all([client.close(), other.close()]);
}

async function decides() {
  const host = await connect({ elicitation: { form: {} } });
  let action = 'decline';
  const seen = [];
  host.setRequestHandler(ElicitRequestSchema, async ({ params }) => (seen.push(params.message), { action }));
  const left = await call(host, 'send_message', { session: 'left', text: '/ask Really?\n/say $reply' });
  equal('a form that is put away leaves the question open', [left.structuredContent.status, left.structuredContent.questions.length, seen], ['AWAITING_RESPONSE', 1, ['Really?']]);
  const patient = await connect({ elicitation: { form: {} } });
  let gone;
  patient.setRequestHandler(ElicitRequestSchema, (_, { signal }) => new Promise((go) => (signal.onabort = () => (gone = true, go({ action: 'cancel' })))));
  const waits = call(patient, 'send_message', { session: 'raced', text: '/ask Who?\n/say It is $reply' });
  const open = await until(async () => (await call(host, 'read_session', { session: 'raced' }).catch(() => undefined))?.structuredContent?.questions?.[0]);
  await call(host, 'answer', { session: 'raced', question: open.question, text: 'me', wait_seconds: 0 });
  equal('who is waited for elsewhere may be first', text(await waits), 'It is me');
  await until(() => gone);
  check('and the form goes away', gone === true);
  const stopping = new AbortController();
  const stopped = call(host, 'send_message', { session: 'given up', text: '/wait 1s\n/say Still done' }, { signal: stopping.signal }).catch((e) => e);
  await until(async () => (await call(host, 'read_session', { session: 'given up' }).catch(() => undefined))?.structuredContent?.tasks);
  stopping.abort('enough');
  await stopped;
  const done = await until(async () => (await call(host, 'read_session', { session: 'given up' })).structuredContent.lines[1]);
  equal('a call that is given up leaves the work alone', done.text, 'Still done');
  await Promise.all([host.close(), patient.close()]);
}

async function killed() {
  const client = await connect({ elicitation: { form: {} } });
  const other = await connect();
  const steps = [];
  const updates = [];
  const first = await call(client, 'send_message', { session: 'crash', text: '/say First' });
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => updates.push(n.params.uri));
  await client.subscribeResource({ uri: 'parley://sessions/' + first.structuredContent.session });
  let asked;
  client.setRequestHandler(ElicitRequestSchema, () => new Promise((go) => (asked = go)));
  const question = call(client, 'send_message', { session: 'asked', text: '/ask Which?\n/say You chose $reply' });
  await until(() => asked);
  const waits = call(client, 'send_message', { session: 'crash', text: '/stream 80 again', client_id: 'survives' }, { onprogress: (p) => steps.push(p) });
  await until(() => steps.length > 2 && updates.length > 0);
  await ask('kill');
  await ask('start');
  const r = await waits;
  equal('a call that a crash cuts off has its answer', [r.structuredContent.status, text(r).trim().split(' ').length], ['COMPLETE', 80]);
  check('and its progress goes on', steps.every((p, i) => i === 0 || p.progress > steps[i - 1].progress), steps.map((p) => p.progress));
  asked({ action: 'accept', content: { answer: 'B' } });
  equal('a form that was open is answered', text(await question), 'You chose B');
  const again = await call(client, 'send_message', { session: 'crash', text: '/stream 80 again', client_id: 'survives' });
  equal('the same call has the one answer', [again.structuredContent.message, text(again)], [r.structuredContent.message, text(r)]);
  const read = await call(client, 'read_session', { session: 'crash', since: 0 });
  equal('once in the session', read.structuredContent.lines.map((l) => l.role), ['user', 'assistant', 'user', 'assistant']);
  updates.length = 0;
  await call(other, 'send_message', { session: 'crash', text: '/say Later' });
  await until(() => updates.length > 0);
  check('a subscription outlives it', updates[0].endsWith(first.structuredContent.session), updates);
  await Promise.all([client.close(), other.close()]);
}

judge(async () => {
  for (const part of [plain, asked, resources, decides, killed]) {
    try {
      await part();
    } catch (e) {
      check(part.name, false, e?.stack ?? String(e));
    }
  }
});
