// The official OpenAI SDK for Node: Responses (HTTP, streams, WebSocket), Conversations, Chat
// Completions and Models.
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { ask, check, equal, judge, key, until, url } from './check.mjs';

const model = 'parley';
let client = new OpenAI({ apiKey: key, baseURL: url + '/v1', maxRetries: 0 });
const kinds = (events) => events.map((e) => e.type.replace('response.', '')).filter((k, i, all) => k !== all[i - 1]);
const growing = (events) => events.every((e, i) => i === 0 || e.sequence_number > events[i - 1].sequence_number);
const text = (events) => events.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join('');
const collect = async (stream, stop = () => false) => {
  const events = [];
  for await (const e of stream) {
    events.push(e);
    if (stop(e, events)) break;
  }
  return events;
};
const fails = async (name, kind, code, run) => {
  try {
    await run();
    check(name, false, 'it did not fail');
  } catch (e) {
    check(name, e instanceof kind && (code === undefined || e.code === code), `${e.constructor.name} ${e.status} ${e.code}: ${e.message}`);
  }
};

async function responses() {
  const r = await client.responses.create({ model, input: '/say Hello there' });
  equal('a response completes', [r.object, r.status, r.output_text], ['response', 'completed', 'Hello there']);
  equal('it has its receipt', r.metadata['parley.receipt'], 'answered');
  check('it has usage', r.usage.total_tokens > 0 && r.usage.input_tokens + r.usage.output_tokens === r.usage.total_tokens, r.usage);
  const again = await client.responses.retrieve(r.id);
  equal('it is retrieved as it was', [again.id, again.status, again.output_text, again.output[0].id], [r.id, 'completed', 'Hello there', r.output[0].id]);
  const next = await client.responses.create({ model, input: '/say Next', previous_response_id: r.id });
  equal('the next one is in the same conversation', [next.output_text, next.conversation.id], ['Next', r.conversation.id]);
  const items = await client.responses.inputItems.list(next.id);
  equal('its input is what was said', items.data.map((i) => i.content[0].text), ['/say Next']);
  const many = await client.responses.create({ model, input: '/parts one | two' });
  equal('several texts are several messages', many.output.map((o) => o.content[0].text), ['one', 'two']);
  const list = await client.responses.create({ model, input: [{ role: 'developer', content: 'be brief' }, { role: 'user', content: [{ type: 'input_text', text: '/say From a list' }] }] });
  equal('a list of messages', list.output_text, 'From a list');

  const events = await collect(await client.responses.create({ model, input: '/stream 5 word', stream: true }));
  equal('the events come in the documented order', kinds(events), ['created', 'in_progress', 'output_item.added', 'content_part.added', 'output_text.delta', 'output_text.done', 'content_part.done', 'output_item.done', 'completed']);
  check('their numbers grow', growing(events));
  equal('the pieces are the text', text(events), events.find((e) => e.type === 'response.output_text.done').text);
  const last = events.at(-1).response;
  equal('the last event has the whole response', [last.status, last.output[0].content[0].text], ['completed', text(events)]);
  const helper = client.responses.stream({ model, input: '/stream 3 go' });
  equal("the SDK's own accumulator agrees", (await helper.finalResponse()).output_text.trim(), 'go go go');
}

async function background() {
  const r = await client.responses.create({ model, input: '/stream 40 slow', background: true });
  check('in the background it is accepted at once', ['queued', 'in_progress'].includes(r.status), r.status);
  const first = await collect(await client.responses.retrieve(r.id, { stream: true }), (e, all) => text(all).split(' ').length > 5);
  const cut = first.at(-1).sequence_number;
  const rest = await collect(await client.responses.retrieve(r.id, { stream: true, starting_after: cut }));
  check('numbers go on behind starting_after', rest.every((e) => e.sequence_number > cut) && growing(rest));
  equal('without a gap or a double', text(first) + text(rest), rest.at(-1).response.output[0].content[0].text);
  const all = await collect(await client.responses.retrieve(r.id, { stream: true }));
  equal('the whole stream can be had again', [kinds(all)[0], kinds(all).at(-1), text(all)], ['created', 'completed', text(first) + text(rest)]);
  for (const at of [all[0], all[3], all.at(-2)]) {
    const tail = await collect(await client.responses.retrieve(r.id, { stream: true, starting_after: at.sequence_number }));
    equal('from anywhere in it: ' + at.type, tail.map((e) => e.sequence_number), all.map((e) => e.sequence_number).filter((n) => n > at.sequence_number));
  }

  const long = await client.responses.create({ model, input: '/stream 2000 never', background: true });
  await until(async () => (await client.responses.retrieve(long.id)).status === 'in_progress');
  const cancelled = await client.responses.cancel(long.id);
  equal('cancel ends it', cancelled.status, 'cancelled');
  equal('and again', (await client.responses.cancel(long.id)).status, 'cancelled');
  await fails('what has ended cannot be cancelled', OpenAI.BadRequestError, 'response_not_cancellable', () => client.responses.cancel(r.id));
}

