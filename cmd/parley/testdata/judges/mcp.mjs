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

async function killed() {
  let client = await connect();
  const waits = call(client, 'send_message', { session: 'crash', text: '/stream 80 again', client_id: 'survives' }).catch((e) => e);
  await until(async () => {
    const other = await connect();
    const seen = await call(other, 'read_session', { session: 'crash' }).catch(() => undefined);
    await other.close();
    return seen?.structuredContent?.tasks?.[0]?.status === 'RUNNING';
  });
  await ask('kill');
  await ask('start');
  await client.close().catch(() => {});
  client = await connect();
  const r = await call(client, 'send_message', { session: 'crash', text: '/stream 80 again', client_id: 'survives' });
  equal('after a crash the same call has the one answer', [r.structuredContent.status, text(r).trim().split(' ').length], ['COMPLETE', 80]);
  const read = await call(client, 'read_session', { session: 'crash' });
  equal('once in the session', read.structuredContent.lines.map((l) => l.role), ['user', 'assistant']);
  await client.close();
  await Promise.race([waits, new Promise((go) => setTimeout(go, 100))]);
}

judge(async () => {
  for (const part of [plain, asked, resources, killed]) {
    try {
      await part();
    } catch (e) {
      check(part.name, false, e?.stack ?? String(e));
    }
  }
});
