// An agent that speaks AG-UI: a question interrupts its run, and the next run answers it.
// prints: It goes to staging
import { HttpAgent, buildResumeArray } from '@ag-ui/client';

const agent = new HttpAgent({
  url: (process.env.PARLEY_URL ?? 'http://127.0.0.1:8080') + '/agui',
  headers: { Authorization: 'Bearer ' + (process.env.PARLEY_KEY ?? 'none') },
});
agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: '/ask Where to? [staging/production]\n/say It goes to $reply' });
await agent.runAgent();
const [question] = agent.pendingInterrupts;
console.log(question.message, question.responseSchema.enum);
await agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, { [question.id]: { status: 'resolved', payload: 'staging' } }) });
console.log(agent.messages.at(-1).content);
