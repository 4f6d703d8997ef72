// The package ai, as a page has it: AbstractChat is what useChat keeps its state in, and
// DefaultChatTransport what it speaks. Only where the state lies is ours.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls, safeValidateUIMessages } from 'ai';
import { ask, check, equal, judge, until, url } from './check.mjs';

class Chat extends AbstractChat {
  constructor({ messages = [], ...init }) {
    super({
      ...init,
      state: {
        status: 'ready', error: undefined, messages: [...messages],
        pushMessage(m) { this.messages = [...this.messages, structuredClone(m)]; },
        popMessage() { this.messages = this.messages.slice(0, -1); },
        replaceMessage(i, m) { this.messages = this.messages.with(i, structuredClone(m)); },
        snapshot: (x) => structuredClone(x),
      },
    });
  }
  last() { return this.messages.at(-1) ?? { parts: [], metadata: {} }; }
  told() { return this.last().role === 'assistant' ? texts(this.last()) : ''; }
}

const api = url + '/api/ui/chat';
let requests = 0;
const counted = (...args) => { requests++; return fetch(...args); };
const transport = new DefaultChatTransport({ api, fetch: counted });
let chats = 0;
const open = (init = {}) => new Chat({ id: `chat-${process.pid}-${++chats}`, transport, ...init });
const read = async (id) => (await fetch(`${api}/${id}`)).json();
const texts = (m) => m.parts.filter((p) => p.type === 'text').map((p) => p.text).join('|');
const tools = (m) => m.parts.filter((p) => p.toolCallId);
// The members of an object in one order, and of a user's message only what the page knows itself.
const sorted = (x) => (Array.isArray(x) ? x.map(sorted) : x && typeof x === 'object' ? Object.fromEntries(Object.keys(x).sort().map((k) => [k, sorted(x[k])])) : x);
const shown = (messages) => sorted(JSON.parse(JSON.stringify(messages.map((m) => (m.role === 'user' ? { id: m.id, role: m.role, parts: m.parts } : m)))));
const reloads = async (name, chat) => {
  const { messages } = await read(chat.id);
  equal(name + ': a page that is loaded again shows the same', shown(messages), shown(chat.messages));
  const valid = await safeValidateUIMessages({ messages });
  check(name + ': and the SDK takes it', valid.success, valid.error?.message);
};
// A server that was killed refuses connections until it is there again.
const started = () => until(async () => (await fetch(url + '/readyz').catch(() => ({}))).ok);

