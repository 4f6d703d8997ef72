// An outside runtime for node (20 or newer, no packages): it claims messages from a
// parley server and answers them. docs/RUNTIMES.md explains each request.
//
//   PARLEY_URL=http://127.0.0.1:8080 PARLEY_TOKEN=… node docs/runtimes/js/runtime.mjs

const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${process.env.PARLEY_TOKEN}` };
const runtime = `js-${crypto.randomUUID()}`; // one name for each process

// This is where your agent comes in. It gives the parts of the answer, at least one,
// none blank, and the same ones when it is asked again: a runtime that died may have
// said some of them. If it takes minutes it calls alive now and then.
async function answer(text, alive) { return text.split('|'); }

async function work({ session, message, text, generation, next_part }) {
  const path = `/api/sessions/${session}`;
  const say = (status, error) => post(`${path}/messages/${message}/runtime`, { status, generation, error });
  let parts;
  try {
    parts = await answer(text, () => say('alive'));
  } catch (problem) { // the message is handed out again, three times in all
    await say('failed', String(problem));
    return;
  }
  for (let k = Math.min(next_part, parts.length - 1); k < parts.length; k++) { // those before are stored
    const part = { source_id: message, part_index: k, generation, text: parts[k], final: k === parts.length - 1 };
    if ((await post(`${path}/parts`, part)).status >= 400) return; // it was cancelled, or another runtime has it now
  }
}

// A request is repeated until the server has taken or refused it: that does no harm.
async function post(path, body) {
  for (;; await new Promise((again) => setTimeout(again, 1000))) {
    try {
      const response = await fetch(process.env.PARLEY_URL + path, { method: 'POST', headers, body: JSON.stringify(body) });
      const text = await response.text();
      if (response.status < 500 && response.status !== 429) return { status: response.status, text };
      console.error(path, text);
    } catch (problem) {
      console.error(path, problem.cause ?? problem);
    }
  }
}

for (;;) {
  const { status, text } = await post('/api/runtime/claim', { runtime, wait: '30s' });
  if (status !== 200) throw new Error(text);
  for (const item of JSON.parse(text).items) await work(item);
}
