// What index.js has. The frames are in parley.d.ts, which is written from the protocol's own document.
import type { Client, CommandError, Status, Token } from './client.js';
import type {
  AnswerReceipt, Attachment, CancelData, CommandSend, CreateData, DurableEvent, EphemeralEvent, ErrorCode, Listed, OkFollow, OkHello, Policy, Receipt, Resolution,
  SessionSummary, State,
} from './parley.js';

export * from './parley.js';
export { Client, CommandError, backoff } from './client.js';
export type { ClientOptions, Status, Told, Token } from './client.js';

export interface OutboxEntry { id: string; type: 'send' | 'answer'; session: string; data: { [name: string]: unknown } }

/** Where the outbox is kept: load is called once, save with all entries at each change. */
export interface OutboxStorage {
  load(): OutboxEntry[] | Promise<OutboxEntry[]>;
  save(entries: OutboxEntry[]): unknown;
}

export interface Options {
  /** The credential, asked for at each connection and before it ends. */
  token?: string | (() => Token | Promise<Token>);
  storage?: OutboxStorage;
  name?: string;
  version?: string;
  caps?: string[];
  /** Where the platform has none (Node 20): that of the package ws, for example. */
  WebSocket?: unknown;
  fetch?: typeof fetch;
  /** How long the server may be silent before it is asked for a sign of life, in ms. */
  quiet?: number;
  /** How long that may take, in ms. */
  patience?: number;
  /** How long a connection may take to open, in ms. */
  opening?: number;
  /** Bounds of the time between two attempts, in ms. */
  wait?: { least?: number; min?: number; max?: number };
  /** Reads frames; JSON.parse makes doubles of numbers, so one that keeps more may be given. */
  parse?: (text: string) => any;
}

/** A request over HTTP that was refused, or that could not be made (disconnected). */
export class RequestError extends Error {
  status: number;
  code: ErrorCode | 'disconnected';
  request: string;
  problem: { [name: string]: unknown };
}

export function connect(url: string | URL, options?: Options): Parley;
export function memory(): OutboxStorage;
export function browserStorage(key?: string, storage?: { getItem(key: string): string | null; setItem(key: string, value: string): void }): OutboxStorage;

/** A message (m…) or a part (p…) in which the words of a search were found. */
export interface Found {
  session: string;
  title: string;
  message: string;
  seq: number;
  created_at: string;
  /** One line around the first word that was found. */
  snippet: string;
  /** Where in it the words are, in code points; from the first one to behind the last. */
  marks: Array<[from: number, to: number]>;
}

export interface Page<T> { items: T[]; next_cursor: string | null }

/** What a file may be given as. */
export type FileBody = Blob | ArrayBuffer | ArrayBufferView | string;

/** Why a session, or the client, has ended. */
export interface EndError extends Error {
  /** closed: by close(); gone: erased, or forbidden now; stopped: the server does not want this client; else why a follow was refused. */
  code: 'closed' | 'gone' | 'stopped' | 'disconnected' | ErrorCode;
  /** With stopped: the close code. */
  close?: number;
}

/** signal ends the wait: the call throws its reason. What was sent by then may take effect. */
export interface Waiting { signal?: AbortSignal }

export class Parley {
  constructor(url: string | URL, options?: Options);
  readonly state: Status['state'];
  readonly user: string;
  readonly info?: OkHello['data'];
  on(kind: 'status', f: (status: Status) => void): () => void;
  on(kind: 'hello', f: (hello: OkHello['data']) => void): () => void;
  on(kind: 'listed', f: (row: Listed['data']) => void): () => void;
  /** What ended the client for good (stopped), or what only this tells: a token that was refused, an outbox that cannot be written. */
  on(kind: 'error', f: (error: EndError | (Error & { code?: string })) => void): () => void;
  ready(options?: Waiting): Promise<OkHello['data']>;
  close(): void;
  /** Listen to the session in the turn in which it is given: its events come from then on. */
  create(data?: CreateData, options?: Waiting): Promise<Session>;
  session(id: string, from?: { since?: number; log?: string } | { tail: number }): Session;
  command(type: string, session: string, data?: object, options?: Waiting): Promise<{ [name: string]: unknown }>;
  watch(f: (row: Listed['data']) => void): Promise<() => void>;
  pending(): OutboxEntry[];
  url(path: string): string;
  request<T = any>(method: string, path: string, body?: unknown, options?: { key?: string; type?: string; read?: 'json' | 'blob' } & Waiting): Promise<T>;
  upload(session: string, file: FileBody, options?: { name?: string; type?: string } & Waiting): Promise<Attachment>;
  blob(hash: string, options?: { session?: string }): Promise<Blob>;
  blobURL(hash: string, options?: { session?: string }): string;
  list(page?: { limit?: number; cursor?: string }): Promise<Page<SessionSummary>>;
  search(q: string, options?: { where?: 'titles'; limit?: number; cursor?: string }): Promise<Page<SessionSummary>>;
  search(q: string, options: { where: 'messages'; limit?: number; cursor?: string }): Promise<Page<Found>>;
  search(q: string, options?: { where?: 'titles' | 'messages'; limit?: number; cursor?: string }): Promise<Page<SessionSummary | Found>>;
}

export type SendOptions = { id?: string } & Partial<Pick<CommandSend['data'], 'in_reply_to' | 'mode' | 'attachments'>>;

export class Session {
  readonly id: string;
  /** Where one who comes back goes on: {since, log}. */
  readonly cursor: { since: number; log: string };
  readonly state: State | null;
  readonly drafts: Map<string, { text: string; length: number; task?: string }>;
  readonly error: EndError | null;
  on(kind: 'event', f: (event: DurableEvent) => void): () => void;
  on(kind: 'ephemeral', f: (event: EphemeralEvent) => void): () => void;
  on(kind: 'draft', f: (draft: { draft: string; text: string; task?: string }) => void): () => void;
  on(kind: 'draft_end', f: (draft: { draft: string }) => void): () => void;
  on(kind: 'reset', f: (why: { reason: 'other_log' | 'ahead' }) => void): () => void;
  on(kind: 'followed', f: (answer: OkFollow['data']) => void): () => void;
  on(kind: 'synced', f: (at: { head: number }) => void): () => void;
  on(kind: 'ended', f: (error: EndError) => void): () => void;
  events(): AsyncIterableIterator<DurableEvent>;
  send(text: string, options?: SendOptions): Promise<Receipt>;
  answer(question: string, text: string | boolean | { approve: boolean; args?: unknown }, options?: { id?: string }): Promise<AnswerReceipt>;
  ask(text: string, options?: SendOptions & Waiting): Promise<{ how: Resolution; text: string; parts: string[]; receipt: Receipt }>;
  upload(file: FileBody, options?: { name?: string; type?: string } & Waiting): Promise<Attachment>;
  blob(hash: string): Promise<Blob>;
  edit(message: string, text: string): Promise<{ seq: number }>;
  withdraw(message: string): Promise<{ seq: number }>;
  move(message: string, before?: string): Promise<{ seq: number }>;
  cancel(data?: CancelData): Promise<{ task?: string; old_status?: string }>;
  clear(): Promise<{ seq: number }>;
  policy(changes: Policy): Promise<{ seq: number; policy: Policy }>;
  seen(seq?: number): void;
  typing(on: boolean): void;
  close(): void;
}
