// SPDX-License-Identifier: MIT
// The socket of a lane, as transports use it: of Node, or of a simulation.

/** The part of a net.Socket that transports use. */
export interface LaneSocket {
  readonly closed: boolean;
  /** Bytes of writes that the kernel has not taken; left out: unknown. */
  readonly writableLength?: number;
  on(event: 'end' | 'close', then: () => void): this;
  on(event: 'error', then: (error: NodeJS.ErrnoException) => void): this;
  once(event: 'close', then: () => void): this;
  /** `then` is called once the bytes were handed over, or cannot be; they stay as they are. */
  write(bytes: Uint8Array, then: (error?: Error | null) => void): unknown;
  end(then: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
  ref(): unknown;
  unref(): unknown;
}

/** A socket that hands out what it reads, and can be emptied when writing to it has failed. */
export interface OpenSocket {
  readonly socket: LaneSocket;
  /** Reads what the kernel still holds, without waiting; undefined where there is no addon. */
  readonly drain: (() => void) | undefined;
  /** Left out: at the exit of the process bytes are lost that the kernel has not taken. */
  readonly atExit?: ExitWriter;
}

/**
 * Calls `flush` at the exit of the process, where the socket is still open, and writes what the
 * kernel has not taken of the writes that it returns: all whose callback was not called, the oldest
 * first. Then calls `then` with a function that writes at once, and waits for the peer.
 */
export type ExitWriter = (
  flush: () => readonly Uint8Array[],
  then: (write: (bytes: Uint8Array) => void) => void,
) => void;

/** Gives every read's bytes to `onBytes`, as a view that is dead when it returns. */
export type SocketOpener = (onBytes: (bytes: Uint8Array) => void) => OpenSocket;