async function killed() {
  const r = await client.responses.create({ model, input: '/stream 60 again', background: true });
  const first = await collect(await client.responses.retrieve(r.id, { stream: true }), (e, all) => text(all).split(' ').length > 10);
  await ask('kill');
  await ask('start');
  const cut = first.at(-1).sequence_number;
  const rest = await collect(await client.responses.retrieve(r.id, { stream: true, starting_after: cut }));
  const done = rest.at(-1).response;
  equal('killed in mid-answer it completes', done.status, 'completed');
  check('its numbers go on', rest.every((e) => e.sequence_number > cut) && growing(rest));
  // The text that was cut off is closed as incomplete, and another item has the whole one.
  const shown = new Map();
  for (const e of [...first, ...rest]) if (e.type === 'response.output_text.delta') shown.set(e.item_id, (shown.get(e.item_id) || '') + e.delta);
  const whole = done.output.filter((o) => o.status === 'completed');
  equal('the answer is there once', whole.length, 1);
  equal('and was streamed once, whole', shown.get(whole[0].id), whole[0].content[0].text);
  const closed = rest.filter((e) => e.type === 'response.output_item.done').map((e) => [e.item.id, e.item.status]);
  check('every item that began has ended', [...shown.keys()].every((id) => closed.some(([other]) => other === id)), closed);
}

async function conversations() {
  const c = await client.conversations.create({ metadata: { title: 'A talk' } });
  equal('a conversation has its title', [c.object, c.metadata.title], ['conversation', 'A talk']);
  const r = await client.responses.create({ model, input: '/say In it', conversation: c.id });
  equal('a response is in it', r.conversation.id, c.id);
  const items = await client.conversations.items.list(c.id, { order: 'asc' });
  equal('its items', items.data.map((i) => [i.role, i.content[0].text]), [['user', '/say In it'], ['assistant', 'In it']]);
  equal('one of them', (await client.conversations.items.retrieve(items.data[1].id, { conversation_id: c.id })).content[0].text, 'In it');
  const newest = await client.conversations.items.list(c.id, { limit: 1 });
  equal('the newest first, page by page', [newest.data[0].content[0].text, newest.has_more], ['In it', true]);
  equal('a name of its own', (await client.conversations.update(c.id, { metadata: { title: 'Another' } })).metadata.title, 'Another');
  const named = await client.responses.create({ model, input: '/say Named', metadata: { session: 'my-name' } });
  const same = await client.responses.create({ model, input: '/say Again', metadata: { session: 'my-name' } });
  equal('a session has a name of the client', named.conversation.id, same.conversation.id);
  equal('it is erased', (await client.conversations.delete(c.id)).deleted, true);
  await fails('and is gone', OpenAI.NotFoundError, undefined, () => client.conversations.retrieve(c.id));
}

const weather = { type: 'function', name: 'get_weather', description: 'The weather', parameters: { type: 'object', properties: { city: { type: 'string' } } }, strict: false };

