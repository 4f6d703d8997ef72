// What index.js has. The frames are in parley.d.ts, which is written from the protocol's own document.
import type {
  AnswerReceipt, Attachment, CancelData, CommandSend, CreateData, DurableEvent, EphemeralEvent, ErrorCode, OkFollow, OkHello, Policy, Receipt, Resolution, State,
} from './parley.js';

export * from './parley.js';

export type Token = string | { token: string; expiresAt?: number | string | Date };

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

export interface Status { state: 'connecting' | 'open' | 'waiting' | 'stopped'; retryAt?: number; code?: number; reason?: string; attempt?: number }

/** A command that was refused, or that could not be asked (disconnected). */
export class CommandError extends Error {
  code: ErrorCode | 'disconnected';
  retryable: boolean;
  retryAfter: number;
  where: string;
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
export function backoff(attempt: number, random?: () => number, bounds?: { least?: number; min?: number; max?: number }): number;

export interface Page<T> { items: T[]; next_cursor?: string }

export class Parley {
  constructor(url: string | URL, options?: Options);
  readonly state: Status['state'];
  readonly user: string;
  readonly info?: OkHello['data'];
  on(kind: 'status', f: (status: Status) => void): () => void;
  on(kind: 'hello', f: (hello: OkHello['data']) => void): () => void;
  on(kind: 'listed', f: (row: { session: string; [name: string]: unknown }) => void): () => void;
  on(kind: 'error', f: (error: Error) => void): () => void;
  ready(): Promise<OkHello['data']>;
  close(): void;
  create(data?: CreateData): Promise<Session>;
  session(id: string, from?: { since?: number; log?: string } | { tail: number }): Session;
  command(type: string, session: string, data?: object): Promise<{ [name: string]: unknown }>;
  watch(f: (row: { session: string; [name: string]: unknown }) => void): Promise<() => void>;
  pending(): OutboxEntry[];
  url(path: string): string;
  request<T = any>(method: string, path: string, body?: unknown, options?: { key?: string; type?: string; read?: 'json' | 'blob' }): Promise<T>;
  upload(session: string, file: Blob | BufferSource | string, options?: { name?: string; type?: string }): Promise<Attachment>;
  blob(hash: string, options?: { session?: string }): Promise<Blob>;
  blobURL(hash: string, options?: { session?: string }): string;
  list(page?: { limit?: number; cursor?: string }): Promise<Page<{ session: string; [name: string]: unknown }>>;
  search(q: string, options?: { where?: 'titles' | 'messages'; limit?: number; cursor?: string }): Promise<Page<{ session: string; [name: string]: unknown }>>;
}

export type SendOptions = { id?: string } & Partial<Pick<CommandSend['data'], 'in_reply_to' | 'mode' | 'attachments'>>;

export class Session {
  readonly id: string;
  /** Where one who comes back goes on: {since, log}. */
  readonly cursor: { since: number; log: string };
  readonly state: State | null;
  readonly drafts: Map<string, { text: string; length: number; task?: string }>;
  readonly error: Error | null;
  on(kind: 'event', f: (event: DurableEvent) => void): () => void;
  on(kind: 'ephemeral', f: (event: EphemeralEvent) => void): () => void;
  on(kind: 'draft', f: (draft: { draft: string; text: string; task?: string }) => void): () => void;
  on(kind: 'draft_end', f: (draft: { draft: string }) => void): () => void;
  on(kind: 'reset', f: (why: { reason: 'other_log' | 'ahead' }) => void): () => void;
  on(kind: 'followed', f: (answer: OkFollow['data']) => void): () => void;
  on(kind: 'synced', f: (at: { head: number }) => void): () => void;
  on(kind: 'ended', f: (error: Error) => void): () => void;
  events(): AsyncIterableIterator<DurableEvent>;
  send(text: string, options?: SendOptions): Promise<Receipt>;
  answer(question: string, text: string | boolean | { approve: boolean; args?: unknown }, options?: { id?: string }): Promise<AnswerReceipt>;
  ask(text: string, options?: SendOptions): Promise<{ how: Resolution; text: string; parts: string[]; receipt: Receipt }>;
  upload(file: Blob | BufferSource | string, options?: { name?: string; type?: string }): Promise<Attachment>;
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
