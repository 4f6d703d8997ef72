// The three keys of a server with a sign-in, on its own routes: what other judges build on.
import { equal, judge, key, narrowKey, otherKey, url } from './check.mjs';

const status = async (method, path, bearer) => {
  const headers = { 'Content-Type': 'application/json', ...(bearer && { Authorization: `Bearer ${bearer}` }) };
  const r = await fetch(url + path, { method, headers, body: method === 'POST' ? '{}' : undefined });
  return { status: r.status, body: await r.json() };
};

judge(async () => {
  const made = await status('POST', '/api/sessions', key);
  equal('a key opens', made.status, 201);
  const path = `/api/sessions/${made.body.session}/messages`;
  equal('and reads', (await status('GET', path, key)).status, 200);
  equal('without a key', (await status('GET', path)).status, 401);
  equal('with another text', (await status('GET', path, 'none')).status, 401);
  equal('with a key that is not good for chats', (await status('POST', '/api/sessions', narrowKey)).status, 403);
  equal('of another tenant', (await status('GET', path, otherKey)).status, 404);
});
