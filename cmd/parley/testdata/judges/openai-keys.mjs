// The official OpenAI SDK for Node against a server with a sign-in.
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { check, equal, judge, key, narrowKey, otherKey, url } from './check.mjs';

const as = (apiKey) => new OpenAI({ apiKey, baseURL: url + '/v1', maxRetries: 0 });
const fails = async (name, kind, code, run) => {
  try {
    await run();
    check(name, false, 'it did not fail');
  } catch (e) {
    check(name, e instanceof kind && (code === undefined || e.code === code), `${e.constructor.name} ${e.status} ${e.code}: ${e.message}`);
  }
};

judge(async () => {
  const ann = as(key);
  const eve = as(otherKey);
  const r = await ann.responses.create({ model: 'parley', input: '/say Mine' });
  equal('a key answers', r.output_text, 'Mine');
  await fails('a wrong key', OpenAI.AuthenticationError, 'invalid_api_key', () => as('none').responses.create({ model: 'parley', input: 'x' }));
  await fails('a key that is not good for chats', OpenAI.PermissionDeniedError, 'forbidden', () => as(narrowKey).models.list());
  await fails("another tenant's response", OpenAI.NotFoundError, undefined, () => eve.responses.retrieve(r.id));
  await fails("and what follows it", OpenAI.BadRequestError, 'previous_response_not_found', () => eve.responses.create({ model: 'parley', input: 'x', previous_response_id: r.id }));
  await fails("another tenant's conversation", OpenAI.NotFoundError, undefined, () => eve.conversations.retrieve(r.conversation.id));
  await fails('its items', OpenAI.NotFoundError, undefined, () => eve.conversations.items.list(r.conversation.id));
  const mine = await eve.responses.create({ model: 'parley', input: '/say Hers', metadata: { session: 'same' } });
  const hers = await ann.responses.create({ model: 'parley', input: '/say Mine', metadata: { session: 'same' } });
  check('a name is within its tenant', mine.conversation.id !== hers.conversation.id);
  const refused = await new Promise((done) => {
    const ws = new ResponsesWS(as('none'));
    ws.on('error', done);
    ws.on('close', done);
  });
  check('a socket with a wrong key is refused', refused !== undefined);
  const events = await new Promise((done) => {
    const got = [];
    const ws = new ResponsesWS(eve);
    ws.on('event', (e) => {
      got.push(e);
      if (e.type === 'response.steer.failed') {
        ws.send({ type: 'response.create', model: 'parley', input: 'x', conversation: r.conversation.id });
      }
      if (e.type === 'error') {
        ws.close();
        done(got);
      }
    });
    ws.on('error', () => {});
    ws.send({ type: 'response.steer', previous_response_id: r.id, input: 'mine now' });
  });
  equal("a steer of another tenant's response", events[0].error.code, 'response_not_found');
  equal("and a response in its conversation", [events[1].status, events[1].error.type], [404, 'not_found_error']);
});
