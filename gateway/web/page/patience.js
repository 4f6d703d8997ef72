// What the server refuses for a moment only is asked again, without a person.

// Others may pass as well, but not by themselves: then a person decides.
const PASSING = new Set(['rate_limited', 'overloaded', 'timeout', 'unavailable']);
const TRIES = 7; // some 20 seconds, if the server does not say how long it takes
const pause = (n) => Math.min(8000, 250 * 2 ** n) * (0.5 + Math.random() / 2);

/** Calls work until it succeeds, fails for another reason, or has failed too often. */
export async function patiently(work, { sleep = (ms) => new Promise((done) => { setTimeout(done, ms); }) } = {}) {
  for (let n = 1; ; n++) {
    try { return await work(); } catch (err) {
      if (!PASSING.has(err.code) || err.retryable === false || n >= TRIES) throw err;
      await sleep(err.retryAfter || pause(n));
    }
  }
}
