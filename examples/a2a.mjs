// Another agent, by the Agent2Agent protocol: it streams, is asked something, and answers.
// prints: asked: Where to? * It goes to staging
import { ClientFactory } from '@a2a-js/sdk/client';
import { Role, TaskState } from '@a2a-js/sdk';

const agent = await new ClientFactory().createFromUrl(process.env.PARLEY_URL ?? 'http://127.0.0.1:8080');
const says = (text, taskId = '') => ({ tenant: '', message: { messageId: crypto.randomUUID(), contextId: '', taskId, role: Role.ROLE_USER, parts: [{ content: { $case: 'text', value: text } }], extensions: [], referenceTaskIds: [] } });

let task;
for await (const { payload } of agent.sendMessageStream(says('/ask Where to? [staging/production]\n/say It goes to $reply'))) {
  if (payload.$case === 'task') task = payload.value.id;
  const { state, message } = payload.value.status ?? {};
  if (state === TaskState.TASK_STATE_INPUT_REQUIRED) console.log('asked:', message.parts[0].content.value);
}
const done = await agent.sendMessage(says('staging', task));
console.log(done.artifacts.at(-1).parts[0].content.value);
