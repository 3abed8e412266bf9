// SPDX-License-Identifier: MIT
// A server stream that is opened again on the next session: a subscription.
import { onAbortOf } from '../base/abort-listeners.ts';
import { backOffMs } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { endWaits, pause } from '../base/pause.ts';
import type { Random } from '../base/random.ts';
import { done, type Step, type StreamCall } from '../rpc/calling/call-target.ts';

/** The parts of a {@link ResubscribingStream}. */
export interface ResubscribingParts {
  readonly clock: Clock;
  readonly random: Random;
  /** Ends the pause before a stream is opened again. */
  readonly signal: AbortSignal | undefined;
  /** Begins the stream, on the session of now or on the next one. */
  readonly open: () => StreamCall;
  /** Told before the stream begins again: messages may be missing. */
  readonly onGap: (error: SidecallError) => void;
}

/** Pauses between streams that end before their first message. */
const backOff = { firstMs: 10, maxMs: 1_000 };

/** Messages of one stream after the other. It ends with the first stream that ends by itself. */
export class ResubscribingStream implements StreamCall {
  readonly promise: Promise<unknown>;
  readonly #parts: ResubscribingParts;
  readonly #stopped = new AbortController();
  #call: StreamCall;
  #resolve!: (value: unknown) => void;
  // Calls of `next()` run one at a time, in their order.
  #turn: Promise<unknown> = Promise.resolve();
  // Streams in a row without a message.
  #empty = 0;
  #isOver = false;
  #reason: { readonly error: unknown } | undefined;

  constructor(parts: ResubscribingParts) {
    this.#parts = parts;
    this.promise = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.promise.catch(ignore);
    this.#call = parts.open();
  }

  get queuedBytes(): number {
    return this.#call.queuedBytes;
  }

  next(): Promise<Step> {
    const step = this.#turn.then(() => this.#next());
    this.#turn = step.catch(ignore);
    step.catch(ignore);
    return step;
  }

  cancelReading(): void {
    this.#end();
    this.#call.cancelReading();
  }

  send(value: unknown): Promise<void> {
    return this.#call.send(value);
  }

  end(): Promise<void> {
    return this.#call.end();
  }

  cancel(reason: unknown): void {
    this.#reason ??= { error: reason };
    this.#end();
    this.#call.cancel(reason);
  }

  async #next(): Promise<Step> {
    for (;;) {
      if (this.#isOver) return this.#last();
      try {
        const step = await this.#call.next();
        if (step.done === true) this.#end();
        this.#empty = 0;
        return step;
      } catch (error) {
        if (this.#isOver || !isLoss(error)) {
          this.#end();
          throw error;
        }
        await this.#reopen(error);
      }
    }
  }

  async #reopen(error: SidecallError): Promise<void> {
    this.#parts.onGap(error);
    const { clock, random, signal } = this.#parts;
    // The first try is at once: the target waits for the next session.
    const pauseMs = this.#empty === 0 ? 0 : backOffMs(this.#empty - 1, backOff, random);
    this.#empty += 1;
    const ended = new AbortController();
    const end = (): void => endWaits(ended);
    const forget = [onAbortOf(signal, end), onAbortOf(this.#stopped.signal, end)];
    if (pauseMs > 0) await pause(clock, pauseMs, ended.signal);
    for (const each of forget) each();
    if (!this.#isOver) this.#call = this.#parts.open();
  }

  #last(): Step {
    if (this.#reason !== undefined) throw this.#reason.error;
    return done;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stopped.abort();
    this.#resolve(this.#call.promise);
  }
}

/** The session of the stream was lost, or is about to end. */
function isLoss(error: unknown): error is SidecallError {
  return SidecallError.is(error) && !RpcError.is(error) && error.retryable;
}
