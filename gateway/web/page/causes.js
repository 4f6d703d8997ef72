// Why a task ended with an error, in words that say what can be done about it.

const ADVICE = {
  unavailable: ['Try again in a moment.', true],
  timeout: ['Try again; a smaller request takes less time.', true],
  rate_limited: ['Try again in a minute.', true],
  overloaded: ['Try again in a moment.', true],
  too_large: ['Say it shorter, or clear the conversation (the button above) so that the model sees less of it.', false],
  forbidden: ['Say it in other words.', false],
  storage_full: ['Trying again does not help until the people who run this server have made room.', false],
  bad_request: ['Trying again does not help: the people who run this server have to see to it.', false],
  internal: ['Trying again does not help: the people who run this server have to see to it.', false],
};
const ELSE = ['Try again; if it stays, tell the people who run this server.', true];

/** error {code, message} of a task -> {text, again: whether trying again can help}. */
export function causeOf(error) {
  const [advice, again] = ADVICE[error.code] || ELSE;
  const what = String(error.message || '').trim();
  return { text: what ? `${what[0].toUpperCase()}${what.slice(1).replace(/[.!?]?$/, (end) => end || '.')} ${advice}` : advice, again };
}
