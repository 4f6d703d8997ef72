// What a visit does not need before it is shown and can be answered: later.js. It is
// loaded behind the first text, or when it is used for the first time.

import { complain } from './dom.js';

const AGAIN = { message: 'Try again.' };
let loading = null;

/** The module later.js, as a promise; one that failed is tried again at the next call. */
export function later() {
  loading ??= import('./later.js').catch((err) => { loading = null; throw err; });
  return loading;
}

/** A function of later.js: what it is called with waits until that is there. */
export const use = (name) => async (...args) => {
  let m;
  try { m = await later(); } catch { complain('This part of the page could not be loaded.', AGAIN); return undefined; }
  return m[name](...args);
};
