// AG-UI 1.0, by HttpAgent of @ag-ui/client, unmodified: its verifier looks at every event of every run,
// and it warns of each member that the protocol does not have.
import { HttpAgent, buildResumeArray } from '@ag-ui/client';
import { ask, check, equal, judge, until, url } from './check.mjs';

const api = async (method, path, body) => (await fetch(url + path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })).json();

let threads = 0;
const thread = () => `agui-${process.pid}-${++threads}`;
const open = (threadId = thread(), more = {}) => new HttpAgent({ url: url + '/agui', threadId, ...more });

let ids = 0;
const user = (content, id = `u-${++ids}`) => ({ id, role: 'user', content });

/** Runs an agent, and gives what it was told: all events, the outcome, the new messages. */
async function run(agent, parameters = {}) {
  const events = [];
  let end;
  const { newMessages } = await agent.runAgent(parameters, {
    onEvent: ({ event }) => void events.push(event),
    onRunFinishedEvent: (e) => void (end = e),
    onRunErrorEvent: ({ event }) => void (end = { outcome: 'error', event }),
  });
  return { events, end, outcome: end?.outcome, newMessages, types: events.map((e) => e.type) };
}
const say = (agent, content, parameters) => (agent.addMessage(user(content)), run(agent, parameters));
const texts = (messages, role = 'assistant') => messages.filter((m) => m.role === role && m.content).map((m) => m.content);
const seen = (agent) => agent.messages.map((m) => [m.id, m.role, m.content ?? m.toolCalls]);
const named = (events, name) => events.filter((e) => e.type === 'CUSTOM' && e.name === name).map((e) => e.value);

/** A fetch that goes on behind the last event that came whole, whenever the connection breaks. */
function resuming(count = { breaks: 0 }) {
  const fetching = async (address, init) => {
    const first = await fetch(address, init);
    const follow = first.headers.get('content-location');
    if (!first.ok || !follow) return first;
    const text = new TextDecoder(), bytes = new TextEncoder();
    let body = first.body.getReader(), buffer = '', last = '';
    return new Response(new ReadableStream({
      async pull(out) {
        for (;;) {
          let done = false, value;
          try { ({ done, value } = await body.read()); } catch { done = 'broken'; }
          if (value) {
            buffer += text.decode(value, { stream: true });
            // Events without an id belong to the one behind them.
            const whole = [...buffer.matchAll(/^id: (\d+)\n(?:.+\n)*\n/gm)].at(-1);
            if (!whole) continue;
            last = whole[1];
            const end = whole.index + whole[0].length;
            out.enqueue(bytes.encode(buffer.slice(0, end)));
            buffer = buffer.slice(end);
            return;
          }
          if (done === true && fetching.ended) return out.close();
          count.breaks++;
          for (buffer = ''; ;) {
            await new Promise((go) => setTimeout(go, 50));
            try {
              const again = await fetch(new URL(follow, address), { headers: { ...init.headers, 'Last-Event-ID': last }, signal: init.signal });
              if (again.ok) { body = again.body.getReader(); break; }
            } catch { /* it is not back yet */ }
          }
        }
      },
    }), { headers: first.headers });
  };
  return fetching;
}

const warnings = []; // of the client, about what it does not know
console.warn = (...words) => void warnings.push(words.join(' '));

