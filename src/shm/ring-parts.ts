// SPDX-License-Identifier: MIT
// The parts that a ring transport is made of.
import type { EventLoop } from '../loop/event-loop.ts';
import type { SocketOpener } from '../wire/lane-socket.ts';
import type { LaneCapacity } from '../wire/transport.ts';
import type { Ring } from './ring.ts';

/** The parts of a ring transport. */
export interface RingParts {
  readonly ring: Ring;
  /** The process at the other end, by `ownerOf()`. */
  readonly owner: number;
  /** Largest frame, header included: what a record of our own outbox holds. */
  readonly frameMaxBytes: number;
  /** Messages in the peer's block area may be read there: it is trusted not to change them. */
  readonly lendsInPlace: boolean;
  readonly open: SocketOpener;
  readonly capacity?: LaneCapacity | undefined;
  readonly pollBudgetUs: number;
  /** Default: the event loop of this thread. */
  readonly loop?: EventLoop | undefined;
}
