// OpenAI's Agents SDK as the client, over Responses and over Chat Completions.
import { Agent, OpenAIConversationsSession, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { check, equal, judge, key, url } from './check.mjs';

const client = new OpenAI({ baseURL: url + '/v1', apiKey: key });
setDefaultOpenAIClient(client);
setTracingDisabled(true);

const weather = tool({ name: 'weather', description: 'The weather of a city', parameters: z.object({ city: z.string() }), execute: async ({ city }) => `It rains in ${city}` });
const pay = tool({ name: 'pay', description: 'Pays a sum', needsApproval: true, parameters: z.object({ sum: z.number() }), execute: async ({ sum }) => `paid ${sum}` });
const agent = new Agent({ name: 'Helper', model: 'parley', instructions: 'You help.', tools: [weather, pay] });

async function all(api) {
  setOpenAIAPI(api);
  const is = (what) => `${api}: ${what}`;
  equal(is('a run'), (await run(agent, '/say Hello there')).finalOutput, 'Hello there');
  equal(is('a tool of its own'), (await run(agent, '/tool weather {"city":"Paris"}\n/say So: $result')).finalOutput, 'So: It rains in Paris');
  const stream = await run(agent, '/tool weather {"city":"Oslo"}\n/stream 8 word', { stream: true });
  let deltas = '';
  for await (const e of stream) if (e.type === 'raw_model_stream_event' && e.data.type === 'output_text_delta') deltas += e.data.delta;
  await stream.completed;
  equal(is('a stream'), [deltas, stream.finalOutput], [1, 2].map(() => 'word '.repeat(8).trim()));
  const one = await run(agent, '/say One');
  equal(is('goes on by its history'), (await run(agent, one.history.concat([{ role: 'user', content: '/say Two' }]))).finalOutput, 'Two');

  let asks = await run(agent, '/tool pay {"sum":3}\n/say $result');
  equal(is('an approval'), asks.interruptions.map((i) => i.name), ['pay']);
  asks.interruptions.forEach((i) => asks.state.approve(i));
  asks = await run(agent, asks.state);
  equal(is('approved, it goes on'), asks.finalOutput, 'paid 3');
  let declines = await run(agent, '/tool pay {"sum":4}\n/say $result');
  declines.interruptions.forEach((i) => declines.state.reject(i));
  declines = await run(agent, declines.state);
  check(is('declined, it goes on without'), declines.finalOutput && !declines.finalOutput.includes('paid'), declines.finalOutput);

  const french = new Agent({ name: 'French', model: 'parley', instructions: 'You speak French.' });
  const triage = Agent.create({ name: 'Triage', model: 'parley', instructions: 'You hand over.', handoffs: [french] });
  const handed = await run(triage, '/tool transfer_to_French {}\n/say Voilà');
  equal(is('a handoff'), [handed.finalOutput, handed.lastAgent.name], ['Voilà', 'French']);
}

judge(async () => {
  await all('responses');
  await all('chat_completions');
  setOpenAIAPI('responses');
  const a = await run(agent, '/say A');
  const b = await run(agent, '/tool weather {"city":"Rome"}\n/say B $result', { previousResponseId: a.lastResponseId });
  const of = (id) => id.replace(/^resp_t\d+-/, '').replace(/\.\d+$/, '');
  equal('goes on behind a response', [b.finalOutput, of(b.lastResponseId)], ['B It rains in Rome', of(a.lastResponseId)]);
  const { id } = await client.conversations.create();
  const first = await run(agent, '/say In it', { conversationId: id });
  const second = await run(agent, '/tool pay {"sum":5}\n/say $result', { conversationId: id });
  second.interruptions.forEach((i) => second.state.approve(i));
  const paid = await run(agent, second.state, { conversationId: id });
  const items = (await client.conversations.items.list(id)).data.map((i) => i.type);
  equal('a conversation of the server', [first.finalOutput, paid.finalOutput, items.filter((t) => t === 'message').length, items.includes('function_call_output')], ['In it', 'paid 5', 4, true]);
  const session = new OpenAIConversationsSession({ client });
  const refused = await run(agent, '/say Kept elsewhere', { session }).then(() => 'taken', (e) => e.code);
  equal('items that were not said are not put into a conversation', refused, 'unsupported_parameter');
});
