// SPDX-License-Identifier: MIT
// Calls of a page, as the page holds them.
import { SidecallError } from '../../errors.ts';
import type { Metadata } from '../../metadata.ts';
import type {
  BidiMethod,
  ClientStreamMethod,
  MethodKind,
  Methods,
  NotificationMethod,
  Requests,
  ServerStreamMethod,
  Service,
  UnaryMethod,
  UntypedMethod,
} from '../../rpc/service.ts';
import { type PageMessage, requestWindow, responseWindow } from './port.ts';

/** Options of one call of a page. */
export interface PageCallOptions {
  /** Milliseconds until the call fails with `DEADLINE_EXCEEDED`; the handler sees it too. Default: none. */
  readonly timeoutMs?: number | undefined;
  /** Aborting it rejects the call with `signal.reason` and cancels the handler. */
  readonly signal?: AbortSignal | undefined;
  /** Key-values for the handler. */
  readonly metadata?: Metadata | undefined;
  /** Called once with what the handler sent ahead, before the answer. */
  readonly onHeaders?: ((metadata: Metadata) => void) | undefined;
  /** Called once with what the handler sent behind it, if anything. */
  readonly onTrailers?: ((metadata: Metadata) => void) | undefined;
}

/** Options of `client()`. */
export interface PageClientOptions {
  /** `timeoutMs` of calls that do not say otherwise. Default: none. */
  readonly timeoutMs?: number | undefined;
}

/** Responses of a call. Leaving the loop cancels it; what was not taken yet holds its sender back. */
export interface PageStream<Res> extends AsyncIterableIterator<Res, undefined> {
  /** Whoever iterates it gets `reason`. Default: `CANCELLED`. */
  cancel(reason?: unknown): void;
}

/** Requests of a call with one response. */
export interface PageClientStream<Req, Res> {
  /** Resolves when it was sent, which waits until the handler has taken earlier ones. */
  send(request: Req): Promise<void>;
  /** Ends the requests. Resolves to the response. */
  end(): Promise<Res>;
  cancel(reason?: unknown): void;
}

/** Requests and responses, each side at its own pace. */
export interface PageBidi<Req, Res> extends PageStream<Res> {
  send(request: Req): Promise<void>;
  end(): Promise<void>;
}

// A request that may be undefined may be left out.
type Arguments<Req> = undefined extends Req
  ? [request?: Req, options?: PageCallOptions]
  : [request: Req, options?: PageCallOptions];

/** The functions that a page gets for a contract: those of a process, with what a page can say. */
export type PageClient<M extends Methods> = {
  readonly [Name in keyof M]: M[Name] extends UntypedMethod
    ? // biome-ignore lint/suspicious/noExplicitAny: nothing is known
      (...args: any[]) => any
    : M[Name] extends UnaryMethod<infer _, infer Res, infer Req, infer _>
      ? (...args: Arguments<Req>) => Promise<Res>
      : M[Name] extends ServerStreamMethod<infer _, infer Res, infer Req, infer _>
        ? (...args: Arguments<Req>) => PageStream<Res>
        : M[Name] extends ClientStreamMethod<infer _, infer Res, infer Req, infer _>
          ? {
              (options?: PageCallOptions): PageClientStream<Req, Res>;
              (requests: Requests<Req>, options?: PageCallOptions): Promise<Res>;
            }
          : M[Name] extends BidiMethod<infer _, infer Res, infer Req, infer _>
            ? {
                (options?: PageCallOptions): PageBidi<Req, Res>;
                (requests: Requests<Req>, options?: PageCallOptions): PageStream<Res>;
              }
            : M[Name] extends NotificationMethod<infer _, infer Req>
              ? (...args: Arguments<Req>) => Promise<void>
              : never;
};

/** What carries the calls of a page. */
export interface PageLine {
  /** The call's number. @throws {SidecallError} where the connection is over. */
  begin(call: PageCall): number;
  post(message: PageMessage): void;
  forget(id: number): void;
}

