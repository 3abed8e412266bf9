// SPDX-License-Identifier: MIT
// The part that both ends of a channel share: two halves, each with an end that the other side
// answers. It is over when both were answered.

import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { ignore, rejected } from '../../base/ignore-errors.ts';
import { protocol } from '../../wire/frame-header.ts';
import type { Watched } from '../idle-timeout.ts';
import { answerEnd, sendHalfEnd } from '../sending/end-frames.ts';
import type { SendingStream } from '../sending/outgoing-messages.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { StreamReader } from './stream-reader.ts';
import { ended, type StreamWriter } from './stream-writer.ts';

/** The stream of a channel, which is told how the channel ends. */
export interface ChannelStream extends SendingStream {
  /** Both halves ended well. */
  onChannelOver(): void;
  /** Our side gives the channel up: the peer is to be told, and `fail` follows. */
  onChannelAborted(error: unknown): void;
}

/** The halves of a channel. */
export interface ChannelParts {
  readonly reader: StreamReader;
  readonly writer: StreamWriter;
  /** Flag `fromOpener` where we opened it. */
  readonly flags: number;
  readonly name: string;
}

export class ChannelHalves implements Watched {
  readonly reader: StreamReader;
  readonly writer: StreamWriter;
  /** Settles when the channel is over: rejects where it did not end on both sides. */
  readonly closed: Promise<void>;
  #resolveClosed!: () => void;
  #rejectClosed!: (reason: unknown) => void;
  readonly clock: Clock;
  readonly #shared: SessionShared;
  readonly #stream: ChannelStream;
  readonly #parts: ChannelParts;
  #ending: Promise<void> | undefined;
  #resolveEnding: () => void = ignore;
  #rejectEnding: (reason: unknown) => void = ignore;
  #isEndSent = false;
  #isEndTaken = false;
  #isPeerEnded = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(shared: SessionShared, stream: ChannelStream, parts: ChannelParts) {
    this.clock = shared.clock;
    this.#shared = shared;
    this.#stream = stream;
    this.#parts = parts;
    this.reader = parts.reader;
    this.writer = parts.writer;
    this.closed = new Promise((resolve, reject) => {
      this.#resolveClosed = resolve;
      this.#rejectClosed = reject;
    });
  }

  /** It was given up, by either side, or lost. */
  get isFailed(): boolean {
    return this.#failure !== undefined && !(this.#isEndTaken && this.#isPeerEnded);
  }

  /** Both sides have said that they send no more, and the peer may have forgotten the channel. */
  get awaitsOnlyAnswer(): boolean {
    return this.#isPeerEnded && this.#isEndSent;
  }

  /** The peer has said that it sends no more. */
  get isPeerEnded(): boolean {
    return this.#isPeerEnded;
  }

  /**
   * Leaves the channel, as a destroyed socket does: admitted messages still arrive, and
   * then our end; waiting ones are not sent, and arriving ones are dropped. The peer gets a
   * reset once it has our end.
   */
  close(): void {
    if (this.#failure !== undefined) return;
    const left = new SidecallError('ERR_SIDECALL_CANCELLED', `${this.#parts.name}: it was left`);
    this.reader.close();
    this.writer.failWaiting(left);
    const abort = (): void => {
      if (!this.#isPeerEnded) this.abort(left);
    };
    this.end().then(abort, ignore);
  }

  /** Gives the channel up at once. Once it is over there is nothing to give up. */
  abort(error: unknown): void {
    if (this.#failure === undefined) this.#stream.onChannelAborted(error);
  }

  /** Grows with every message that was admitted or taken. */
  get moved(): number {
    return this.reader.taken + this.writer.admitted;
  }

  readonly isBusy = false;

  onIdle(timeoutMs: number): void {
    const text = `nothing moved on the channel for ${timeoutMs} ms`;
    this.abort(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text));
  }

  /**
   * Sends our end behind the messages, and resolves when the peer has all of it. A second
   * call has no further effect.
   */
  end(): Promise<void> {
    if (this.#ending !== undefined) return this.#ending;
    if (this.#failure !== undefined) {
      return rejected(this.#failure.error);
    }
    this.#ending = new Promise((resolve, reject) => {
      this.#resolveEnding = resolve;
      this.#rejectEnding = reject;
    });
    this.writer.end(() => {
      this.#isEndSent = true;
      sendHalfEnd(this.#shared, this.#stream, this.#parts.flags);
    });
    return this.#ending;
  }

  /** The peer's end. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  onEnd(): void {
    if (this.#isPeerEnded || this.reader.isMidMessage)
      throw protocol('end frame in the middle of a message, or a second one');
    this.#isPeerEnded = true;
    this.reader.end();
    answerEnd(this.#shared, this.#stream, this.#parts.flags);
    this.#checkOver();
  }

  /** The peer has our end. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  onEndTaken(): void {
    if (!this.#isEndSent || this.#isEndTaken) throw protocol('answer to an end that was not sent');
    this.#isEndTaken = true;
    this.#resolveEnding();
    this.#checkOver();
  }

  /** It is over otherwise. `now`: messages that were not taken are dropped. */
  fail(error: unknown, how: { readonly now: boolean }): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.reader.fail(error, how);
    this.writer.fail(error);
    this.#ending?.catch(ignore);
    this.#rejectEnding(error);
    this.closed.catch(ignore);
    this.#rejectClosed(error);
  }

  #checkOver(): void {
    if (!this.#isEndTaken || !this.#isPeerEnded) return;
    this.writer.fail(ended(this.#parts.name, 'after end()'));
    this.#failure = { error: ended(this.#parts.name, 'after end()') };
    this.#resolveClosed();
    this.#stream.onChannelOver();
  }
}
