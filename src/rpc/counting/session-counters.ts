// SPDX-License-Identifier: MIT
// Everything that a session has counted since it began. The numbers of several sessions can be
// added up.
import type { FailureStatus, SidecallErrorCode } from '../../base/error-codes.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { receivesMany } from '../../wire/frame-header.ts';
import { Lease } from '../contract/leases.ts';
import { MessageCounter, type MessageCounts, MethodTable } from './method-counters.ts';

/** The end of a call of the peer's that did not end well: the code or status of its error. */
export type ServedEnd = SidecallErrorCode | FailureStatus;

/**
 * The end of a call of ours that did not end well. `by-caller`: its caller has ended it, by its
 * `signal`, by `cancel()` or by an error in a function of its own, with a reason that is no error
 * of Sidecall's.
 */
export type CallEnd = ServedEnd | 'by-caller';

/** Numbers of calls by their end. */
class EndCounter {
  readonly #counts = new Map<string, number>();

  count(end: CallEnd): void {
    this.#counts.set(end, (this.#counts.get(end) ?? 0) + 1);
  }

  add(other: EndCounter): void {
    for (const [end, count] of other.#counts) {
      this.#counts.set(end, (this.#counts.get(end) ?? 0) + count);
    }
  }

  get now(): { readonly [End in CallEnd]?: number } {
    return Object.fromEntries(this.#counts);
  }
}

/** The counters of one session, or of several together. */
export class SessionCounters {
  /** Methods that we call. */
  readonly called = new MethodTable();
  /** Methods that we serve. Calls of others are counted together: their names are the peer's. */
  readonly served = new MethodTable();
  /** Failures of our calls. */
  readonly calledEnds = new EndCounter();
  /** Failures of the peer's calls. */
  readonly servedEnds = new EndCounter();
  /** Messages that our application took, but for the answers of calls with one. */
  readonly taken = new MessageCounter();
  /** Answers of calls with one that could not be decoded. */
  readonly untakenAnswers = new MessageCounter();
  framesReceived = 0;
  /** Leased messages that were given out where they lie in the peer's memory, and as copies. */
  leasesInPlace = 0;
  leasesCopied = 0;
  /** Blocks that were given out in shared memory, and as ordinary memory. */
  blocksInPlace = 0;
  blocksOrdinary = 0;

  /** Our application took a message. */
  countTaken(bytes: number, value: unknown): void {
    this.taken.count(bytes);
    this.countLease(value);
  }

  /** A message was given out, perhaps as a lease. */
  countLease(value: unknown): void {
    if (!(value instanceof Lease)) return;
    if (value.copied) this.leasesCopied += 1;
    else this.leasesInPlace += 1;
  }

  /** Messages that our application took. It takes an answer that is decoded at once. */
  get consumed(): MessageCounts {
    let { messages, bytes } = this.taken;
    for (const { kind, received } of this.called.all) {
      if (receivesMany(kind)) continue;
      messages += received.messages;
      bytes += received.bytes;
    }
    const { messages: untaken, bytes: untakenBytes } = this.untakenAnswers;
    return { messages: messages - untaken, bytes: bytes - untakenBytes };
  }

  add(other: SessionCounters): void {
    this.called.add(other.called);
    this.served.add(other.served);
    this.calledEnds.add(other.calledEnds);
    this.servedEnds.add(other.servedEnds);
    this.taken.add(other.taken);
    this.untakenAnswers.add(other.untakenAnswers);
    this.framesReceived += other.framesReceived;
    this.leasesInPlace += other.leasesInPlace;
    this.leasesCopied += other.leasesCopied;
    this.blocksInPlace += other.blocksInPlace;
    this.blocksOrdinary += other.blocksOrdinary;
  }
}

/** The end of a call that failed with this error. */
export function endOfError(error: unknown): CallEnd {
  if (RpcError.is(error)) return error.status;
  return SidecallError.is(error) ? error.code : 'by-caller';
}
