// SPDX-License-Identifier: MIT
// The transport of the hello's bytes: a descriptor of the addon, before net.Socket reads, or,
// without the addon, a stream.

import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import { protocol } from '../wire/frame-header.ts';
import { newPace, type Pace, readableWaits } from './readable-waits.ts';

/** The ancillary data of received bytes. */
export interface ReceivedNotes {
  descriptors: number;
  /** A descriptor came after the first byte. */
  isLate: boolean;
  /** The kernel dropped descriptors for want of room. */
  isTruncated: boolean;
  hasOtherControl: boolean;
  /** The one that came with the first byte, where it was asked for; the reader of this owns it. */
  descriptor: number | undefined;
}

/** Exact-size sends and receives, until the signal aborts. */
export interface HelloWire {
  send(bytes: Uint8Array): Promise<void>;
  /**
   * Sends `bytes` with a descriptor on the first byte. Where the system refuses the descriptor it
   * resolves to the reason, and no byte was sent.
   */
  sendWith(bytes: Uint8Array, descriptor: number): Promise<string | undefined>;
  /** Fills `into`, never a byte more. `keep`: a descriptor may come. */
  receive(into: Uint8Array, keep: boolean): Promise<ReceivedNotes>;
  /** From now on the peer may send a descriptor. */
  admitDescriptors(): void;
  /** Our own work on shared memory, during which the peer has nothing to do. Settles as `work`. */
  whileWorking<T>(work: Promise<T>): Promise<T>;
}

const immediateMs = 2;
const firstDelayMs = 1;
const lastDelayMs = 32;
const never = Number.POSITIVE_INFINITY;

/** Over a descriptor that does not block. */
export class DescriptorWire implements HelloWire {
  readonly #native: NativeAddon;
  readonly #fd: number;
  readonly #signal: AbortSignal;
  /** The peer, by `ownerOf()`, once the kernel has identified it. */
  owner = 0;
  /** The process that sends the hello, where the kernel was asked; 0: none is named, or several. */
  #senderPid: number | undefined;
  #isAdmitted = false;
  #waitsSince: number | undefined;
  #workedMs = 0;
  #worksSince: number | undefined;
  #cancelWait: (() => void) | undefined;

  constructor(native: NativeAddon, fd: number, signal: AbortSignal) {
    this.#native = native;
    this.#fd = fd;
    this.#signal = signal;
    // The signal is of this connection's hello, and ends with it.
    signal.addEventListener('abort', () => this.#cancelWait?.());
  }

  /**
   * Instant since which the peer, which has to send, has sent nothing; the
   * present, while we have to send.
   */
  get silentSince(): number {
    return this.#waitsSince ?? systemClock.nowMs();
  }

  /** Milliseconds of our own work, up to now. */
  get workedMs(): number {
    const since = this.#worksSince;
    return this.#workedMs + (since === undefined ? 0 : systemClock.nowMs() - since);
  }

  /** True: the kernel says that this process, and no other, has sent the hello. */
  isSentBy(pid: number | undefined): boolean {
    return pid !== undefined && pid > 0 && this.#senderPid === pid;
  }

  async whileWorking<T>(work: Promise<T>): Promise<T> {
    this.#worksSince = systemClock.nowMs();
    try {
      return await work;
    } finally {
      this.#workedMs = this.workedMs;
      this.#worksSince = undefined;
    }
  }

  async send(bytes: Uint8Array): Promise<void> {
    await this.#sendFrom(bytes, 0);
  }

  async sendWith(bytes: Uint8Array, descriptor: number): Promise<string | undefined> {
    const waiter = new SendWaiter(this.#signal);
    for (;;) {
      this.#signal.throwIfAborted();
      try {
        const sent = this.#native.send(this.#fd, bytes, 0, descriptor);
        if (sent >= 0) {
          await this.#sendFrom(bytes, sent);
          return undefined;
        }
      } catch (error) {
        // EPERM: the peer's kernel refuses for it; ETOOMANYREFS: too many of ours are under way.
        const { code, message } = error as { code?: string; message: string };
        if (code === 'EPERM' || code === 'ETOOMANYREFS') return message;
        throw gone(error);
      }
      await waiter.next();
    }
  }

  admitDescriptors(): void {
    this.#isAdmitted = true;
    this.#try(() => this.#native.admitDescriptors(this.#fd));
  }

  async #sendFrom(bytes: Uint8Array, start: number): Promise<void> {
    const waiter = new SendWaiter(this.#signal);
    let at = start;
    while (at < bytes.length) {
      this.#signal.throwIfAborted();
      const sent = this.#try(() => this.#native.send(this.#fd, bytes, at, -1));
      if (sent >= 0) at += sent;
      else await waiter.next();
    }
  }

  async receive(into: Uint8Array, keep: boolean): Promise<ReceivedNotes> {
    const notes = noNotes();
    this.#waitsSince = systemClock.nowMs();
    try {
      await this.#receive(into, keep, notes);
    } catch (error) {
      if (notes.descriptor !== undefined) this.#native.dropReceived(notes.descriptor, this.owner);
      throw error;
    } finally {
      this.#waitsSince = undefined;
    }
    return notes;
  }

  async #receive(into: Uint8Array, keep: boolean, notes: ReceivedNotes): Promise<void> {
    const pace = newPace();
    let at = 0;
    while (at < into.length) {
      this.#signal.throwIfAborted();
      const got = this.#try(() =>
        this.#native.receive(this.#fd, into, at, keep && at === 0, this.#isAdmitted, this.owner),
      );
      if (got === undefined) {
        await this.#readable(pace);
        continue;
      }
      if (got.bytes === 0) throw gone();
      const { senderPid } = got;
      this.#senderPid = (this.#senderPid ?? senderPid) === senderPid ? senderPid : 0;
      // Refused at once: each further descriptor could be as slow to close.
      const isSurplus = got.descriptors > (keep && at === 0 ? 1 : 0) || got.hasOtherControl;
      if (isSurplus) throw protocol('descriptor that does not belong to its hello');
      if (got.descriptors > 0 && at > 0) notes.isLate = true;
      notes.descriptors += got.descriptors;
      notes.descriptor ??= got.descriptor;
      notes.isTruncated ||= got.isTruncated;
      notes.hasOtherControl ||= got.hasOtherControl;
      at += got.bytes;
      this.#waitsSince = systemClock.nowMs();
    }
  }

