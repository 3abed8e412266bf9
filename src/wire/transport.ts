// SPDX-License-Identifier: MIT
// The interface between a session and its lane: whole frames in order, or the end. Sessions know
// nothing else of sockets or memory.
import type { SidecallError } from '../base/errors.ts';
import type { RingCopies } from './ring-report.ts';

/** The lanes that carry the frames of a session. */
export type Lane = 'ring' | 'socket' | 'loopback';

/** A block of our own memory that the peer reads where it lies. */
export interface OwnBlock {
  /** To be filled. Of length 0 once it was sealed, unless it shares its memory. */
  readonly bytes: Buffer;
  /** The array buffer has other blocks, too: it is never detached. */
  readonly sharesMemory: boolean;
  /** Ends the writing: our views are detached, unless the block shares its memory. */
  seal(): void;
  /** Frees a block that is not sent. Does nothing the second time, or once the peer has it. */
  release(): void;
}

/**
 * Bytes in the peer's memory, until they are released; a second release does nothing. Their array
 * buffer has other messages, too: a view that is kept longer sees those.
 */
export interface LentBytes {
  readonly byteLength: number;
  /** A new view each time. */
  readonly bytes: Buffer;
  release(): void;
  /** Calls `then` once, when they were released or collected. */
  whenReleased(then: () => void): void;
}

/**
 * A whole message in the peer's memory, not yet read. Call exactly one of its
 * methods that take it, exactly once.
 */
export interface ArrivedBlock {
  readonly byteLength: number;
  /** A copy, of exactly its length; the peer may then use the memory again. */
  copyInto(target: Uint8Array): void;
  /** Its bytes in place, for the method `owner`; undefined: only `copyInto()` is possible. */
  lend(owner: string): LentBytes | undefined;
  /** The message is not wanted: the block goes back to the peer. */
  release(): void;
}

/** Memory of a lane, in bytes. */
export interface LaneCapacity {
  /** For what we send. */
  readonly send: number;
  /** For what the peer sends. */
  readonly receive: number;
}

/** Doorbells of a ring, ever. */
interface DoorbellCounts {
  readonly sent: number;
  readonly received: number;
  /** Publications that needed none, because the peer was awake or about to wake. */
  readonly suppressed: number;
}

/** Unread bytes in the memory of a ring, headers and padding included. */
export interface RingMemoryUse {
  /** Of what we sent. */
  readonly send: number;
  /** Of what the peer sent. */
  readonly receive: number;
  /** The most that was ever found of what the peer sent. */
  readonly receiveMax: number;
}

/** The numbers of a ring. */
export interface RingCounts {
  readonly doorbells: DoorbellCounts;
  readonly memory: RingMemoryUse;
  /** Blocks of ours in use, and leases of the peer's blocks that we hold. */
  readonly blocks: { readonly inUse: number; readonly held: number };
}

/** A lease of a block of the peer's that is held. */
export interface HeldLease {
  /** Its number: 1, 2, 3 … in the order of the blocks that the peer has sent. */
  readonly id: number;
  readonly bytes: number;
  /** Milliseconds since it was given out. */
  readonly ageMs: number;
  /** The method whose message it is, or the name of its channel. */
  readonly owner: string;
}

/** The inside of a lane at one moment. */
export interface LaneInspection {
  /** Copies of the memories of a ring, blocks left out; undefined: it is closed. */
  readonly memory: RingCopies | undefined;
  /** Leases of the peer's blocks that are held. */
  readonly leases: readonly HeldLease[];
}

/**
 * The queue of a frame. true: a piece of a long message, which waits while two of the longest are
 * unread; `shared`: a short piece, beside short messages, which waits while two such are unread.
 * false: any other frame.
 */
export type Bulk = boolean | 'shared';

