// SPDX-License-Identifier: MIT
// A part of the calls of this thread, for processes that look into it. A bounded number of calls is
// taken at a time, so that the cost does not grow with the load.
import { isError } from '../../base/brands.ts';
import type { Delivered } from '../../base/error-codes.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import type { CallKindName } from '../../wire/frame-header.ts';

/** A call or stream of a sample. It has no payload, and no text that a program has written. */
export interface SampledCall {
  /** 1, 2, 3 … for the life of the thread. */
  readonly sequence: number;
  /** `session.id` of its session. */
  readonly session: number;
  readonly openedBy: 'us' | 'peer';
  /** Wire name of the method, or the name of the channel. */
  readonly method: string;
  readonly kind: CallKindName;
  /** Instants in milliseconds on the clock of the thread. `endedMs` is undefined: it goes on. */
  readonly beganMs: number;
  readonly endedMs: number | undefined;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly delivered: Delivered | undefined;
  /** Code or status of its error, or its class; undefined: it has ended well, or goes on. */
  readonly failure: string | undefined;
}

/** A sample that changes until its call has ended. */
export type OpenSample = { -readonly [Key in keyof SampledCall]: SampledCall[Key] };

/** Characters of the name of a class. */
const nameMax = 64;

/** The numbers and the outcome of a call that has ended. */
type Outcome = Pick<SampledCall, 'sentBytes' | 'receivedBytes' | 'delivered'> & {
  readonly error: unknown;
};

/** Changes that are kept until they are taken: long calls of earlier samples may end together. */
const changedMax = 1_000;

/** Takes the next calls of the thread while it has room. */
export class CallSampler {
  /** Calls that may be taken before the next `refill()`. 0: none is. */
  room = 0;
  #isOn = false;
  #last = 0;
  #missed = 0;
  readonly #changed = new Set<OpenSample>();

  /** From now on `room` calls are taken. */
  refill(room: number): void {
    this.room = room;
    this.#isOn = true;
  }

  /** No more calls are taken, and their ends are not noted. */
  stop(): void {
    this.room = 0;
    this.#isOn = false;
    this.take();
  }

  /** A call that begins; `room` is at least 1. */
  begin(
    session: number,
    openedBy: 'us' | 'peer',
    { method, kind }: Pick<SampledCall, 'method' | 'kind'>,
    nowMs: number,
  ): OpenSample {
    this.room -= 1;
    this.#last += 1;
    const sample: OpenSample = {
      sequence: this.#last,
      session,
      openedBy,
      method,
      kind,
      beganMs: nowMs,
      endedMs: undefined,
      sentBytes: 0,
      receivedBytes: 0,
      delivered: undefined,
      failure: undefined,
    };
    this.#note(sample);
    return sample;
  }

  /** The call of a sample has ended. */
  end(sample: OpenSample, call: Outcome, nowMs: number): void {
    sample.endedMs = nowMs;
    sample.sentBytes = call.sentBytes;
    sample.receivedBytes = call.receivedBytes;
    sample.delivered = call.delivered;
    sample.failure = failureName(call.error);
    this.#note(sample);
  }

  /**
   * The calls that have begun or ended since the last time, and the number of ends that were left
   * out because there were too many.
   */
  take(): { readonly calls: readonly SampledCall[]; readonly missed: number } {
    const calls = Array.from(this.#changed, (sample) => ({ ...sample }));
    const missed = this.#missed;
    this.#changed.clear();
    this.#missed = 0;
    return { calls, missed };
  }

  #note(sample: OpenSample): void {
    if (!this.#isOn) return;
    if (this.#changed.size < changedMax || this.#changed.has(sample)) this.#changed.add(sample);
    else this.#missed += 1;
  }
}

/** Texts of errors may quote what a caller has sent: only their kind is given. */
function failureName(error: unknown): string | undefined {
  if (error === undefined) return undefined;
  if (RpcError.is(error)) return error.status;
  if (SidecallError.is(error)) return error.code;
  if (!isError(error)) return typeof error;
  const name: unknown = error.constructor?.name;
  return typeof name === 'string' && name !== '' ? name.slice(0, nameMax) : 'Error';
}

/** The sampler of this thread. */
export const callSampler = new CallSampler();