judge(async () => {
  // Send.
  {
    const ended = [];
    const chat = open({ onFinish: (e) => ended.push(e.finishReason) });
    equal('a chat that is new has nothing to resume', await chat.resumeStream().then(() => chat.status), 'ready');
    equal('a chat that is new is not there', (await fetch(`${api}/${chat.id}`)).status, 404);
    await chat.sendMessage({ text: '/partial One moment\n/tool clock {}\n/say It is $result' });
    check('an answer of two texts', /^One moment\|It is /.test(chat.told()), chat.messages);
    equal('it has ended', [chat.status, ended], ['ready', ['stop']]);
    equal('the tool is shown, and is not the page\'s', tools(chat.last()).map((t) => [t.toolName, t.state, t.providerExecuted]), [['clock', 'output-available', true]]);
    const said = chat.messages[0].id;
    equal('the receipt', [chat.last().metadata.receipts[said].how, chat.last().metadata.status], ['answered', 'COMPLETE']);
    await reloads('send', chat);
    const again = open({ id: chat.id, messages: (await read(chat.id)).messages });
    equal('after the answer there is nothing new to resume', await again.resumeStream().then(() => [again.status, again.messages.length]), ['ready', 2]);
    await reloads('resumed', again);
    await again.sendMessage({ text: '/say And again' });
    equal('a page that was loaded again goes on', again.messages.map((m) => m.role), ['user', 'assistant', 'user', 'assistant']);
    await reloads('go on', again);
  }
  // A text that counts no more: the model's stream is cut, and it is asked again.
  {
    const chat = open();
    const seen = new Set();
    const sending = chat.sendMessage({ text: '/fail truncated\n/stream 8 word\n/say End' });
    let sends = true;
    sending.finally(() => { sends = false; });
    await until(() => { seen.add(texts(chat.last())); return !sends; });
    equal('what was cut off is not shown twice', chat.told().split('|').at(-1), 'End');
    await reloads('cut off', chat);
  }
  // Two tabs, one of which only watches.
  {
    const one = open();
    const sending = one.sendMessage({ text: '/stream 60 word\n/say End' });
    await until(() => one.told().length > 20);
    const two = open({ id: one.id, messages: (await read(one.id)).messages });
    await Promise.all([sending, two.resumeStream()]);
    equal('both tabs have the same', shown(two.messages), shown(one.messages));
    equal('all of it', one.told(), 'word '.repeat(60).trim() + '|End');
    await reloads('two tabs', one);
  }
  // A page that goes away ends nothing, and comes back.
  {
    const chat = open();
    const sending = chat.sendMessage({ text: '/stream 60 word\n/say End' });
    await until(() => chat.told().length > 20);
    await chat.stop(); // of the page alone: it reads no more
    await sending;
    check('the page has stopped in the middle', chat.told().length < 200, chat.told());
    equal('the work goes on', (await read(chat.id)).active, true);
    await chat.resumeStream();
    equal('resumed, without a gap or a double', chat.told(), 'word '.repeat(60).trim() + '|End');
    await reloads('resume', chat);
  }
  // Stop is a command.
  {
    const ended = [];
    const chat = open({ onFinish: (e) => ended.push(e.finishReason) });
    const sending = chat.sendMessage({ text: '/stream 500 word\n/say End' });
    await until(() => chat.told().length > 20);
    const stopped = await fetch(`${api}/${chat.id}/stop`, { method: 'POST' });
    equal('it is stopped', [stopped.status, (await stopped.json()).messageId], [202, chat.last().id]);
    await sending;
    equal('the page learns it', [ended, chat.last().metadata.status], [['interrupted'], 'CANCELLED']);
    equal('there is nothing left to stop', (await fetch(`${api}/${chat.id}/stop`, { method: 'POST' })).status, 204);
    await reloads('stop', chat);
  }
  // kill -9 in the middle of an answer.
  {
    let failed;
    const chat = open({ onError: (e) => { failed = e; } });
    const sending = chat.sendMessage({ text: '/stream 60 word\n/say End' });
    await until(() => chat.told().length > 20);
    await ask('kill');
    await sending;
    check('the page knows that the answer is not whole', failed && chat.status === 'error', chat.status);
    await ask('start');
    await started();
    await chat.resumeStream();
    equal('after the crash, without a gap or a double', chat.told(), 'word '.repeat(60).trim() + '|End');
    await reloads('kill', chat);
  }
  // A server that goes away in good order: a stream that ended would be an answer that is whole.
  {
    const chat = open({ onError: () => {} });
    const sending = chat.sendMessage({ text: '/stream 60 word\n/say End' });
    await until(() => chat.told().length > 20);
    await ask('stop');
    await sending;
    check('a server that stops does not end the answer in the middle', chat.status === 'error' || chat.told().endsWith('|End'), chat.told());
    await ask('start');
    await started();
    await chat.resumeStream();
    equal('after the restart, without a gap or a double', chat.told(), 'word '.repeat(60).trim() + '|End');
    await reloads('restart', chat);
  }
  // A client that keeps the ids of the events is told only the rest.
  {
    let seen = '';
    const keeps = async (...args) => {
      const r = await fetch(...args);
      const [mine, theirs] = r.body?.tee() ?? [];
      if (mine) (async () => {
        try { for await (const b of mine.pipeThrough(new TextDecoderStream())) seen = [...b.matchAll(/^id: (\d+)/gm)].at(-1)?.[1] ?? seen; } catch { /* it was cut off */ }
      })();
      return new Response(theirs, r);
    };
    let failed = false;
    const chat = open({
      onError: () => { failed = true; },
      transport: new DefaultChatTransport({ api, fetch: keeps, resumeStreamIsReplay: false, prepareReconnectToStreamRequest: () => ({ headers: { 'Last-Event-ID': seen } }) }),
    });
    const sending = chat.sendMessage({ text: '/partial Before\n/stream 60 word\n/say End' });
    await until(() => chat.told().length > 30);
    await ask('kill');
    await sending;
    await ask('start');
    await started();
    if (!failed) check('it was cut off', false);
    const back = open({ id: chat.id, messages: chat.messages });
    await back.resumeStream();
    equal('after a crash with ids, told from its beginning', back.told(), 'Before|' + 'word '.repeat(60).trim() + '|End');
    const r = await fetch(`${api}/${chat.id}/stream?message=${back.last().id}`, { headers: { 'Last-Event-ID': seen } });
    check('with the last id only the rest', !(await r.text()).includes('Before'));
    await reloads('ids', back);
  }
  // The same of a message whose task has ended by the time the page is back.
  {
    const chat = open({ onError: () => {} });
    const sending = chat.sendMessage({ text: '/stream 30 word\n/say End' });
    await until(() => chat.told().length > 20);
    await chat.stop();
    await sending;
    await until(async () => !(await read(chat.id)).active);
    const back = new Chat({
      id: chat.id, messages: chat.messages,
      transport: new DefaultChatTransport({ api, prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}/${id}/stream?message=${chat.last().id}` }) }),
    });
    await back.resumeStream();
    equal('a message that has ended is told by its name', back.told(), 'word '.repeat(30).trim() + '|End');
    await reloads('ended', back);
  }
  // A question, answered by what is said next, by a button, and while others look on.
  {
    const chat = open();
    await chat.sendMessage({ text: '/ask Which one? [A/B]\n/say You chose $reply' });
    equal('the question is shown as text', chat.told(), 'Which one?');
    const q = chat.last().parts.find((p) => p.type === 'data-question');
    equal('and as data', [q.data.text, q.data.choices, q.data.status, q.data.blocking], ['Which one?', ['A', 'B'], 'open', true]);
    await reloads('question', chat);
    const asks = chat.last().id;
    await chat.sendMessage({ text: 'B' });
    const asked = chat.messages.find((m) => m.id === asks);
    equal('what is said next answers it', [texts(asked), asked.parts.find((p) => p.type === 'data-question').data.answer], ['Which one?|You chose B', 'B']);
    await reloads('answer', chat);

    await chat.sendMessage({ text: '/ask And now? [A/B]\n/say Now $reply' });
    const next = chat.last().parts.find((p) => p.type === 'data-question');
    await chat.sendMessage(undefined, { body: { answer: { question: next.data.question, text: 'A' } } });
    equal('a button answers it, and the message goes on', [chat.told(), chat.messages.length], ['And now?|Now A', 5]);
    equal('the question says so', chat.last().parts.find((p) => p.type === 'data-question').data.status, 'answered');
    await reloads('button', chat);
  }
  // Approvals are the SDK's own.
  {
    const chat = open({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await chat.sendMessage({ text: '/tool hi_greet {"name":"Max"}\n/say $result' });
    const [tool] = tools(chat.last());
    equal('the call waits to be allowed', [tool.toolName, tool.state, tool.input], ['hi_greet', 'approval-requested', { name: 'Max' }]);
    await reloads('approval', chat);
    requests = 0;
    await chat.addToolApprovalResponse({ id: tool.approval.id, approved: true });
    await until(() => chat.last().metadata.status === 'COMPLETE' && chat.status === 'ready');
    equal('allowed, it runs', [tools(chat.last())[0].state, tools(chat.last())[0].approval.approved, chat.messages.length], ['output-available', true, 2]);
    equal('by one request', requests, 1);
    check('and the message goes on', /Max/.test(chat.told()), chat.told());
    await reloads('allowed', chat);

    await chat.sendMessage({ text: '/tool hi_greet {"name":"Eva"}\n/say $result' });
    await chat.addToolApprovalResponse({ id: tools(chat.last())[0].approval.id, approved: false });
    await until(() => chat.last().metadata.status === 'COMPLETE' && chat.status === 'ready');
    equal('not allowed, it does not', tools(chat.last())[0].state, 'output-denied');
    await reloads('denied', chat);

    await chat.sendMessage({ text: '/tool hi_greet {"name":"Ida"}\n/say $result' });
    await fetch(`${api}/${chat.id}/stop`, { method: 'POST' });
    await chat.resumeStream();
    equal('what nobody has allowed is not left open', [tools(chat.last())[0].state, chat.last().metadata.status], ['output-denied', 'CANCELLED']);
    await reloads('left open', chat);
  }
  // The page's own tools.
  {
    const mine = [{ name: 'get_weather', description: 'The weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } } } }];
    const ran = [];
    const chat = open({
      transport: new DefaultChatTransport({ api, fetch: counted, body: { tools: mine } }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall: ({ toolCall }) => {
        if (toolCall.dynamic) return;
        ran.push([toolCall.toolName, toolCall.input]);
        chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: { sky: 'blue', degrees: 12 } });
      },
    });
    requests = 0;
    await chat.sendMessage({ text: '/tool get_weather {"city":"Oslo"}\n/tool get_weather {"city":"Bergen"}\n/say They are $result' });
    await until(() => chat.last().metadata.status === 'COMPLETE' && chat.status === 'ready');
    equal('a request for the message, and one for each result', requests, 3);
    equal('the page ran them', ran, [['get_weather', { city: 'Oslo' }], ['get_weather', { city: 'Bergen' }]]);
    check('and the answer knows the result', /"sky":"blue"/.test(chat.told()), chat.told());
    equal('one message', [chat.messages.length, tools(chat.last()).map((t) => t.type)], [2, ['tool-get_weather', 'tool-get_weather']]);
    await chat.resumeStream();
    equal('told again, the page runs them no more', ran.length, 2);
    await reloads('tools of the page', chat);
  }
  // The call of a page's tool outlives the page and the server.
  {
    const mine = [{ name: 'get_time' }];
    const first = open({ transport: new DefaultChatTransport({ api, body: { tools: mine } }) });
    await first.sendMessage({ text: '/tool get_time {}\n/say It is $result' });
    await ask('kill');
    await ask('start');
    await started();
    const chat = open({ id: first.id, messages: (await read(first.id)).messages, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await chat.addToolOutput({ tool: 'get_time', toolCallId: tools(chat.last())[0].toolCallId, output: '12:30' });
    await until(() => chat.last().metadata.status === 'COMPLETE' && chat.status === 'ready');
    equal('its result is taken after a crash', chat.told(), 'It is 12:30');
    await reloads('after a crash', chat);
  }
  // The page's own tool, and the task ends while its result is under way: nothing is sent for ever.
  {
    const chat = open({
      transport: new DefaultChatTransport({ api, fetch: counted, body: { tools: [{ name: 'get_time' }] } }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls, onError: () => {},
    });
    await chat.sendMessage({ text: '/tool get_time {}\n/say It is $result' });
    await fetch(`${api}/${chat.id}/stop`, { method: 'POST' });
    requests = 0;
    await chat.addToolOutput({ tool: 'get_time', toolCallId: tools(chat.last())[0].toolCallId, output: 'late' });
    await until(() => chat.last().metadata.status === 'CANCELLED' && chat.status === 'ready');
    equal('a result that is too late is told so, and sent once', requests, 1);
  }
  // Another agent works: what it is given, and what it says, is a tool's call.
  {
    const chat = open();
    await chat.sendMessage({ text: '/delegate developer /say Built\n/say It says $result' });
    equal('a delegation', tools(chat.last()).map((t) => [t.toolName, t.state, t.input.agent, t.output]), [['delegate', 'output-available', 'developer', 'Built']]);
    equal('and its result', chat.told(), 'It says Built');
    await reloads('delegation', chat);
  }
  // Steer.
  {
    const chat = open();
    const sending = chat.sendMessage({ text: '/stream 40 word\n/wait 300ms\n/say First' });
    await until(() => chat.told().length > 20);
    const task = chat.last().id;
    await Promise.all([sending, chat.sendMessage({ text: '/say Second' }, { body: { mode: 'steer' } })]);
    equal('what steers has no answer of its own', chat.messages.map((m) => [m.role, m.id === task]), [['user', false], ['assistant', true], ['user', false]]);
    const message = chat.messages[1];
    check('it is answered in the message that it steers', /Second/.test(texts(message)) && /First/.test(texts(message)), message);
    equal('which says when it was read', message.parts.filter((p) => p.type === 'steering-message').map((p) => p.id), [chat.messages[2].id]);
    await reloads('steer', chat);
  }
  // What the machine has no word for.
  {
    const chat = open();
    await chat.sendMessage({ text: '/say One' });
    const was = chat.last().id;
    await chat.regenerate();
    check('said again, it is a message of its own', chat.told() === 'One' && chat.last().id !== was, chat.last());
    equal('and the log has both', (await read(chat.id)).messages.length, 4);
    await chat.sendMessage({ text: '/say Two', messageId: chat.messages[0].id });
    equal('so with a message that is changed', [chat.told(), (await read(chat.id)).messages.length], ['Two', 6]);
  }
  // Failures.
  {
    let failed;
    const chat = open({ onError: (e) => { failed = e; } });
    await chat.sendMessage({ text: '/fail 500 99\n/say no' });
    check('a failure is a sentence', failed && /\w+ \w+/.test(failed.message) && chat.status === 'error', failed?.message);
    await reloads('failure', chat);
    failed = undefined;
    await chat.sendMessage({ text: ' ' });
    check('so is a refusal', failed?.statusCode === 400 && !/[{}]/.test(failed.message), failed?.message);
    await chat.sendMessage({ text: '/say Better' });
    equal('the chat goes on', chat.told(), 'Better');
    const gone = new Chat({ id: 'gone', transport, messages: [{ id: 'a-t1-gone', role: 'assistant', parts: [] }], onError: (e) => { failed = e; } });
    await gone.sendMessage();
    equal('what is not there is not found', failed.statusCode, 404);
  }
});