/** Moves whole frames, in order, or fails. It keeps nothing of a frame that it refused. */
export interface Transport {
  readonly lane: Lane;
  /** Largest frame, header included; the session cuts messages to fit. */
  readonly frameMaxBytes: number;
  /**
   * Places for the header of the frame that is sent next, by its type, from which it is not copied.
   */
  readonly headers?: readonly Uint8Array[] | undefined;
  /** True: the memory of `placeFor` is filled before it returns to the event loop. */
  readonly fillsAtOnce?: boolean | undefined;
  /** Called once. Frames then arrive in order, synchronously, one call each. */
  start(receiver: FrameReceiver): void;
  /**
   * All of it or nothing. `false`: no room, `onRoom` follows. Both parts are copied before this
   * returns; a string goes out as UTF-8.
   */
  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: Bulk): boolean;
  /**
   * Memory for a message that the peer can read where it lies; undefined: ordinary memory has to
   * do.
   */
  allocate?(bytes: number): OwnBlock | undefined;
  /**
   * As `trySend`, for a frame whose message is a block, sealed. `prefix` goes between header and
   * message. NOTE: only for blocks of `allocate`, and a prefix of at most `blockPrefixMaxBytes`.
   */
  trySendBlock?(header: Uint8Array, prefix: Uint8Array, block: OwnBlock): boolean;
  /** The numbers of a ring, also once it is closed; undefined: another lane. */
  ringCounts?(): RingCounts;
  /**
   * Memory of the lane, in bytes: the outboxes of both sides, or the buffers of the socket as the
   * kernel counts them. undefined: unknown.
   */
  readonly capacity?: LaneCapacity | undefined;
  /**
   * The inside of the lane at this moment; copies what is unread in a ring, `unreadMaxBytes` in
   * each direction at most.
   */
  inspect?(unreadMaxBytes: number): LaneInspection;
  /** Grows with every frame sent. */
  readonly sentPosition: number;
  /** True: the lane tells `moments`, set before it is started, whenever it looks at the clock. */
  readonly tellsTime?: boolean | undefined;
  moments?: MomentReceiver | undefined;
  /**
   * True: the lane has a part of each turn of the event loop. A lane with `lookSoon` looks at the
   * clock after it.
   */
  readonly isAwake?: boolean;
  /**
   * The lane tells `moments` before the event loop goes on, or has begun a turn at whose end it
   * does. A lane without this method does neither: its session arranges for that.
   */
  lookSoon?(): void;
  /**
   * The position that the peer has certainly taken, on the scale of `sentPosition`; undefined:
   * unknown.
   */
  readonly consumedPosition: number | undefined;
  /**
   * Instant at which the frame began to arrive of which the rest has not come; undefined: there is
   * none, or its bytes wait for our own turn.
   */
  readonly unfinishedSince?: number | undefined;
  /** True: frames have arrived that wait for a turn of ours. */
  readonly isBehind?: boolean | undefined;
  /**
   * The peer's process is known to be gone: hands out what it had sent before, then ends with
   * `error`.
   */
  drainLast?(error: SidecallError): void;
  /**
   * Looks, in the middle of a handler, for frames that have arrived since, and offers the resets
   * among them to `takeAhead`; all others wait their turn. False: it cannot know of all of them.
   */
  lookAhead?(): boolean;
  /** Resolves when everything sent was handed over and the transport is closed. */
  close(): Promise<void>;
  /** At once: what was not handed over yet is lost. No frame arrives afterwards. */
  destroy(): void;
  ref(): void;
  unref(): void;
}

/** The instants of a session, for a lane that looks at the clock anyway. */
export interface MomentReceiver {
  /** The event loop is about to go on. */
  goOn(): void;
  /** The lane has looked at the clock. */
  reach(nowMs: number): void;
}

/** The interface of a session to its transport. */
export interface FrameReceiver {
  /**
   * A frame: its header begins at `at` of `header`, its payload is that from `from` up to `to` of
   * `payload`. A view for each would cost more than all else that a short frame takes. Both are
   * valid until this returns; `payload` may be the memory of `placeFor`. `block`: the message of
   * the frame, of which `payload` then holds nothing; a block that is not taken is dropped.
   */
  onFrame(
    header: Uint8Array,
    at: number,
    payload: Uint8Array,
    from: number,
    to: number,
    block?: ArrivedBlock,
  ): void;
  /** Final place of a payload that arrives in pieces; undefined: the transport's own memory. */
  placeFor(header: Uint8Array, bytes: number): Uint8Array | undefined;
  /** A reset that `lookAhead` has found. True: it was taken, and is not to be handed out again. */
  takeAhead(header: Uint8Array): boolean;
  onRoom(): void;
  /** Exactly once, after the last frame. undefined: the peer's end closed. */
  onEnd(error: SidecallError | undefined): void;
}
