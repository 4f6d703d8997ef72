// Which files messages may have, and files in words.

const PICTURES = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46, -1, -1, -1, -1, 0x57, 0x45, 0x42, 0x50]],
];

/** The type of a file by its bytes and by what the browser takes it for; '' = it cannot be attached. */
export function typeOf(declared, bytes) {
  for (const [type, begin] of PICTURES) if (bytes.length >= begin.length && begin.every((b, i) => b < 0 || b === bytes[i])) return type;
  const kind = String(declared || '').split(';')[0].trim().toLowerCase();
  if (/^(image|audio|video|font)\//.test(kind) || bytes.includes(0)) return '';
  try { new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { return ''; }
  return /^text\/[a-z0-9.+-]{1,50}$/.test(kind) || kind === 'application/json' ? kind : 'text/plain';
}

/** Whether the page shows it as a picture. */
export const isPicture = (type) => PICTURES.some(([known]) => known === type);

/** Whether messages may have files, by the limits of hello; before it they may not. */
export const takesFiles = (limits) => limits?.attachments_per_message !== undefined;

/** Whether a message has as many files as it may; 0 = any number. */
export const isFull = (limits, files) => limits.attachments_per_message > 0 && files >= limits.attachments_per_message;

/** 950 -> "950 bytes", 20480 -> "20 KiB". */
export function sizeOf(bytes) {
  if (bytes < 1024) return bytes === 1 ? '1 byte' : `${bytes} bytes`;
  const [n, unit] = bytes < 1024 * 1024 ? [bytes / 1024, 'KiB'] : [bytes / 1024 / 1024, 'MiB'];
  return `${n < 10 ? Number(n.toFixed(1)) : Math.round(n)} ${unit}`;
}

/** What a message says: its text, or the names of its files. */
export function wordsOf(text, attachments) {
  return String(text ?? '').trim() ? text : namesOf(attachments);
}

export const namesOf = (attachments) => (attachments || []).map((a) => a.name).join(', ');

const ADVICE = {
  too_large: 'Make it smaller, or attach a part of it.',
  unsupported_media_type: 'Save it as a PNG, JPEG, GIF or WebP picture, or as UTF-8 text.',
  storage_full: 'The people who run this server have to make room; then try again.',
  bad_request: 'Attach another file.',
};

/** Why a file was not taken, and what to do. */
export function refusal(code, message) {
  const what = String(message || 'The server did not take it').trim().replace(/[.!?]?$/, (end) => end || '.');
  return `${what[0].toUpperCase()}${what.slice(1)} ${ADVICE[code] || 'Try again.'}`;
}

/** Refusals that the same bytes get again. */
export const final = (code) => ['too_large', 'unsupported_media_type', 'bad_request', 'forbidden', 'not_found'].includes(code);
