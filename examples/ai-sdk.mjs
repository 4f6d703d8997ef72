// The transport of useChat, from the package ai. In a page: useChat({ id: chatId, transport, resume: true }).
// prints: Hello from the AI SDK * loaded again: Hello from the AI SDK
import { DefaultChatTransport, readUIMessageStream } from 'ai';

const api = (process.env.PARLEY_URL ?? 'http://127.0.0.1:8080') + '/api/ui/chat';
const transport = new DefaultChatTransport({ api, headers: { Authorization: `Bearer ${process.env.PARLEY_KEY ?? 'none'}` } });
const chatId = `ai-sdk-${Date.now()}`; // the name of the session: it is opened by its first message
const said = { id: 'first', role: 'user', parts: [{ type: 'text', text: '/say Hello from the AI SDK' }] };
const text = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');

const stream = await transport.sendMessages({ chatId, messages: [said], trigger: 'submit-message' });
for await (const message of readUIMessageStream({ stream })) console.log(message.id, text(message));

const { messages } = await (await fetch(`${api}/${chatId}`)).json(); // what useChat takes as its messages
console.log('loaded again:', text(messages.at(-1)));
