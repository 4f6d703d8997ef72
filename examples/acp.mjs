// An editor that speaks the Agent Client Protocol: it starts "parley acp", which must be in PATH.
// prints: Off to staging
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

const { PARLEY_URL = 'http://127.0.0.1:8080' } = process.env;
const child = spawn('parley', ['acp', '--url', PARLEY_URL], { stdio: ['pipe', 'pipe', 'inherit'] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await acp.client({ name: 'example' })
  .onNotification('session/update', ({ params: { update } }) => update.sessionUpdate === 'agent_message_chunk' && process.stdout.write(update.content.text))
  .onRequest('elicitation/create', () => ({ action: 'accept', content: { answer: 'staging' } })) // a form for the user
  .connectWith(stream, async (agent) => {
    await agent.request('initialize', { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { elicitation: { form: {} } } });
    const { sessionId } = await agent.request('session/new', { cwd: process.cwd(), mcpServers: [] });
    const prompt = [{ type: 'text', text: '/ask Where to?\n/say Off to $reply' }];
    console.log('\n' + (await agent.request('session/prompt', { sessionId, prompt })).stopReason);
  });
child.kill();
