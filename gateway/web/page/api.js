// The HTTP side: JSON in, JSON out, errors as RFC 9457 says.

import { exact } from './exact.js';

/** A request that was refused or could not be made. */
export class APIError extends Error {
  constructor(status, body) {
    super(body.detail || body.title || (status ? `The server answered ${status}.` : 'The server cannot be reached.'));
    this.name = 'APIError';
    this.status = status;
    this.code = body.code || (status ? '' : 'disconnected');
    this.where = body.request_id || '';
    this.body = body;
  }
}

/** Where the credential comes from; set by the application. */
export const credential = { token: () => '' };

export async function request(method, path, body, { key, signal } = {}) {
  const headers = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  const token = credential.token();
  if (token) headers.Authorization = `Bearer ${token}`;
  let res;
  try {
    res = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', signal });
  } catch {
    throw new APIError(0, {});
  }
  const text = await res.text();
  let data = {};
  try { data = text ? exact(text) : {}; } catch { /* not ours: the status says enough */ }
  if (!res.ok) throw new APIError(res.status, { request_id: res.headers.get('X-Request-ID') || '', ...data });
  return data;
}

/** The bytes of something that is no JSON. Nothing of it stays in the browser. */
async function bytes(path) {
  const token = credential.token();
  let res;
  try {
    res = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: 'no-store' });
    if (res.ok) return await res.blob();
  } catch {
    throw new APIError(0, {});
  }
  throw new APIError(res.status, await res.json().catch(() => ({})));
}

const seg = encodeURIComponent;

export const sessions = {
  list: ({ cursor = '', archived = '' } = {}) => request('GET', `/api/sessions?limit=100${archived ? `&archived=${archived}` : ''}${cursor ? `&cursor=${seg(cursor)}` : ''}`),
  titled: (q, signal) => request('GET', `/api/sessions?limit=20&archived=all&q=${seg(q)}`, undefined, { signal }),
  said: (q, cursor, signal) => request('GET', `/api/sessions?limit=20&in=messages&q=${seg(q)}${cursor ? `&cursor=${seg(cursor)}` : ''}`, undefined, { signal }),
  patch: (id, fields) => request('PATCH', `/api/sessions/${seg(id)}`, fields),
  remove: (id) => request('DELETE', `/api/sessions/${seg(id)}`),
  events: (id, since, limit) => request('GET', `/api/sessions/${seg(id)}/events?since=${since}&limit=${limit}`),
  blob: (id, hash) => bytes(`/api/blobs/${seg(hash)}?session=${seg(id)}`),
  call: (id, call) => request('GET', `/api/sessions/${seg(id)}/calls/${seg(call)}`),
};

export const tasks = {
  list: ({ status = '', cursor = '' } = {}) => request('GET', `/api/tasks?limit=50${status ? `&status=${seg(status)}` : ''}${cursor ? `&cursor=${seg(cursor)}` : ''}`),
  get: (id) => request('GET', `/api/tasks/${seg(id)}`),
  reply: (id, reply, key) => request('POST', `/api/tasks/${seg(id)}/reply`, { reply }, { key }),
  cancel: (id) => request('POST', `/api/tasks/${seg(id)}/cancel`, {}),
};
