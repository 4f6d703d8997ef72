// A conversation as Markdown: what people and agents said, in the order of the log.

import { pretty } from './exact.js';

/** title and the stored events, from the first one on -> a Markdown document. */
export function markdownOf(title, frames) {
  const edited = new Map();   // message -> its last text
  const withdrawn = new Set();
  const asked = new Map();    // question -> its text
  for (const { type, data } of frames) {
    if (type === 'message_edited') edited.set(data.message, data.text);
    if (type === 'message_withdrawn') withdrawn.add(data.message);
    if (type === 'question') asked.set(data.question, data.text);
  }
  const out = [`# ${oneLine(title)}`];
  const say = (who, ts, text, note) => out.push(`## ${oneLine(who)}, ${stamp(ts)}`, ...note ? [`*${note}*`] : [], text);
  for (const { type, ts, data: d } of frames) {
    switch (type) {
      case 'message_accepted': {
        if (withdrawn.has(d.message)) break;
        const question = d.question && asked.get(d.question);
        say(d.via === 'delegation' ? 'Objective' : d.name || d.author || 'Someone', ts, [edited.get(d.message) ?? d.text, ...(d.attachments || []).map((a) => `- Attachment: ${oneLine(a.name)} (${a.type}, ${a.size} bytes)`)].filter(Boolean).join('\n\n'), question && `Answers: ${oneLine(question)}`);
        break;
      }
      case 'partial_response': case 'response':
        if (d.text) say('Assistant', ts, d.text, d.cut ? 'This answer was cut off.' : d.kind === 'error' ? 'Error' : '');
        break;
      case 'question':
        say('Assistant asks', ts, [d.text, ...(d.choices || []).map((c) => `- ${oneLine(c)}`), ...d.approval ? [call(d.approval)] : []].join('\n\n'));
        break;
      case 'context_cleared':
        out.push('---', '*Cleared: from here on the agent does not see what is above.*');
        break;
      default:
    }
  }
  return `${out.join('\n\n')}\n`;
}

function call({ tool, args }) {
  const text = pretty(args);
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((m) => m[0].length + 1)));
  return `${oneLine(tool)}:\n\n${fence}json\n${text}\n${fence}`;
}

function oneLine(text) { return String(text ?? '').replace(/\s+/g, ' ').trim(); }

function stamp(ts) { return ts ? ts.replace('T', ' ').replace(/(:\d\d)\.\d+/, '$1').replace('Z', ' UTC') : ''; }
