// SPDX-License-Identifier: MIT
// One page's calls, made again on a session. The page may be anybody's code by now: everything it says is checked, and
// everything it may hold here has a bound.
import { RpcError, SidecallError } from '../../errors.ts';
import { emitEvent, type OnEvent } from '../../events.ts';
import { fixed, ranges } from '../../limits.ts';
import type { CallOptions } from '../../rpc/call.ts';
import {
  bidi,
  clientStream,
  type Method,
  type MethodKind,
  notification,
  type Service,
  serverStream,
  unary,
} from '../../rpc/service.ts';
import type { Callable, MainPort } from './main.ts';
import {
  type MainMessage,
  type PageMessage,
  type PortError,
  portVersion,
  requestWindow,
  responseWindow,
} from './port.ts';

/** A method that the page may call. Without a description: in JSON, of any kind. */
export interface Allowed {
  readonly name: string;
  readonly method?: Method | undefined;
}

/** What a port is served with. */
export interface PortSettings {
  readonly allowed: ReadonlyMap<string, Allowed>;
  readonly maxInFlight: number;
  readonly onEvent: OnEvent | undefined;
  readonly onClosed: () => void;
}

const kinds: { readonly [Kind in MethodKind]: () => Method } = {
  unary,
  notification,
  serverStream,
  clientStream,
  bidi,
};
const creditMax = 1_024;

type OpenMessage = Extract<PageMessage, { t: 'open' }>;
// biome-ignore lint/suspicious/noExplicitAny: the kinds of methods differ
type AnyFunction = (...args: any[]) => any;

export class PortServer {
  readonly #port: MainPort;
  readonly #session: Callable;
  readonly #settings: PortSettings;
  readonly #calls = new Map<number, RelayedCall>();
  readonly #functions = new Map<string, AnyFunction>();
  #isClosed = false;

