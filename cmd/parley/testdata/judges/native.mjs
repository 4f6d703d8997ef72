// The server's own routes, by fetch: it shows that the harness of the judges works.
import { ask, check, equal, judge, until, url } from './check.mjs';

const api = async (method, path, body) => {
  const r = await fetch(url + path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) });
  return await r.json();
};

judge(async () => {
  const { session } = await api('POST', '/api/sessions', {});
  const said = await api('POST', `/api/sessions/${session}/messages?wait=30s`, { text: '/say Hello', client_msg_id: 'a' });
  equal('it answers', said.status, 'COMPLETE');
  await ask('kill');
  await ask('start');
  const again = await api('POST', `/api/sessions/${session}/messages`, { text: '/say Hello', client_msg_id: 'a' });
  check('after a crash it knows the message', again.duplicate === true, again);
  const items = await until(async () => (await api('GET', `/api/sessions/${session}/messages`)).items);
  equal('and its answer', items.map((i) => i.text), ['/say Hello', 'Hello']);
});
