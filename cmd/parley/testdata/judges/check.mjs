// What all judges use: checks that are counted, and a server that the test kills or starts again.
import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** The server's address, without a slash at its end. */
export const url = process.env.PARLEY_URL;

/** A key of the server; any text where it has no sign-in (auth.mode is not "keys"). */
export const key = process.env.PARLEY_KEY || 'none';

/** With a sign-in: the key of a user of another tenant, and one that is not good for chats. */
export const otherKey = process.env.PARLEY_OTHER_KEY;
export const narrowKey = process.env.PARLEY_NARROW_KEY;

/** One thing that must hold. */
export function check(name, ok, detail) {
  console.log(`${ok ? 'ok' : 'not ok'} - ${name}${ok || detail === undefined ? '' : ': ' + (typeof detail === 'string' ? detail : JSON.stringify(detail))}`);
}

/** Two values that must be equal, as JSON has them. */
export function equal(name, got, want) {
  check(name, JSON.stringify(got) === JSON.stringify(want), `got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

/** Asks the test for something: "kill" (as kill -9 does), "start" (on the same address and data), "stop" (with time to drain). */
export async function ask(what) {
  console.log('@' + what);
  if ((await lines.next()).done) throw new Error(`the test does not ${what}`);
}

/** Waits until what is asked holds; the test's own time ends a wait that never does. */
export async function until(what) {
  for (;;) {
    const value = await what();
    if (value) return value;
    await new Promise((go) => setTimeout(go, 20));
  }
}

/** Runs a judge to its end. */
export async function judge(run) {
  try {
    await run();
  } catch (e) {
    console.log('not ok - it did not end: ' + (e?.stack || e));
  }
  console.log('@done');
  process.exit(0);
}
