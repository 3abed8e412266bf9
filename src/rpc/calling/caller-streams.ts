// SPDX-License-Identifier: MIT
// The streams that callers hold, over a call that a session, a helper or an interceptor drives.

import { SidecallError } from '../../base/errors.ts';
import type { Bidi, ClientStream, ServerStream } from '../contract/stream-types.ts';
import { done, type StreamCall } from './call-target.ts';
import { InterceptedStream } from './stream-call.ts';

function cancelled(): SidecallError {
  return new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was cancelled by its caller');
}

/** Settles when the call of a stream is over; undefined: that is no stream of ours. */
export function endOfStream(stream: unknown): Promise<unknown> | undefined {
  if (stream instanceof CallerServerStream || stream instanceof CallerClientStream) {
    return stream[call].promise;
  }
  return undefined;
}

/** The call below a stream, for the other parts of the package. */
const call = Symbol('call');

export class CallerServerStream<Res> implements ServerStream<Res> {
  readonly [call]: StreamCall;

  constructor(streamCall: StreamCall) {
    this[call] = streamCall;
  }

  get queuedBytes(): number {
    return this[call].queuedBytes;
  }

  next(): Promise<IteratorResult<Res, undefined>> {
    return this[call].next() as Promise<IteratorResult<Res, undefined>>;
  }

  return(): Promise<IteratorResult<Res, undefined>> {
    this[call].cancelReading();
    return Promise.resolve(done);
  }

  cancel(reason?: unknown): void {
    this[call].cancel(reason ?? cancelled());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

export class CallerClientStream<Req, Res> implements ClientStream<Req, Res> {
  readonly [call]: StreamCall;
  #answer: Promise<Res> | undefined;

  constructor(streamCall: StreamCall) {
    this[call] = streamCall;
  }

  get queuedBytes(): number {
    return this[call].queuedBytes;
  }

  send(request: Req): Promise<void> {
    return this[call].send(request);
  }

  end(): Promise<Res> {
    if (this.#answer === undefined) {
      // The end of the requests may be the answer itself, if an interceptor has given the
      // stream.
      const ended = this[call].end() as Promise<unknown>;
      this.#answer = (
        this[call] instanceof InterceptedStream ? ended : this[call].promise
      ) as Promise<Res>;
      ended.catch(() => undefined); // the answer has the error
    }
    return this.#answer;
  }

  cancel(reason?: unknown): void {
    this[call].cancel(reason ?? cancelled());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#answer === undefined) this.cancel();
  }
}

export class CallerBidi<Req, Res> extends CallerServerStream<Res> implements Bidi<Req, Res> {
  send(request: Req): Promise<void> {
    return this[call].send(request);
  }

  end(): Promise<void> {
    return this[call].end();
  }
}