judge(async () => {
  // A first answer.
  const agent = open();
  let r = await say(agent, '/say Hello');
  equal('the answer is a message', texts(r.newMessages), ['Hello']);
  equal('the run begins and ends', [r.types[0], r.types.at(-1), r.outcome], ['RUN_STARTED', 'RUN_FINISHED', 'success']);
  equal('it speaks version 1.0', r.events[0].protocolVersion, '1.0');
  check('a new thread has no snapshot', !r.types.includes('MESSAGES_SNAPSHOT'));
  equal('the receipt says what became of the message', named(r.events, 'parley.receipt').map((v) => [v.messageId, v.how]), [['u-1', 'answered']]);
  check('it tells its usage', r.end.event.usage?.[0]?.outputTokens > 0, r.end.event.usage);

  r = await say(agent, '/stream 20 word');
  check('a text streams', r.types.filter((t) => t === 'TEXT_MESSAGE_CONTENT').length > 5, r.types);
  equal('and is whole', texts(r.newMessages), [Array(20).fill('word').join(' ')]);
  check('a list that lacks nothing gets no snapshot', !r.types.includes('MESSAGES_SNAPSHOT'));
  equal('the list of messages', texts(agent.messages, 'user').length + texts(agent.messages).length, 4);

  // The same again.
  const before = seen(agent);
  const again = open(agent.threadId, { initialMessages: agent.messages.slice(0, -1) });
  r = await run(again);
  equal('said again it takes effect once, and is told again', [seen(again), r.outcome], [before, 'success']);
  const partial = agent.messages.slice(0, -1).concat({ ...agent.messages.at(-1), content: 'word wo' });
  const cut = open(agent.threadId, { initialMessages: partial });
  r = await run(cut);
  equal('a text that was cut off is whole then', seen(cut), before);
  const { items: tasks } = await api('GET', `/api/tasks?session=${named(r.events, 'parley.run')[0].task.split('-')[1]}`);
  equal('there are two tasks', tasks.length, 2);

  // The client's own tools.
  const weather = { name: 'get_weather', description: 'The weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } } } };
  const tooled = open();
  r = await say(tooled, '/tool get_weather {"city":"Oslo"}\n/say It is $result', { tools: [weather] });
  equal('a call of its tool ends the run', [r.outcome, r.end.pendingToolCallIds?.length], ['success', 1]);
  const call = tooled.messages.flatMap((m) => m.toolCalls ?? [])[0];
  equal('with what it is to do', [call.id, call.function], [r.end.pendingToolCallIds[0], { name: 'get_weather', arguments: '{"city":"Oslo"}' }]);
  check('nobody else answers it', !r.types.includes('TOOL_CALL_RESULT'));
  tooled.addMessage({ id: 'result-1', role: 'tool', toolCallId: call.id, content: '{"sky":"\\"clear\\""}' });
  r = await run(tooled, { tools: [weather] });
  equal('its result goes on with the task', [texts(r.newMessages), r.outcome], [['It is {"sky":"\\"clear\\""}'], 'success']);
  check('it is not told what it has', !r.types.includes('TOOL_CALL_RESULT') && !r.types.includes('MESSAGES_SNAPSHOT'), r.types);
  const list = seen(tooled);
  const lost = open(tooled.threadId, { initialMessages: tooled.messages.slice(0, -1) });
  await run(lost, { tools: [weather] });
  equal('a result that is sent again is taken once', seen(lost), list);

  // Questions.
  const asked = open();
  r = await say(asked, '/ask Which one? [OAuth/JWT]\n/say You chose $reply');
  equal('a question interrupts', [r.outcome, r.end.interrupts?.map((i) => [i.reason, i.message, i.responseSchema.enum])], ['interrupt', [['input_required', 'Which one?', ['OAuth', 'JWT']]]]);
  const refused = await run(asked).then(() => 'ran', (e) => e.message);
  check('the client itself wants it answered', /pending interrupt/.test(refused), refused);
  r = await run(asked, { resume: buildResumeArray(asked.pendingInterrupts, { [asked.pendingInterrupts[0].id]: { status: 'resolved', payload: 'JWT' } }) });
  equal('its answer goes on with the task', [texts(r.newMessages), r.outcome], [['You chose JWT'], 'success']);
  check('from the answer on', r.types.indexOf('TEXT_MESSAGE_START') > 0 && !named(r.events, 'parley.question').length && !r.types.includes('MESSAGES_SNAPSHOT'), r.types);

  // Two at once, answered in the other order, one at a time.
  const two = open();
  r = await say(two, '/ask First?\n/say First is $reply');
  const first = r.end.interrupts[0].id;
  two.addMessage(user('/ask Second?\n/say Second is $reply'));
  r = await run(two, { resume: [{ interruptId: first, status: 'cancelled' }] });
  const second = r.end.interrupts?.at(-1).id;
  check('a second one waits beside it', r.outcome === 'interrupt' && second !== first, r.end);
  r = await run(two, { resume: [{ interruptId: second, status: 'resolved', payload: 'b' }] });
  equal('the second is answered first', [texts(r.newMessages), r.outcome], [['Second is b'], 'success']);
  r = await run(two, { resume: [{ interruptId: first, status: 'resolved', payload: 'a' }] });
  equal('and the first is still open', [texts(r.newMessages), r.outcome], [['First is a'], 'success']);
  r = await run(two, { resume: [{ interruptId: first, status: 'resolved', payload: 'c' }] });
  equal('an answer to what is closed is passed over, and the client is told', named(r.events, 'parley.ignored').map((v) => v.id), [first]);
  const given = open();
  r = await say(given, '/ask Really?');
  r = await run(given, { resume: [{ interruptId: r.end.interrupts[0].id, status: 'cancelled' }] });
  equal('what is only given up is cancelled', r.outcome, 'cancelled');

  // Approvals.
  const approving = open();
  r = await say(approving, '/tool hi_greet {"name":"Max"}\n/say At $result');
  equal('an approval is an interrupt of its call', [r.outcome, r.end.interrupts?.[0].reason, r.types.filter((t) => t.startsWith('TOOL_CALL'))],
    ['interrupt', 'tool_call', ['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END']]);
  r = await run(approving, { resume: [{ interruptId: r.end.interrupts[0].id, status: 'resolved', payload: { approved: true } }] });
  equal('then it runs, and its result is told', [r.outcome, r.types.filter((t) => t.startsWith('TOOL_CALL'))], ['success', ['TOOL_CALL_RESULT']]);
  r = await say(approving, '/tool hi_greet {"name":"Max"}\n/say Then $result');
  r = await run(approving, { resume: [{ interruptId: r.end.interrupts[0].id, status: 'resolved', payload: { approved: false } }] });
  equal('or it is declined', [r.outcome, r.events.find((e) => e.type === 'TOOL_CALL_RESULT')?.metadata.parley.status], ['success', 'denied']);

  // Other agents.
  const lead = open();
  r = await say(lead, '/delegate developer /say Built\n/say It says: $result');
  equal('a delegation is a subagent', [r.types.filter((t) => t.startsWith('SUBAGENT')), r.events.find((e) => e.type === 'SUBAGENT_STARTED')?.name, r.outcome],
    [['SUBAGENT_STARTED', 'SUBAGENT_FINISHED'], 'developer', 'success']);

  // Others speak.
  const shared = open();
  await say(shared, '/say One');
  const session = named((await run(shared)).events, 'parley.run')[0].task.split('-')[1];
  await api('POST', `/api/sessions/${session}/messages?wait=30s`, { text: '/say Two', client_msg_id: 'other', mode: 'queue' });
  r = await say(shared, '/say Three');
  equal('what others said comes in its place', shared.messages.map((m) => m.content), ['/say One', 'One', '/say Two', 'Two', '/say Three', 'Three']);
  const newcomer = open(shared.threadId);
  await run(newcomer);
  equal('a new client is shown the thread', newcomer.messages.map((m) => m.content), shared.messages.map((m) => m.content));

  // Steering.
  const slow = open();
  let works = false;
  slow.subscribe({ onCustomEvent: ({ event }) => void (works ||= event.name === 'parley.run') });
  const running = say(slow, '/wait 400ms\n/say Waited');
  const steering = open(slow.threadId);
  await until(() => works);
  const joined = await say(steering, '/say Steered', { forwardedProps: { parley: { mode: 'steer' } } });
  const held = await running;
  equal('a steer joins the task that runs', named(joined.events, 'parley.run')[0].task, named(held.events, 'parley.run')[0].task);
  check('and both see the answers', ['Waited', 'Steered'].every((t) => texts(steering.messages).includes(t) && texts(slow.messages).includes(t)), [slow.messages, steering.messages]);

  // Stopping.
  const stopped = open();
  const stopping = say(stopped, '/stream 2000 word');
  await until(async () => texts(stopped.messages).length > 0);
  await api('POST', `/agui/${stopped.threadId}/cancel`, {});
  equal('a cancelled run says so', (await stopping).outcome, 'cancelled');
  const left = open();
  left.addMessage(user('/stream 30 word'));
  const leaving = run(left);
  await until(async () => texts(left.messages).length > 0);
  left.abortRun();
  await leaving.catch(() => {});
  r = await run(left);
  equal('an aborted one goes on, and is followed again', [texts(left.messages), r.outcome], [[Array(30).fill('word').join(' ')], 'success']);

  // Refusals.
  const bad = async (body) => { const a = await fetch(url + '/agui', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }); return [a.status, (await a.json()).code]; };
  equal('what is no input is refused', [await bad('{'), await bad('{}'), await bad('{"threadId":"t","runId":"r","messages":7}')], [[400, 'invalid_json'], [400, 'bad_request'], [400, 'bad_request']]);
  const missing = await fetch(`${url}/agui/nowhere/runs/t1-nowhere`);
  equal('a run that is not there', [missing.status, (await missing.json()).code], [404, 'not_found']);

  // A crash in the middle of an answer.
  const count = { breaks: 0 };
  const fetching = resuming(count);
  const crashed = open(thread(), { fetch: fetching });
  const words = [];
  crashed.subscribe({ onRunFinishedEvent: () => void (fetching.ended = true), onTextMessageContentEvent: ({ event }) => void words.push(event.delta) });
  await say(crashed, '/say before');
  fetching.ended = false;
  const answering = say(crashed, '/stream 150 word');
  await until(async () => words.length > 20);
  await ask('kill');
  await ask('start');
  r = await answering;
  equal('a crash leaves no gap and no double', texts(r.newMessages.slice(-1)), [Array(150).fill('word').join(' ')]);
  equal('the client knows all that it was sent', warnings, []);
  check('it was one stream for the client', count.breaks > 0 && r.outcome === 'success' && r.types.filter((t) => t === 'RUN_STARTED').length === 1, { breaks: count.breaks, outcome: r.outcome });
});