const ignore = (): void => undefined;

/** One function per method. */
export function clientOver<M extends Methods>(
  line: PageLine,
  service: Service<M>,
  { timeoutMs }: PageClientOptions = {},
): PageClient<M> {
  const client: Record<string, unknown> = Object.create(null);
  for (const [member, { kind }] of Object.entries(service.methods)) {
    const begin = (value: unknown, options: PageCallOptions | undefined): PageCall => {
      const complete = { ...options, timeoutMs: options?.timeoutMs ?? timeoutMs };
      return new PageCall(line, service.wireName(member), kind, value, complete);
    };
    client[member] = functions[kind](begin);
  }
  return Object.freeze(client) as PageClient<M>;
}

type Begin = (value: unknown, options: PageCallOptions | undefined) => PageCall;
type Single = (value: unknown, options?: PageCallOptions) => unknown;

const functions: { readonly [Kind in MethodKind]: (begin: Begin) => Single } = {
  unary: (begin) => (value, options) => begin(value, options).result,
  notification: (begin) => (value, options) => begin(value, options).result,
  serverStream: (begin) => (value, options) => streamOf(begin(value, options)),
  clientStream: (begin) => (first, second) => {
    if (!isRequests(first)) return clientStreamOf(begin(undefined, first as PageCallOptions));
    const call = begin(undefined, second);
    void pump(call, first);
    return call.result;
  },
  bidi: (begin) => (first, second) => {
    if (!isRequests(first)) {
      const call = begin(undefined, first as PageCallOptions);
      return Object.assign(streamOf(call), {
        send: (request: unknown) => call.send(request),
        end: async () => call.endRequests(),
      });
    }
    const call = begin(undefined, second);
    void pump(call, first);
    return streamOf(call);
  },
};

