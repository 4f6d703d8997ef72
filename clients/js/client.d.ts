// What client.js has: the connection alone. What is told of a session are frames of the protocol.
import type { DurableEvent, EphemeralEvent, ErrorCode, Listed, OkFollow, OkHello } from './parley.js';

export type Token = string | { token: string; expiresAt?: number | string | Date };

export interface Status { state: 'connecting' | 'open' | 'waiting' | 'stopped'; retryAt?: number; code?: number; reason?: string; attempt?: number }

/** A command that was refused, or that could not be asked (disconnected). */
export class CommandError extends Error {
  constructor(error: { code: ErrorCode | 'disconnected'; message?: string; retryable?: boolean; retry_after_ms?: number }, where?: string);
  code: ErrorCode | 'disconnected';
  retryable: boolean;
  retryAfter: number;
  where: string;
}

export function backoff(attempt: number, random?: () => number, bounds?: { least?: number; min?: number; max?: number }): number;

/** What a Client tells, by its kind. */
export interface Told {
  status: Status;
  hello: OkHello['data'];
  followed: { session: string; data: OkFollow['data']; resumed: boolean; reason: '' | 'other_log' | 'ahead' };
  unfollowed: { session: string; error: CommandError };
  frame: DurableEvent | EphemeralEvent;
  notice: Listed | { type: string; data?: any };
  latency: number;
  refresh_failed: Error;
}

export interface ClientOptions {
  /** Of the socket: ws://127.0.0.1:8080/ws. */
  url: string;
  on(...told: { [K in keyof Told]: [kind: K, payload: Told[K]] }[keyof Told]): void;
  /** The credential, asked for at each connection and before it ends. */
  token?: () => Token | Promise<Token>;
  /** Where the platform has none (Node 20): that of the package ws, for example. */
  WebSocket?: unknown;
  /** Of the program, for the server's log. */
  name?: string;
  version?: string;
  caps?: string[];
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
  random?: () => number;
  now?: () => number;
  setTimeout?: (f: () => void, ms: number) => unknown;
  clearTimeout?: (timer: any) => void;
}

export class Client {
  constructor(options: ClientOptions);
  /** hello was answered, and the connection stands. */
  readonly open: boolean;
  start(): void;
  stop(): void;
  retryNow(): void;
  probe(ms?: number): void;
  follow(session: string, from?: { tail?: number; last?: number; log?: string; whole?: boolean }): void;
  unfollow(session: string): void;
  /** sync sees a positive answer before any later frame is handled. */
  command(type: string, session: string, data: object, sync?: (answer: any) => void): Promise<any>;
  tell(type: string, session: string, data: object): void;
}
