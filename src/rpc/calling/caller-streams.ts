// SPDX-License-Identifier: MIT
// What callers of streaming methods hold.

import { SidecallError } from '../../base/errors.ts';
import { freeValue } from '../contract/leases.ts';
import { LiftedCall, type StreamCall } from './stream-call.ts';

const done: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

function cancelled(): SidecallError {
  return new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was cancelled by its caller');
}

/**
 * Responses of a call, to be iterated once. Leaving the loop cancels the call. Iterating rejects with
 * what a unary call would reject with, behind the responses that came before. What was not taken yet
 * holds its sender back.
 */
export class ServerStream<Res> implements AsyncIterableIterator<Res, undefined>, AsyncDisposable {
  /** @internal */
  protected readonly streamCall: StreamCall;

  /** @internal */
  constructor(call: StreamCall) {
    this.streamCall = call;
  }

  /** Bytes of this call that wait on this side: responses to be taken, requests to be admitted. */
  get queuedBytes(): number {
    return this.streamCall.queuedBytes;
  }

  /** The next response. May be called again before the last one came. */
  next(): Promise<IteratorResult<Res, undefined>> {
    return this.streamCall.next() as Promise<IteratorResult<Res, undefined>>;
  }

  /** Cancels the call, quietly; `break` does it. */
  return(): Promise<IteratorResult<Res, undefined>> {
    this.streamCall.stop();
    return Promise.resolve(done);
  }

  /** Cancels the call: whoever iterates it gets `reason`. Default: `CANCELLED`. The handler sees its signal. */
  cancel(reason?: unknown): void {
    this.streamCall.cancel(reason ?? cancelled());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/** Requests of a call with one response. */
export class ClientStream<Req, Res> implements AsyncDisposable {
  readonly #call: StreamCall;
  #answer: Promise<Res> | undefined;

  /** @internal */
  constructor(call: StreamCall) {
    this.#call = call;
  }

  /** Bytes that wait to be admitted. */
  get queuedBytes(): number {
    return this.#call.queuedBytes;
  }

  /**
   * Sends a request. Resolves when it was admitted: until then its bytes must not change.
   * @throws (as rejection) `END_OF_STREAM` after `end()` or once the call was answered, `ENCODE`,
   * `MESSAGE_TOO_LARGE`, or what the call failed with.
   */
  send(request: Req): Promise<void> {
    return this.#call.send(request);
  }

  /** Ends the requests; resolves to the response. Twice is once. */
  end(): Promise<Res> {
    if (this.#answer === undefined) {
      // What ended the requests may be the answer itself, where an interceptor has given the stream.
      const ended = this.#call.end() as Promise<unknown>;
      this.#answer = (
        this.#call instanceof LiftedCall ? ended : this.#call.promise
      ) as Promise<Res>;
      ended.catch(() => undefined); // the answer says it better
    }
    return this.#answer;
  }

  /** Cancels the call: what waits rejects with `reason`. Default: `CANCELLED`. The handler sees its signal. */
  cancel(reason?: unknown): void {
    this.#call.cancel(reason ?? cancelled());
  }

  /** Cancels the call unless its requests were ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#answer === undefined) this.cancel();
  }
}

/** Both directions of a call. Leaving a loop over the responses cancels it. */
export class Bidi<Req, Res> extends ServerStream<Res> {
  /** As {@link ClientStream.send}. */
  send(request: Req): Promise<void> {
    return this.streamCall.send(request);
  }

  /** Ends the requests. Resolves when the peer has all of them; responses go on. Twice is once. */
  end(): Promise<void> {
    return this.streamCall.end();
  }
}

/**
 * Sends all of `requests`, then their end. What the iteration throws cancels the call; when the call is
 * over first, the iteration is left.
 */
export async function pump(
  call: StreamCall,
  requests: AsyncIterable<unknown> | Iterable<unknown>,
): Promise<void> {
  let isOver = false;
  let wake: (step: typeof done) => void = () => undefined;
  const onOver = (): void => {
    isOver = true;
    wake(done);
  };
  call.promise.then(onOver, onOver);
  let iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined;
  try {
    iterator = iteratorOf(requests);
    const isSync = !(Symbol.asyncIterator in requests);
    for (;;) {
      // A promise of its own for each turn: one for all would remember every turn.
      const woken = new Promise<typeof done>((resolve) => {
        wake = resolve;
      });
      const next: unknown = isOver ? done : iterator.next();
      const step = await Promise.race([next as typeof done | IteratorResult<unknown>, woken]);
      if (isOver) {
        Promise.resolve(next as IteratorResult<unknown>).then(
          (late) => freeValue(late.value), // a block that comes too late
          () => undefined,
        );
        return await leave(iterator);
      }
      if (step.done === true) break;
      await call.send(isSync ? await step.value : step.value);
    }
    void call.end().catch(() => undefined);
  } catch (error) {
    call.cancel(error); // no news where the call itself had failed
    await leave(iterator);
  }
}

/** Lets an iteration clean up. What it throws then is nobody's: its call is over. */
async function leave(
  iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined,
): Promise<void> {
  try {
    await iterator?.return?.();
  } catch {
    // as said
  }
}

/** Something that can be iterated, and is no options object. */
export function isIterable(value: unknown): value is AsyncIterable<unknown> | Iterable<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value)
  );
}

function iteratorOf(
  requests: AsyncIterable<unknown> | Iterable<unknown>,
): AsyncIterator<unknown> | Iterator<unknown> {
  if (Symbol.asyncIterator in requests) return requests[Symbol.asyncIterator]();
  return requests[Symbol.iterator]();
}