function streamOf(call: PageCall): PageStream<unknown> {
  return {
    next: () => call.next(),
    return: async () => {
      call.cancel(cancelled());
      return { done: true, value: undefined };
    },
    cancel: (reason) => call.cancel(reason ?? cancelled()),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function clientStreamOf(call: PageCall): PageClientStream<unknown, unknown> {
  return {
    send: (request) => call.send(request),
    end: () => {
      call.endRequests();
      return call.result;
    },
    cancel: (reason) => call.cancel(reason ?? cancelled()),
  };
}

/** Sends what an iterable gives, at the pace of the handler. What it throws cancels the call. */
async function pump(call: PageCall, requests: Requests<unknown>): Promise<void> {
  try {
    for await (const request of requests) {
      if (call.isOver) return;
      await call.send(request);
    }
    call.endRequests();
  } catch (error) {
    call.cancel(error);
  }
}

function isRequests(value: unknown): value is Requests<unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}

function cancelled(): SidecallError {
  return new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was cancelled by its caller');
}

/** One call, of any kind. */
export class PageCall {
  /** Of calls with one response. A rejection that nobody awaits is dropped. */
  readonly result: Promise<unknown>;
  isOver = false;
  readonly #line: PageLine;
  #id = -1;
  readonly #method: string;
  readonly #options: PageCallOptions;
  readonly #responses: unknown[] = [];
  readonly #readers: ((step: IteratorResult<unknown, undefined> | Promise<never>) => void)[] = [];
  readonly #senders: (() => void)[] = [];
  #credit = requestWindow;
  #taken = 0;
  #isRequestsEnded = false;
  #failure: { readonly reason: unknown } | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #resolve: (value: unknown) => void = ignore;
  #reject: (reason: unknown) => void = ignore;

  constructor(
    line: PageLine,
    method: string,
    kind: MethodKind,
    value: unknown,
    options: PageCallOptions,
  ) {
    this.#line = line;
    this.#method = method;
    this.#options = options;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.result.catch(ignore);
    this.#start(kind, value);
  }

  async send(request: unknown): Promise<void> {
    while (this.#credit === 0 && !this.isOver) {
      await new Promise<void>((resolve) => this.#senders.push(resolve));
    }
    if (this.#failure !== undefined) throw this.#failure.reason;
    if (this.isOver || this.#isRequestsEnded) {
      const words = `${this.#method}: the requests have ended`;
      throw new SidecallError('ERR_SIDECALL_END_OF_STREAM', words);
    }
    this.#credit -= 1;
    try {
      this.#line.post({ t: 'message', id: this.#id, value: request });
    } catch (error) {
      this.#credit += 1;
      throw uncloneable(this.#method, error);
    }
  }

  endRequests(): void {
    if (this.#isRequestsEnded || this.isOver) return;
    this.#isRequestsEnded = true;
    this.#line.post({ t: 'end', id: this.#id });
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#responses.length > 0) {
      const value = this.#responses.shift();
      this.#giveBack();
      return Promise.resolve({ done: false, value });
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure.reason);
    if (this.isOver) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  cancel(reason: unknown): void {
    if (this.isOver) return;
    this.#line.post({ t: 'cancel', id: this.#id });
    this.#responses.length = 0;
    this.#end({ reason });
  }

  onResponse(value: unknown): void {
    const reader = this.#readers.shift();
    if (reader === undefined) {
      this.#responses.push(value);
      return;
    }
    reader({ done: false, value });
    this.#giveBack();
  }

  onCredit(count: number): void {
    this.#credit += count;
    for (const wake of this.#senders.splice(0)) wake();
  }

  onHeaders(metadata: Metadata): void {
    this.#options.onHeaders?.(metadata);
  }

  onTrailers(metadata: Metadata): void {
    this.#options.onTrailers?.(metadata);
  }

  onResult(value: unknown): void {
    this.#resolve(value);
    this.#end(undefined);
  }

  /** It is over for another reason than ours. Responses that came before are still handed out. */
  onFailure(reason: unknown): void {
    this.#end({ reason });
  }

  #start(kind: MethodKind, value: unknown): void {
    const { timeoutMs, signal, metadata } = this.#options;
    if (signal?.aborted === true) return this.#end({ reason: signal.reason });
    const method = this.#method;
    try {
      this.#id = this.#line.begin(this);
      this.#line.post({ t: 'open', id: this.#id, method, kind, value, timeoutMs, metadata });
    } catch (error) {
      return this.#end({ reason: SidecallError.is(error) ? error : uncloneable(method, error) });
    }
    signal?.addEventListener('abort', this.#onAbort);
    if (timeoutMs !== undefined) this.#timer = setTimeout(this.#onDeadline, timeoutMs);
  }

  readonly #onAbort = (): void => this.cancel(this.#options.signal?.reason);

  readonly #onDeadline = (): void => {
    const words = `${this.#method}: timeoutMs ${this.#options.timeoutMs} passed`;
    this.cancel(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', words));
  };

  /** Half a window at a time: a message for each would be as many again. */
  #giveBack(): void {
    this.#taken += 1;
    if (this.#taken < responseWindow / 2 || this.isOver) return;
    this.#line.post({ t: 'credit', id: this.#id, count: this.#taken });
    this.#taken = 0;
  }

  #end(failure: { readonly reason: unknown } | undefined): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#failure = failure;
    clearTimeout(this.#timer);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#line.forget(this.#id);
    for (const wake of this.#senders.splice(0)) wake();
    for (const read of this.#readers.splice(0)) {
      read(
        failure === undefined ? { done: true, value: undefined } : Promise.reject(failure.reason),
      );
    }
    if (failure !== undefined) this.#reject(failure.reason);
  }
}

function uncloneable(method: string, cause: unknown): SidecallError {
  const words = `${method}: the value cannot be cloned for main: ${(cause as Error).message}`;
  return new SidecallError('ERR_SIDECALL_ENCODE', words, { cause });
}
