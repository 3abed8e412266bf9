// SPDX-License-Identifier: MIT
// Calls with streams that are not calls of a session: over the next session of a helper, given by
// an interceptor, or failed before they began.

import { SidecallError } from '../../base/errors.ts';
import { ignore, quiet, rejected } from '../../base/ignore-errors.ts';
import { done, type Step, type StreamCall } from './call-target.ts';

/** A call on the next session of a helper, which is not open yet. */
export class DeferredCall implements StreamCall {
  readonly #call: Promise<StreamCall>;
  readonly promise: Promise<unknown>;
  readonly #giveUp: (reason: unknown) => void;
  #isStopped = false;

  /**
   * `giveUp`: the caller does not wait for the session any more; `call` rejects then, or is
   * cancelled.
   */
  constructor(call: Promise<StreamCall>, giveUp: (reason: unknown) => void) {
    this.#call = call;
    this.#giveUp = giveUp;
    this.promise = call.then((begun) => begun.promise);
    this.promise.catch(ignore);
  }

  get queuedBytes(): number {
    return 0;
  }

  next(): Promise<Step> {
    if (this.#isStopped) return Promise.resolve(done);
    return quiet(this.#call.then((call) => call.next()));
  }

  cancelReading(): void {
    this.#isStopped = true;
    this.#giveUp(new SidecallError('ERR_SIDECALL_CANCELLED'));
    this.#call.then((call) => call.cancelReading(), ignore);
  }

  send(value: unknown): Promise<void> {
    return quiet(this.#call.then((call) => call.send(value)));
  }

  end(): Promise<void> {
    return quiet(this.#call.then((call) => call.end()));
  }

  cancel(reason: unknown): void {
    this.#giveUp(reason);
    this.#call.then((call) => call.cancel(reason), ignore);
  }
}

/** A stream that an interceptor gives later. */
export class InterceptedStream implements StreamCall {
  readonly promise: Promise<unknown>;
  readonly queuedBytes = 0;
  /** The stream, or why it is not waited for any longer. */
  readonly #stream: Promise<AwaitedStream>;
  /** The stream, however late it comes. */
  readonly #arriving: Promise<AwaitedStream>;
  readonly #stopped: Promise<Step>;
  #giveUp: (reason: unknown) => void = ignore;
  #endReading: (step: Step) => void = ignore;
  #isStopped = false;

  constructor(awaited: Promise<unknown>) {
    this.#arriving = quiet(awaited.then(checkInterceptedStream));
    this.#stream = quiet(
      new Promise((resolve, reject) => {
        this.#giveUp = reject;
        this.#arriving.then(resolve, reject);
      }),
    );
    this.#stopped = new Promise((resolve) => {
      this.#endReading = resolve;
    });
    this.promise = this.#stream;
  }

  next(): Promise<Step> {
    if (this.#isStopped) return Promise.resolve(done);
    const taken = this.#stream.then((stream) => stream.next?.() ?? done);
    return quiet(Promise.race([taken, this.#stopped]));
  }

  cancelReading(): void {
    this.#isStopped = true;
    this.#endReading(done);
    this.#arriving.then((stream) => stream.return?.(), ignore);
  }

  send(value: unknown): Promise<void> {
    return quiet(this.#stream.then((stream) => stream.send?.(value)));
  }

  end(): Promise<void> {
    return quiet(this.#stream.then((stream) => stream.end?.())) as Promise<void>;
  }

  cancel(reason: unknown): void {
    this.#giveUp(reason);
    this.#arriving.then((stream) => {
      if (stream.cancel === undefined) stream.return?.();
      else stream.cancel(reason);
    }, ignore);
  }
}

/** The members of a stream that an interceptor has returned. */
interface AwaitedStream {
  next?(): Promise<Step>;
  return?(): unknown;
  send?(value: unknown): Promise<void>;
  end?(): Promise<unknown>;
  cancel?(reason: unknown): void;
}

/** @throws {TypeError} for what no interceptor may give for a stream. */
export function checkInterceptedStream(result: unknown): AwaitedStream {
  if (typeof result === 'object' && result !== null) {
    if ('next' in result || 'send' in result) return result as AwaitedStream;
    if (Symbol.asyncIterator in result) {
      return (result as AsyncIterable<unknown>)[Symbol.asyncIterator]() as AwaitedStream;
    }
  }
  throw new TypeError('an interceptor of a stream must return what next() gave, or a stream');
}

/** A call that failed before it was made. */
export class FailedCall implements StreamCall {
  readonly promise: Promise<never>;
  readonly queuedBytes = 0;

  constructor(error: unknown) {
    this.promise = rejected(error);
  }

  next(): Promise<Step> {
    return this.promise;
  }

  cancelReading(): void {}

  send(): Promise<void> {
    return this.promise;
  }

  end(): Promise<void> {
    return this.promise;
  }

  cancel(): void {}
}
