// SPDX-License-Identifier: MIT
// The main process's half of a page's call: the call is made again on a session, which gets each
// request as it comes and gives each response when the page takes it.

import { errorText } from '../../base/error-text.ts';
import { isFromPeer, RpcError, SidecallError } from '../../base/errors.ts';
import type { CallOptions } from '../../rpc/contract/call-options.ts';
import {
  type MainMessage,
  type PageMessage,
  type PortError,
  requestWindow,
  responseWindow,
} from './port.ts';
import { withOwnMemory } from './port-values.ts';

/** The first message of a page's call. */
export type OpenMessage = Extract<PageMessage, { t: 'open' }>;

// biome-ignore lint/suspicious/noExplicitAny: the kinds of methods differ
export type AnyFunction = (...args: any[]) => any;

type Plain = ((value: unknown) => unknown) | undefined;

/** The port that carries a call. */
export interface CallPort {
  /** False: the message cannot be cloned. */
  post(message: MainMessage): boolean;
  /** Releases `cost` bytes of the values that the page has sent. */
  release(cost: number): void;
  /** `isGivenUp`: the session's peer was told that the answer is not waited for. */
  onCallEnded(id: number, isGivenUp: boolean): void;
}

/** The main process's half of a page's call. */
export class RelayedCall {
  readonly requests: RequestQueue;
  readonly responses = new ResponseCredit();
  readonly #port: CallPort;
  readonly #opening: OpenMessage;
  readonly #given = new AbortController();

  constructor(port: CallPort, opening: OpenMessage) {
    this.#port = port;
    this.#opening = opening;
    const { id } = opening;
    this.requests = new RequestQueue((cost) => {
      port.release(cost);
      port.post({ t: 'credit', id, count: 1 });
    });
  }

  cancel(reason: SidecallError): void {
    this.#given.abort(reason);
    this.requests.stop();
    this.responses.stop();
  }

  /** Fails it for the page; the handler is cancelled. */
  fail(error: SidecallError): void {
    this.#port.post({ t: 'error', id: this.#opening.id, error: portError(error) });
    this.cancel(error);
  }

  /** Makes the call. `plain`: converts an answer to plain data, by the codec of the answers. */
  async run(call: AnyFunction, plain: Plain): Promise<void> {
    const { id, method } = this.#opening;
    let isGivenUp = false;
    try {
      const value = await this.#make(call, plain);
      isGivenUp = this.#given.signal.aborted; // in the middle of a stream
      if (!isGivenUp) this.#post({ t: 'result', id, value: withOwnMemory(value) });
    } catch (error) {
      const failure = asSidecall(error, method);
      isGivenUp = this.#given.signal.aborted || failure.code === 'ERR_SIDECALL_DEADLINE_EXCEEDED';
      if (!this.#given.signal.aborted) this.fail(failure);
    } finally {
      this.requests.stop();
      this.#port.onCallEnded(id, isGivenUp);
    }
  }

  async #make(call: AnyFunction, plain: Plain): Promise<unknown> {
    const { kind, value } = this.#opening;
    const takesStream = kind === 'clientStream' || kind === 'bidi';
    const given = call(takesStream ? this.requests : value, this.#options());
    if (kind !== 'serverStream' && kind !== 'bidi') return this.#plainOf(await given, plain);
    for await (const response of given) {
      await this.responses.take();
      if (this.#given.signal.aborted) break;
      const value = withOwnMemory(this.#plainOf(response, plain));
      this.#post({ t: 'message', id: this.#opening.id, value });
    }
    return undefined;
  }

  #plainOf(value: unknown, plain: Plain): unknown {
    if (plain === undefined || value === undefined) return value;
    try {
      return plain(value);
    } catch (cause) {
      const text = `${this.#opening.method}: the answer cannot be given to a page: ${errorText(cause)}`;
      throw new SidecallError('ERR_SIDECALL_ENCODE', text, { cause, delivered: 'yes' });
    }
  }

  #options(): CallOptions {
    const { id, timeoutMs, metadata } = this.#opening;
    return {
      signal: this.#given.signal,
      timeoutMs,
      metadata,
      onHeaders: (headers) => this.#post({ t: 'headers', id, metadata: withOwnMemory(headers) }),
      onTrailers: (trailers) =>
        this.#post({ t: 'trailers', id, metadata: withOwnMemory(trailers) }),
    };
  }

  #post(message: MainMessage): void {
    if (this.#port.post(message)) return;
    const text = `${this.#opening.method}: the answer cannot be cloned for the page`;
    throw new SidecallError('ERR_SIDECALL_ENCODE', text, { delivered: 'yes' });
  }
}

/**
 * Requests of a stream, in the order of arrival. Each one that is taken grants credit for one more.
 */
class RequestQueue implements AsyncIterableIterator<unknown, undefined> {
  readonly #onTaken: (cost: number) => void;
  readonly #waiting: { readonly value: unknown; readonly cost: number }[] = [];
  #wake: () => void = () => undefined;
  // `#isEnded`: the page has sent its last request, and a further one breaks the protocol.
  // `#isStopped`: the call takes no more requests, and further ones are dropped.
  #isEnded = false;
  #isStopped = false;

  constructor(onTaken: (cost: number) => void) {
    this.#onTaken = onTaken;
  }

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` beyond the window, or behind the end. */
  push(value: unknown, cost: number): void {
    if (this.#isEnded) throw broken('a request behind the last one');
    if (this.#isStopped) return this.#onTaken(cost);
    if (this.#waiting.length >= requestWindow) {
      throw broken('more requests than there is credit for');
    }
    this.#waiting.push({ value, cost });
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  stop(): void {
    this.#isStopped = true;
    for (const { cost } of this.#waiting.splice(0)) this.#onTaken(cost);
    this.#wake();
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    while (this.#waiting.length === 0) {
      if (this.#isEnded || this.#isStopped) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const { value, cost } = this.#waiting.shift() as { value: unknown; cost: number };
    this.#onTaken(cost);
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.stop();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The number of responses that the page will take. */
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

function asSidecall(error: unknown, method: string): SidecallError {
  if (SidecallError.is(error)) return error;
  // Misuse by the page: invalid metadata, a value that JSON cannot carry.
  const text = `${method}: ${(error as Error | undefined)?.message ?? 'the call was refused'}`;
  return new RpcError('invalid_argument', text);
}

/** A failure for the page. Never throws. */
export function portError(error: SidecallError): PortError {
  const { code, status, delivered, retryable } = error;
  const common = { code, status, message: textForPage(error), delivered, retryable };
  if (!RpcError.is(error)) return { rpc: false, ...common };
  try {
    return {
      rpc: true,
      ...common,
      details: withOwnMemory(error.details),
      metadata: withOwnMemory(error.metadata),
    };
  } catch {
    return { rpc: true, ...common };
  }
}

/** The text of a fault of the helper is told to us, and not to the page. */
function textForPage(error: SidecallError): string {
  const { message, status } = error;
  if (!RpcError.is(error) || !isFromPeer(error) || status !== 'internal') return message;
  return `${message.slice(0, message.indexOf(': '))}: internal`;
}

/** The page broke the rules. */
export function broken(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the page broke the protocol: ${what}`);
}
