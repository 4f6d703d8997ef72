// The OpenAI SDK: a response with a function of one's own, streamed, and its result in the same conversation.
// prints: It is -3 degrees in Oslo
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: new URL('/v1', process.env.PARLEY_URL ?? 'http://127.0.0.1:8080').href, apiKey: process.env.PARLEY_KEY ?? 'none' });
const tools = [{ type: 'function', name: 'get_temperature', parameters: { type: 'object', properties: { city: { type: 'string' } } } }];

const asked = await client.responses.create({ model: 'parley', tools, input: '/tool get_temperature {"city":"Oslo"}\n/say It is $result degrees in Oslo' });
const call = asked.output.find((item) => item.type === 'function_call');

const stream = await client.responses.create({
  model: 'parley', tools, stream: true, previous_response_id: asked.id,
  input: [{ type: 'function_call_output', call_id: call.call_id, output: '-3' }],
});
for await (const event of stream) if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);
console.log();
