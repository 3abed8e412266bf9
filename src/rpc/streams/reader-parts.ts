// SPDX-License-Identifier: MIT
// The parts that a reader of a stream is made of.
import type { SidecallError } from '../../base/errors.ts';
import type { Codec } from '../contract/codec.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import type { MethodCounters } from '../counting/method-counters.ts';
import type { SessionShared } from '../sending/session-shared.ts';

/** The stream that a reader belongs to. */
export interface ReadStream {
  readonly slot: number;
  readonly generation: number;
  /** The numbers of its method. */
  readonly counters: MethodCounters;
  readonly trace: CallTrace | undefined;
  /** True: frames of the stream may still be sent to the other side. */
  readonly isOpen: boolean;
  /** The application wants no more: quietly, or because of `error`. */
  onReaderStopped(error: SidecallError | undefined): void;
}

/** The parts of a reader. */
export interface ReaderParts {
  readonly shared: SessionShared;
  readonly stream: ReadStream;
  /** The method, or the name of the channel. */
  readonly name: string;
  readonly codec: Codec<unknown>;
  /** Flag `fromOpener` where we opened the stream. */
  readonly flags: number;
  readonly windowBytes: number;
}
