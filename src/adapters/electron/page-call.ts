// SPDX-License-Identifier: MIT
// The page's half of a call, from its options to its end: the queues of requests and responses, and
// the credit of both.
import { SidecallError } from '../../base/errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { checkInteger, checkKeys, checkSignal, nodeError } from '../../base/misuse.ts';
import type { MethodKind } from '../../rpc/contract/method-types.ts';
import { type PageMessage, requestWindow, responseWindow } from './port.ts';

/** Options of one call of a page. */
export interface PageCallOptions {
  /**
   * Milliseconds until the call fails with `ERR_SIDECALL_DEADLINE_EXCEEDED`; the handler sees it
   * too. Default: none.
   */
  readonly timeoutMs?: number | undefined;
  /** Aborting it rejects the call with `signal.reason` and cancels the handler. */
  readonly signal?: AbortSignal | undefined;
  /** Key-values for the handler. */
  readonly metadata?: Metadata | undefined;
  /** Called once with the metadata that the handler sent before the answer. */
  readonly onHeaders?: ((metadata: Metadata) => void) | undefined;
  /** Called once with the metadata that the handler sent after the answer, if any. */
  readonly onTrailers?: ((metadata: Metadata) => void) | undefined;
}

/** The connection that carries the calls of a page. */
export interface PageConnection {
  /** The call's number. @throws {SidecallError} where the connection is over. */
  begin(call: PageCall): number;
  post(message: PageMessage): void;
  remove(id: number): void;
}

export const ignore = (): void => undefined;
export const timeRange = { standard: 0, min: 0, max: 2_147_483_647 };
const optionNames = ['timeoutMs', 'signal', 'metadata', 'onHeaders', 'onTrailers'] as const;

/**
 * @throws {TypeError | RangeError} for misuse. The check is here, since main would take invalid
 * options for a breach of the protocol.
 */
function checkOptions(options: PageCallOptions): void {
  checkKeys('the options of a call', options, optionNames);
  const { timeoutMs, signal, metadata } = options;
  if (timeoutMs !== undefined) checkInteger('timeoutMs', timeoutMs, timeRange);
  checkSignal(signal);
  if (metadata !== undefined && (typeof metadata !== 'object' || metadata === null)) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'metadata must be an object');
  }
  for (const name of ['onHeaders', 'onTrailers'] as const) {
    if (options[name] === undefined || typeof options[name] === 'function') continue;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${name} must be a function`);
  }
}

/** The error of a call that its caller has cancelled. */
export function cancelled(): SidecallError {
  return new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was cancelled by its caller');
}

/** One call, of any kind. */
export class PageCall {
  /** The response of a call that has one. A rejection that is not awaited is dropped. */
  readonly result: Promise<unknown>;
  isOver = false;
  readonly #line: PageConnection;
  #id = -1;
  readonly #method: string;
  readonly #options: PageCallOptions;
  readonly #responses: unknown[] = [];
  readonly #readers: ((step: IteratorResult<unknown, undefined> | Promise<never>) => void)[] = [];
  readonly #outbox: {
    readonly value: unknown;
    readonly resolve: () => void;
    readonly reject: (reason: unknown) => void;
  }[] = [];
  /** Resolves when the call is over, whatever its outcome. */
  readonly over: Promise<void>;
  #credit = requestWindow;
  #taken = 0;
  #isRequestsEnded = false;
  #isEndSent = false;
  #failure: { readonly reason: unknown } | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #resolve: (value: unknown) => void = ignore;
  #reject: (reason: unknown) => void = ignore;
  #resolveOver: () => void = ignore;
  // The reader has left the iteration, which then ends without an error.
  #isLeft = false;

  constructor(
    line: PageConnection,
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
    this.over = new Promise((resolve) => {
      this.#resolveOver = resolve;
    });
    this.#start(kind, value);
  }

  send(request: unknown): Promise<void> {
    const sent = new Promise<void>((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure.reason);
      if (this.isOver || this.#isRequestsEnded) {
        const text = `${this.#method}: the requests have ended`;
        return reject(new SidecallError('ERR_SIDECALL_END_OF_STREAM', text));
      }
      this.#outbox.push({ value: request, resolve, reject });
      this.#flush();
    });
    sent.catch(ignore);
    return sent;
  }

  /** Ends the requests, after those that wait to be sent. */
  endRequests(): void {
    if (this.#isRequestsEnded || this.isOver) return;
    this.#isRequestsEnded = true;
    this.#flush();
  }

  #flush(): void {
    for (; this.#credit > 0 && !this.isOver; ) {
      const next = this.#outbox.shift();
      if (next === undefined) break;
      try {
        this.#line.post({ t: 'message', id: this.#id, value: next.value });
        this.#credit -= 1;
        next.resolve();
      } catch (error) {
        next.reject(uncloneable(this.#method, error));
      }
    }
    if (this.#isRequestsEnded && this.#outbox.length === 0 && !this.#isEndSent && !this.isOver) {
      this.#isEndSent = true;
      this.#line.post({ t: 'end', id: this.#id });
    }
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#responses.length > 0) {
      const value = this.#responses.shift();
      this.#releaseCredit();
      return Promise.resolve({ done: false, value });
    }
    if (this.#isLeft) return Promise.resolve({ done: true, value: undefined });
    if (this.#failure !== undefined) return Promise.reject(this.#failure.reason);
    if (this.isOver) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  /** As `break` in a loop: cancels, quietly. */
  cancelQuietly(): void {
    this.#isLeft = true;
    this.cancel(cancelled());
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
    this.#releaseCredit();
  }

  onCredit(count: number): void {
    this.#credit += count;
    this.#flush();
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

  /** Ends the call with an error from main. Responses that came before are still handed out. */
  onFailure(reason: unknown): void {
    this.#end({ reason });
  }

  #start(kind: MethodKind, value: unknown): void {
    try {
      checkOptions(this.#options);
    } catch (reason) {
      return this.#end({ reason });
    }
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
    const text = `${this.#method}: timeoutMs ${this.#options.timeoutMs} passed`;
    this.cancel(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text));
  };

  /**
   * Grants credit for half a window at a time: one message per response would double the messages.
   */
  #releaseCredit(): void {
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
    this.#options.signal?.removeEventListener?.('abort', this.#onAbort);
    this.#line.remove(this.#id);
    const ended = new SidecallError('ERR_SIDECALL_END_OF_STREAM', `${this.#method}: it is over`);
    for (const { reject } of this.#outbox.splice(0)) reject(failure?.reason ?? ended);
    for (const read of this.#readers.splice(0)) {
      const isDone = failure === undefined || this.#isLeft;
      read(isDone ? { done: true, value: undefined } : Promise.reject(failure.reason));
    }
    this.#resolveOver();
    if (failure !== undefined) this.#reject(failure.reason);
  }
}

function uncloneable(method: string, cause: unknown): SidecallError {
  const text = `${method}: the value cannot be cloned for main: ${(cause as Error).message}`;
  return new SidecallError('ERR_SIDECALL_ENCODE', text, { cause });
}
