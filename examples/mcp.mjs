// A host of the Model Context Protocol: it says something, and is asked something.
// prints: You said: blue
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const host = new Client({ name: 'example', version: '1' }, { capabilities: { elicitation: { form: {} } } });
host.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { answer: 'blue' } })); // a form for the user
await host.connect(new StreamableHTTPClientTransport(new URL('/mcp', process.env.PARLEY_URL ?? 'http://127.0.0.1:8080')));

const result = await host.callTool({ name: 'send_message', arguments: { text: '/ask Which colour?\n/say You said: $reply' } });
console.log(result.content[0].text);
await host.close();