async function tools() {
  const r = await client.responses.create({ model, input: '/tool get_weather {"city":"Oslo"}\n/say It is $result', tools: [weather] });
  const call = r.output.find((o) => o.type === 'function_call');
  equal("a call of the caller's own function", [r.status, call?.name, JSON.parse(call?.arguments ?? '{}').city], ['completed', 'get_weather', 'Oslo']);
  await fails('it wants its result', OpenAI.BadRequestError, 'missing_tool_output', () => client.responses.create({ model, input: 'hello?', previous_response_id: r.id, tools: [weather] }));
  await ask('kill');
  await ask('start');
  const output = { type: 'function_call_output', call_id: call.call_id, output: '{"temperature":-3}' };
  const done = await client.responses.create({ model, input: [output], previous_response_id: r.id, tools: [weather] });
  equal('after a crash, too, the result goes on', [done.status, done.output_text], ['completed', 'It is {"temperature":-3}']);
  check('it is another response of the same task', done.id !== r.id && done.metadata['parley.task'] === r.metadata['parley.task'], done.id);
  equal('the same result again is the same response', (await client.responses.create({ model, input: [output], previous_response_id: r.id, tools: [weather] })).id, done.id);
  equal('the first one is as it was', (await client.responses.retrieve(r.id)).output.map((o) => o.type), ['function_call']);
  const streamed = await collect(await client.responses.create({ model, input: '/tool get_weather {"city":"Rome"}\n/say ok', tools: [weather], stream: true }));
  equal('streamed', kinds(streamed).slice(2), ['output_item.added', 'function_call_arguments.delta', 'function_call_arguments.done', 'output_item.done', 'completed']);
  const runner = await client.chat.completions.runTools({
    model, messages: [{ role: 'user', content: '/tool get_weather {"city":"Bern"}\n/say Result $result' }],
    tools: [{ type: 'function', function: { name: 'get_weather', parameters: weather.parameters, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` } }],
  });
  equal("the SDK's own loop of tools", await runner.finalContent(), 'Result sunny in Bern');
}

async function questions() {
  const r = await client.responses.create({ model, input: '/ask Which one? [A/B]\n/say You chose $reply' });
  equal('a question is what the assistant says', [r.status, r.output_text], ['completed', 'Which one?\n\n1. A\n2. B']);
  check('and is named', r.metadata['parley.question'] !== undefined, r.metadata);
  const done = await client.responses.create({ model, input: 'B', previous_response_id: r.id });
  equal('the next text answers it', done.output_text, 'You chose B');
}

async function approvals() {
  const go = (input, rest) => client.responses.create({ model, input, ...rest });
  const asked = await go('/tool hi_greet {"name":"Max"}\n/say At $result');
  const request = asked.output.find((o) => o.type === 'mcp_approval_request');
  equal('a call of ours that must be allowed is an approval', [asked.status, request?.name, request?.server_label], ['completed', 'hi_greet', 'parley']);
  const allowed = await go([{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true }], { previous_response_id: asked.id });
  check('allowed, it goes on', allowed.output_text.startsWith('At ') && allowed.metadata['parley.task'] === asked.metadata['parley.task'], allowed.output_text);
  check('our own calls are hidden', allowed.output.every((o) => o.type === 'message'), allowed.output);
  const other = await go('/tool hi_greet {"name":"Max"}\n/say Then $result');
  const declined = await go([{ type: 'mcp_approval_response', approval_request_id: other.output[0].id, approve: false }], { previous_response_id: other.id });
  check('declined, too', declined.status === 'completed' && declined.output_text.startsWith('Then ') && declined.output_text !== allowed.output_text.replace('At', 'Then'), declined.output_text);
  const items = await client.conversations.items.list(asked.conversation.id, { order: 'asc' });
  equal('the conversation has both', items.data.map((i) => i.type), ['message', 'mcp_approval_request', 'mcp_approval_response', 'message']);
  const chat = await client.chat.completions.create({ model, user: 'bea', messages: [{ role: 'user', content: '/tool hi_greet {"name":"Bea"}\n/say Well, $result' }] });
  check('a completion asks in words', chat.choices[0].message.content.includes('hi_greet'), chat.choices[0].message);
  const yes = await client.chat.completions.create({ model, user: 'bea', messages: [{ role: 'user', content: 'yes' }] });
  check('and takes a yes', yes.choices[0].message.content.startsWith('Well, '), yes.choices[0].message);
}

async function chatTools() {
  const body = { model, messages: [{ role: 'user', content: '/tool get_weather {"city":"Oslo"}\n/say It is $result' }], tools: [{ type: 'function', function: { name: 'get_weather', parameters: weather.parameters } }] };
  const stream = client.chat.completions.stream({ ...body });
  const first = (await stream.finalChatCompletion()).choices[0];
  equal("the SDK's own stream has the call", [first.finish_reason, first.message.tool_calls[0].function.arguments], ['tool_calls', '{"city":"Oslo"}']);
  const more = [...body.messages, first.message, { role: 'tool', tool_call_id: first.message.tool_calls[0].id, content: 'cold' }];
  const text = await client.chat.completions.stream({ ...body, messages: more }).finalContent();
  equal('its result finds the task by the id of the call', text, 'It is cold');
}

async function drained() {
  const r = await client.responses.create({ model, input: '/stream 80 on', background: true });
  const events = [];
  let failed;
  const reading = (async () => {
    try {
      for await (const e of await client.responses.retrieve(r.id, { stream: true })) events.push(e);
    } catch (e) {
      failed = e;
    }
  })();
  await until(() => text(events).split(' ').length > 5);
  await ask('stop');
  await reading;
  check('a stream that a drain cuts off does not look whole', failed !== undefined || events.at(-1).type === 'response.completed', events.at(-1)?.type);
  await ask('start');
  const rest = await collect(await client.responses.retrieve(r.id, { stream: true, starting_after: events.at(-1).sequence_number }));
  const last = [...events, ...rest].at(-1);
  equal('after it the response ends', last.response.status, 'completed');
}

async function completions() {
  const ask1 = { model, messages: [{ role: 'system', content: 'brief' }, { role: 'user', content: '/say Hi' }, { role: 'assistant', content: 'Hi' }, { role: 'user', content: '/say Hello again' }] };
  const c = await client.chat.completions.create(ask1);
  equal('a completion', [c.object, c.choices[0].message.content, c.choices[0].finish_reason], ['chat.completion', 'Hello again', 'stop']);
  const stream = await client.chat.completions.create({ ...ask1, stream: true, stream_options: { include_usage: true } });
  let said = '', finish, usage;
  for await (const chunk of stream) {
    said += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  equal('in chunks', [said, finish, usage?.total_tokens > 0], ['Hello again', 'stop', true]);
  const one = await client.chat.completions.create({ model, user: 'ann', messages: [{ role: 'user', content: '/ask Really?\n/say $reply it is' }] });
  equal('a question in a completion', one.choices[0].message.content, 'Really?');
  const two = await client.chat.completions.create({ model, user: 'ann', messages: [{ role: 'user', content: 'yes' }] });
  equal('user names the session, so it is answered', two.choices[0].message.content, 'yes it is');
}

async function others() {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  check('models are the agents', ids.includes('parley') && ids.includes('coordinator'), ids);
  equal('one of them', (await client.models.retrieve('coordinator')).id, 'coordinator');
  await fails('an unknown model', OpenAI.NotFoundError, 'model_not_found', () => client.responses.create({ model: 'gpt-0', input: 'x' }));
  await fails('an unknown response', OpenAI.NotFoundError, undefined, () => client.responses.retrieve('resp_nothing'));
  await fails('an unknown previous response', OpenAI.BadRequestError, 'previous_response_not_found', () => client.responses.create({ model, input: 'x', previous_response_id: 'resp_t1-nothing' }));
  await fails('an unknown conversation', OpenAI.NotFoundError, undefined, () => client.responses.create({ model, input: 'x', conversation: 'conv_nothing' }));
  await fails('no input', OpenAI.BadRequestError, 'missing_required_parameter', () => client.responses.create({ model }));
  await fails('a tool of the server', OpenAI.BadRequestError, 'unsupported_parameter', () => client.responses.create({ model, input: 'x', tools: [{ type: 'web_search' }] }));
  await fails('a body that is too large', OpenAI.APIError, 'too_large', () => client.responses.create({ model, input: 'x'.repeat(2 << 20) }));
  await fails('a body that is far too large', OpenAI.APIError, 'too_large', () => client.responses.create({ model, input: 'x'.repeat(6 << 20) }));
  await fails('two answers at once', OpenAI.BadRequestError, 'unsupported_parameter', () => client.chat.completions.create({ model, n: 2, messages: [{ role: 'user', content: 'x' }] }));
  const options = { idempotencyKey: 'once', headers: { 'Idempotency-Key': 'once' } };
  const a = await client.responses.create({ model, input: '/say Once' }, options);
  const b = await client.responses.create({ model, input: '/say Once' }, options);
  equal('said again under the same key it is the same response', [a.id, a.output_text], [b.id, 'Once']);
}

async function socket() {
  const ws = new ResponsesWS(client);
  const got = [];
  const waiting = [];
  ws.on('event', (e) => {
    got.push(e);
    for (const w of waiting.splice(0)) w();
  });
  ws.on('error', (e) => got.push({ type: 'error', error: e }));
  const event = (fits) => until(() => got.find(fits));
  ws.send({ type: 'response.create', model, input: '/wait 300ms\n/say first', metadata: { session: 'ws' } });
  const { response } = await event((e) => e.type === 'response.created');
  ws.send({ type: 'response.steer', previous_response_id: response.id, input: '/say steered' });
  equal('a steer is accepted', (await event((e) => e.type.startsWith('response.steer'))).type, 'response.steer.accepted');
  const steered = await event((e) => e.type === 'response.incomplete');
  equal('the response ends where it is read', [steered.response.id, steered.response.incomplete_details.reason], [response.id, 'steered']);
  const next = (await event((e) => e.type === 'response.created' && e.response.id !== response.id)).response;
  equal('and the next one begins', next.previous_response_id, response.id);
  const done = await event((e) => e.type === 'response.completed');
  const texts = [...steered.response.output, ...done.response.output].map((o) => o.content[0].text);
  check('both have been answered', done.response.id === next.id && texts.includes('first') && texts.includes('steered'), texts);
  equal('retrieved it is the same', (await client.responses.retrieve(response.id)).incomplete_details?.reason, 'steered');
  ws.send({ type: 'response.steer', previous_response_id: response.id, input: 'late' });
  equal('too late it fails', (await event((e) => e.type === 'response.steer.failed')).error.code, 'response_already_completed');
  ws.send({ type: 'response.create', model, input: '/say second', previous_response_id: response.id });
  equal('another response on the same socket', (await event((e) => e.type === 'response.completed' && e.response.id !== next.id)).response.output[0].content[0].text, 'second');
  ws.close();
}

// Killed between a steer and the step that reads it, and in the middle of what is said to it.
async function steeredAndKilled() {
  for (const late of [false, true]) {
    const when = late ? 'killed in the answer to a steer' : 'killed before a steer is read';
    const got = [];
    const ws = new ResponsesWS(client);
    ws.on('event', (e) => got.push(e));
    ws.on('error', () => {});
    const event = (fits) => until(() => got.find(fits));
    ws.send({ type: 'response.create', model, input: '/stream 30 first' });
    const { response } = await event((e) => e.type === 'response.created');
    ws.send({ type: 'response.steer', previous_response_id: response.id, input: '/stream 30 steered' });
    await event((e) => e.type === 'response.steer.accepted');
    const unaware = collect(await client.responses.retrieve(response.id, { stream: true })).catch(() => []);
    let seen = [];
    if (late) {
      await event((e) => e.type === 'response.output_text.delta' && e.delta.includes('steered'));
      const last = (await unaware).at(-1);
      equal('a stream of who has not steered ends there, too, and says what is next',
        [last.type, last.response.incomplete_details.reason, last.response.metadata['parley.next']],
        ['response.incomplete', 'steered', got.findLast((e) => e.type === 'response.created').response.id]);
    }
    await ask('kill');
    await ask('start');
    seen = got.slice(got.findLastIndex((e) => e.type === 'response.created'));
    const first = await until(async () => { const r = await client.responses.retrieve(response.id); return r.status === 'incomplete' && r; });
    equal(when + ' the response ends as steered', [first.incomplete_details.reason, first.output_text.trim()], ['steered', 'first '.repeat(30).trim()]);
    const next = first.metadata['parley.next'];
    const rest = await collect(await client.responses.retrieve(next, late ? { stream: true, starting_after: seen.at(-1).sequence_number } : { stream: true }));
    const done = rest.at(-1).response;
    equal(when + ' the next one completes', [done.id, done.status, done.output_text ?? done.output.map((o) => o.content[0].text).join('').trim()], [next, 'completed', 'steered '.repeat(30).trim()]);
    check(when + ' numbers grow', growing(late ? [...seen, ...rest] : rest));
    const input = async (id) => (await client.responses.inputItems.list(id)).data.map((i) => i.content[0].text);
    equal(when + ' each has its input', [await input(response.id), await input(next)], [['/stream 30 first'], ['/stream 30 steered']]);
    const items = await client.conversations.items.list(first.conversation.id, { order: 'asc' });
    equal(when + ' the conversation has each text once', items.data.filter((i) => i.role === 'assistant').map((i) => i.content[0].text.split(' ')[0]), ['first', 'steered']);
    await fails(when + ' the first one cannot be cancelled', OpenAI.BadRequestError, 'response_not_cancellable', () => client.responses.cancel(response.id));
    const after = await client.responses.create({ model, input: '/say After', previous_response_id: response.id });
    equal(when + ' the conversation goes on', [after.output_text, after.conversation.id], ['After', first.conversation.id]);
    ws.close();
  }
}

judge(async () => {
  for (const part of [responses, background, conversations, questions, approvals, completions, chatTools, others, socket, tools, drained, killed, steeredAndKilled]) {
    try {
      await part();
    } catch (e) {
      check(part.name, false, e?.stack ?? String(e));
    }
  }
});
