// SPDX-License-Identifier: MIT
// The one place that touches the descriptor behind a net.Socket.

import { Buffer } from 'node:buffer';
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { atExit, waitAtExit } from '../base/at-exit.ts';
import { systemClock } from '../base/clock.ts';
import { protocol } from '../wire/frame-header.ts';
import type { ExitWriter, SocketOpener } from '../wire/lane-socket.ts';

const isBun = process.versions.bun !== undefined;
const readBytes = 256 * 1024;
// More than a socket's queue holds by default: what the peer had sent before its end.
const drainMaxBytes = 1024 * 1024;
// One buffer for all sockets of the thread: libuv fills it right before the callback, and the
// callback keeps nothing of it. So an idle session owns no read buffer at all.
let sharedBuffer: Buffer | undefined;

/**
 * Reads the bytes that the kernel holds at this moment, once no more descriptors can be sent. With
 * the plain reads of Node the kernel would close descriptors that are still queued, on this thread,
 * which can block. Bytes that the peer adds meanwhile carry none, and are left to Node.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a descriptor behind the hello; an error of
 * the system, `EMFILE` where too many descriptors wait to be closed.
 */
export function readQueued(native: NativeAddon, fd: number, owner: number): readonly Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let left = native.queuedBytes(fd); left > 0; ) {
    const into = Buffer.allocUnsafe(Math.min(left, readBytes));
    const got = native.receive(fd, into, 0, false, true, owner);
    if (got === undefined || got.bytes === 0) return chunks; // net.Socket reads the end again
    if (got.descriptors > 0 || got.isTruncated || got.hasOtherControl) {
      throw protocol('descriptor behind its hello');
    }
    left -= got.bytes;
    chunks.push(into.subarray(0, got.bytes));
  }
  return chunks;
}

/**
 * Takes a connected descriptor over from the addon; `early` comes before all else.
 * NOTE: only after the hello.
 */
export function descriptorOpener(
  native: NativeAddon,
  fd: number,
  early: readonly Uint8Array[] = [],
): SocketOpener {
  return (onBytes) => {
    sharedBuffer ??= Buffer.allocUnsafeSlow(readBytes);
    const buffer = sharedBuffer;
    const callback = (bytes: number): boolean => {
      onBytes(buffer.subarray(0, bytes));
      return true;
    };
    let socket: Socket;
    if (isBun) {
      socket = socketOver(fd).on('data', onBytes);
    } else {
      // `onread` is documented for connect() and accepted by the constructor on every Node we
      // support.
      const options = { fd, readable: true, writable: true, onread: { buffer, callback } };
      socket = new Socket(options as ConstructorParameters<typeof Socket>[0]);
    }
    native.disownDescriptor(fd);
    for (const bytes of early) systemClock.nextTick(onBytes, bytes);
    const drain = (): void => {
      // After a failed read the number is closed already, and may be another connection's.
      if (socket.destroyed) return;
      // Bounded: a peer that shut its own reading only may go on writing for ever.
      for (let drained = 0; drained < drainMaxBytes; ) {
        const got = native.receive(fd, buffer, 0, false, false, 0);
        if (got === undefined || got.bytes === 0) return;
        drained += got.bytes;
        onBytes(buffer.subarray(0, got.bytes));
      }
    };
    return { socket, drain, atExit: (flush, then) => writeAtExit(socket, flush, then) };
  };
}

/**
 * A socket without a protocol of ours, over a connected descriptor of the addon, which is closed
 * where this throws. Nothing of it has been read.
 */
export function plainSocket(native: NativeAddon, fd: number): Socket {
  try {
    native.refuseDescriptors(fd);
    const socket = socketOver(fd);
    native.disownDescriptor(fd);
    return socket;
  } catch (error) {
    native.closeDescriptor(fd);
    throw error;
  }
}

/**
 * A socket that Node has accepted and not read, as if it were new: the first listener for its data
 * gets them. Node marks such a socket as one that its user has paused, and does not look at it; a
 * new one is looked at, so that its end is told where no listener for data was added.
 */
export function startsByItself(socket: Socket): Socket {
  (socket as { readableFlowing: boolean | null }).readableFlowing = null;
  socket.read(0);
  return socket;
}

/**
 * A socket over a connected descriptor, which it closes at its end. Bun's constructor ignores `fd`
 * and `onread`; its connect() takes a descriptor.
 */
export function socketOver(fd: number): Socket {
  if (isBun) return new Socket().connect({ fd } as unknown as { path: string });
  return new Socket({ fd, readable: true, writable: true });
}

/** A stream that Node made. NOTE: what it has already buffered is handed out first. */
export function streamOpener(socket: Socket): SocketOpener {
  return (onBytes) => {
    socket.on('data', onBytes);
    const exitWriter: ExitWriter = (flush, then) => writeAtExit(socket, flush, then);
    return { socket, drain: undefined, atExit: exitWriter };
  };
}

/**
 * Node drops at the exit of the process what libuv and the stream still hold of a socket's bytes.
 * libuv's handle counts its own; without it (Bun) nothing is written.
 */
function writeAtExit(socket: Socket, ...[flush, then]: Parameters<ExitWriter>): void {
  const forget = atExit(() => {
    const writes = [...flush()];
    const { bytesWritten, writeQueueSize } = (socket as Socket & Handle)._handle ?? {};
    if (bytesWritten === undefined || writeQueueSize === undefined) return;
    let left = socket.bytesWritten - bytesWritten + writeQueueSize;
    const rest: Uint8Array[] = [];
    for (let bytes = writes.pop(); bytes !== undefined && left > 0; bytes = writes.pop()) {
      rest.unshift(bytes.subarray(Math.max(0, bytes.length - left)));
      left -= bytes.length;
    }
    const fd = descriptorOf(socket);
    let isCut = !rest.every((bytes) => writeWhole(fd, bytes));
    then((bytes) => {
      if (!isCut) isCut = !writeWhole(fd, bytes); // nothing follows a frame that was cut off
    });
  });
  socket.once('close', forget);
}

/** False: the peer has gone, or does not read. */
function writeWhole(fd: number, bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || !waitAtExit()) return false;
    }
  }
  return true;
}

/** The handle of libuv below a socket. Undocumented, but stable since Node 0.x; POSIX only. */
interface Handle {
  readonly _handle?: {
    readonly fd?: number;
    readonly bytesWritten?: number;
    readonly writeQueueSize?: number;
  } | null;
}

/** The number of a net.Socket's descriptor. */
export function descriptorOf(socket: Socket): number {
  return (socket as Socket & Handle)._handle?.fd ?? -1;
}

/** An accepted connection, of which nothing was read. */
export interface Arrival {
  readonly fd: number;
  /** The socket that owns the descriptor; undefined: the addon does. */
  readonly socket: Socket | undefined;
}

/**
 * Ends a connection that goes no further. `owner`: bytes of this process wait in it, and with them
 * perhaps a descriptor whose close blocks, so that a thread closes it. undefined: none wait.
 */
export function dropArrival(
  native: NativeAddon,
  { fd, socket }: Arrival,
  owner: number | undefined,
): void {
  if (socket === undefined) {
    if (owner === undefined) native.closeDescriptor(fd);
    else native.closeReceived(fd, owner);
    return;
  }
  let last: number | undefined;
  try {
    if (owner !== undefined) last = native.duplicate(fd);
  } catch {
    // No descriptor is left: its own socket is closed here, as the system closes any other.
  }
  socket.destroy();
  // Behind the socket, so that the last close is that of the thread.
  if (last !== undefined) native.closeReceived(last, owner as number);
}