  async #readable(pace: Pace): Promise<void> {
    const waits = readableWaits(this.#native);
    const { owner } = this;
    await new Promise<void>((onEnd) => {
      const wait = waits.wait({ fd: this.#fd, owner, pace, endAt: never, isFresh: false, onEnd });
      this.#cancelWait = () => waits.end(wait);
    });
    this.#cancelWait = undefined;
  }

  #try<T>(call: () => T): T {
    try {
      return call();
    } catch (cause) {
      throw (cause as { code?: string }).code === 'EMFILE' ? noDescriptors(cause) : gone(cause);
    }
  }
}

/** Over a stream that Node made, where there is no addon: nothing but bytes can come. */
export class StreamWire implements HelloWire {
  readonly #socket: Socket;
  readonly #signal: AbortSignal;

  constructor(socket: Socket, signal: AbortSignal) {
    this.#socket = socket;
    this.#signal = signal;
  }

  async send(bytes: Uint8Array): Promise<void> {
    this.#signal.throwIfAborted();
    this.#socket.write(bytes);
  }

  async sendWith(): Promise<string | undefined> {
    return 'a stream carries no descriptors';
  }

  admitDescriptors(): void {}

  whileWorking<T>(work: Promise<T>): Promise<T> {
    return work;
  }

  async receive(into: Uint8Array): Promise<ReceivedNotes> {
    let at = 0;
    while (at < into.length) {
      this.#signal.throwIfAborted();
      const wanted = into.length - at;
      const available = Math.min(wanted, this.#socket.readableLength);
      const chunk = available > 0 ? (this.#socket.read(available) as Buffer | null) : null;
      if (chunk !== null) {
        into.set(chunk, at);
        at += chunk.length;
      } else await this.#readable();
    }
    return noNotes();
  }

  #readable(): Promise<void> {
    const socket = this.#socket;
    return new Promise((resolve, reject) => {
      if (socket.destroyed || socket.readableEnded) return reject(gone());
      const finish = (settle: () => void): void => {
        socket.off('readable', onReadable).off('end', onGone).off('close', onGone);
        this.#signal.removeEventListener('abort', onAbort);
        settle();
      };
      const onReadable = (): void => finish(resolve);
      const onGone = (): void => finish(() => reject(gone()));
      const onAbort = (): void => finish(() => reject(this.#signal.reason));
      socket.on('readable', onReadable).on('end', onGone).on('close', onGone);
      this.#signal.addEventListener('abort', onAbort);
      socket.read(0);
    });
  }
}

/** Sends wait rarely: turns of the loop for 2 ms, then timers of 1, 2, 4 … 32 ms. */
class SendWaiter {
  readonly #signal: AbortSignal;
  readonly #since = systemClock.nowMs();
  #delayMs = firstDelayMs;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  next(): Promise<void> {
    if (systemClock.nowMs() - this.#since < immediateMs) {
      return new Promise((resolve) => systemClock.setImmediate(resolve));
    }
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(lastDelayMs, 2 * delayMs);
    return pause(systemClock, delayMs, this.#signal);
  }
}

function noNotes(): ReceivedNotes {
  return {
    descriptors: 0,
    isLate: false,
    isTruncated: false,
    hasOtherControl: false,
    descriptor: undefined,
  };
}

function gone(cause?: unknown): SidecallError {
  const text =
    'the peer closed during the hello: often its policy refused us, which it does not say';
  return new SidecallError('ERR_SIDECALL_PEER_GONE', text, { cause, delivered: 'no' });
}

function noDescriptors(cause: unknown): SidecallError {
  const text =
    'descriptors of this peer wait to be closed, and no more are taken from it until they are; connect again, or use the socket lane';
  return new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', text, { cause, delivered: 'no' });
}