  constructor(port: MainPort, session: Callable, settings: PortSettings) {
    this.#port = port;
    this.#session = session;
    this.#settings = settings;
    port.on('message', ({ data }) => this.#onMessage(data));
    port.on('close', () => this.close(new SidecallError('ERR_SIDECALL_PEER_GONE')));
    port.start();
    this.post({ t: 'ready', version: portVersion, maxInFlight: settings.maxInFlight });
  }

  /** Cancels what is under way, tells the page, and closes the port. Twice is once. */
  close(error: SidecallError): void {
    if (this.#isClosed) return;
    this.post({ t: 'bye', error: portError(error) });
    this.#isClosed = true;
    for (const call of this.#calls.values()) call.cancel(error);
    this.#calls.clear();
    this.#port.close();
    this.#settings.onClosed();
  }

  /** False: it cannot be cloned. */
  post(message: MainMessage): boolean {
    if (this.#isClosed) return true;
    try {
      this.#port.postMessage(message);
      return true;
    } catch {
      return false;
    }
  }

  onCallEnded(id: number): void {
    this.#calls.delete(id);
  }

  #onMessage(data: unknown): void {
    if (this.#isClosed) return;
    try {
      this.#dispatch(checkMessage(data));
    } catch (error) {
      // A page that breaks the rules is not ours any more, or speaks another version.
      const failure = SidecallError.from(error);
      emitEvent(this.#settings.onEvent, { type: 'refused', error: failure, peer: undefined });
      this.close(failure);
    }
  }

  #dispatch(message: PageMessage): void {
    const call = this.#calls.get(message.id);
    if (message.t === 'open') {
      if (call !== undefined) throw broken('a call whose id is in use');
      return this.#open(message);
    }
    if (call === undefined) return; // it has ended meanwhile
    if (message.t === 'message') call.requests.push(message.value);
    else if (message.t === 'end') call.requests.end();
    else if (message.t === 'credit') call.responses.grant(message.count);
    else call.cancel(new SidecallError('ERR_SIDECALL_CANCELLED'));
  }

  #open(message: OpenMessage): void {
    const { id, method, kind } = message;
    if (this.#calls.size >= this.#settings.maxInFlight) {
      const words = `${method}: the page has ${this.#calls.size} calls under way, as many as main allows`;
      return this.#refuse(id, new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', words));
    }
    const allowed = this.#settings.allowed.get(method);
    if (allowed === undefined) {
      return this.#refuse(id, new RpcError('permission_denied', `${method} is not allowed here`));
    }
    if (allowed.method !== undefined && allowed.method.kind !== kind) {
      const words = `${method} is of kind ${allowed.method.kind}, not ${kind}`;
      return this.#refuse(id, new RpcError('unimplemented', words));
    }
    const call = new RelayedCall(this, message);
    this.#calls.set(id, call);
    void call.run(this.#functionOf(allowed, kind));
  }

  #refuse(id: number, error: SidecallError): void {
    this.post({ t: 'error', id, error: portError(error) });
  }

  #functionOf({ name, method }: Allowed, kind: MethodKind): AnyFunction {
    const key = `${kind} ${name}`;
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    const methods = { call: method ?? kinds[kind]() };
    const service: Service = { name, methods, wireName: () => name };
    const { call } = this.#session.client(service) as unknown as { call: AnyFunction };
    this.#functions.set(key, call);
    return call;
  }
}

class RelayedCall {
  readonly requests: RequestQueue;
  readonly responses = new ResponseCredit();
  readonly #port: PortServer;
  readonly #opening: OpenMessage;
  readonly #given = new AbortController();

  constructor(port: PortServer, opening: OpenMessage) {
    this.#port = port;
    this.#opening = opening;
    const { id } = opening;
    this.requests = new RequestQueue(() => port.post({ t: 'credit', id, count: 1 }));
  }

  cancel(reason: SidecallError): void {
    this.#given.abort(reason);
    this.requests.end();
    this.responses.stop();
  }

  async run(call: AnyFunction): Promise<void> {
    const { id, method } = this.#opening;
    try {
      const value = await this.#make(call);
      this.#post({ t: 'result', id, value: tight(value) });
    } catch (error) {
      if (!this.#given.signal.aborted) {
        this.#port.post({ t: 'error', id, error: portError(asSidecall(error, method)) });
      }
    } finally {
      this.#port.onCallEnded(id);
    }
  }

  async #make(call: AnyFunction): Promise<unknown> {
    const { kind, value } = this.#opening;
    const takesStream = kind === 'clientStream' || kind === 'bidi';
    const given = call(takesStream ? this.requests : value, this.#options());
    if (kind !== 'serverStream' && kind !== 'bidi') return given;
    for await (const response of given) {
      await this.responses.take();
      if (this.#given.signal.aborted) break;
      this.#post({ t: 'message', id: this.#opening.id, value: tight(response) });
    }
    return undefined;
  }

  #options(): CallOptions {
    const { id, timeoutMs, metadata } = this.#opening;
    return {
      signal: this.#given.signal,
      timeoutMs,
      metadata,
      onHeaders: (headers) => this.#post({ t: 'headers', id, metadata: tight(headers) }),
      onTrailers: (trailers) => this.#post({ t: 'trailers', id, metadata: tight(trailers) }),
    };
  }

  #post(message: MainMessage): void {
    if (this.#port.post(message)) return;
    const words = `${this.#opening.method}: the answer cannot be cloned for the page`;
    throw new SidecallError('ERR_SIDECALL_ENCODE', words, { delivered: 'yes' });
  }
}

/** Requests of a stream, as they come. What was taken makes room for one more. */
class RequestQueue implements AsyncIterableIterator<unknown, undefined> {
  readonly #onTaken: () => void;
  readonly #waiting: unknown[] = [];
  #wake: () => void = () => undefined;
  #isEnded = false;

  constructor(onTaken: () => void) {
    this.#onTaken = onTaken;
  }

  /** @throws {SidecallError} `PROTOCOL` beyond the window, or behind the end. */
  push(value: unknown): void {
    if (this.#isEnded) throw broken('a request behind the last one');
    if (this.#waiting.length >= requestWindow)
      throw broken('more requests than there is credit for');
    this.#waiting.push(value);
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    while (this.#waiting.length === 0) {
      if (this.#isEnded) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const value = this.#waiting.shift();
    this.#onTaken();
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#waiting.length = 0;
    this.end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** How many responses the page will take. */
class ResponseCredit {
  #left = responseWindow;
  #wake: () => void = () => undefined;
  #isStopped = false;

  grant(count: number): void {
    if (this.#left + count > responseWindow) throw broken('credit for more than was sent');
    this.#left += count;
    this.#wake();
  }

  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }

  async take(): Promise<void> {
    while (this.#left === 0 && !this.#isStopped) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#left -= 1;
  }
}

/** @throws {SidecallError} `PROTOCOL`. */
function checkMessage(data: unknown): PageMessage {
  const message = data as { readonly [key: string]: unknown } | null;
  if (typeof message !== 'object' || message === null) throw broken('what is no message');
  const { t, id, method, kind, timeoutMs, metadata, count } = message;
  if (!Number.isSafeInteger(id) || (id as number) < 0) throw broken('a message without an id');
  if (t === 'open') {
    if (typeof method !== 'string' || method.length > fixed.methodNameMaxBytes) {
      throw broken('a call without a method');
    }
    if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind)) throw broken('a kind of call');
    const isTime =
      timeoutMs === undefined ||
      (Number.isInteger(timeoutMs) &&
        (timeoutMs as number) >= 0 &&
        (timeoutMs as number) <= ranges.timeoutMs.max);
    if (!isTime) throw broken('a time-out');
    if (metadata !== undefined && (typeof metadata !== 'object' || metadata === null)) {
      throw broken('metadata');
    }
  } else if (t === 'credit') {
    const isCount = Number.isInteger(count) && (count as number) > 0;
    if (!isCount || (count as number) > creditMax) throw broken('credit');
  } else if (t !== 'message' && t !== 'end' && t !== 'cancel') throw broken('a message');
  return message as unknown as PageMessage;
}

/** Bytes in memory of their own: a clone of a part would show the page all that the memory holds. */
function tight<T>(value: T, depth = 0): T {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > fixed.jsonDepthMax) {
    const words = `an answer is nested deeper than ${fixed.jsonDepthMax}`;
    throw new SidecallError('ERR_SIDECALL_ENCODE', words, { delivered: 'yes' });
  }
  const inner = <Inner>(each: Inner): Inner => tight(each, depth + 1);
  if (value instanceof Uint8Array) return new Uint8Array(value) as T & Uint8Array;
  if (Array.isArray(value)) return value.map(inner) as T;
  if (value instanceof Date) return value;
  // A copy of whatever else has fields: no codec of ours gives more.
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inner(each)])) as T;
}

function asSidecall(error: unknown, method: string): SidecallError {
  if (SidecallError.is(error)) return error;
  // Misuse by the page: metadata that is none, a value that JSON cannot carry.
  const words = `${method}: ${(error as Error | undefined)?.message ?? 'the call was refused'}`;
  return new RpcError('invalid_argument', words);
}

function portError(error: SidecallError): PortError {
  const { code, status, message, delivered, retryable } = error;
  const common = { code, status, message, delivered, retryable };
  if (!RpcError.is(error)) return { rpc: false, ...common };
  return { rpc: true, ...common, details: tight(error.details), metadata: tight(error.metadata) };
}

function broken(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the page sent ${what} that is none`);
}
