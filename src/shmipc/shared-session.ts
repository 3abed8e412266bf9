// SPDX-License-Identifier: MIT
// The shared memory of one session: its handshake, and messages out and in through the addon.
import type { NativeAddon } from '../addon/addon-api.ts';
import { SidecallError } from '../base/errors.ts';

/** The end of a handshake. */
interface Met {
  readonly outcome: 'met' | 'violation' | 'version' | 'system' | 'timeout' | 'gone';
  readonly what: string;
  readonly version: number;
  /** Bytes that the slices of the memory hold. */
  readonly capacityBytes: number;
}

/** The addon's functions for shmipc-go; on x86-64 Linux only. */
export interface ShmipcAddon extends NativeAddon {
  shmipcAccept(
    fd: number,
    owner: number,
    timeoutMs: number,
    directory: string,
    uid: number,
    memoryMaxBytes: number,
  ): number;
  shmipcConnect(
    fd: number,
    owner: number,
    timeoutMs: number,
    queueCapacity: number,
    bufferBytes: number,
  ): number;
  shmipcTake(session: number): Met | undefined;
  shmipcSend(session: number, stream: number, bytes: Uint8Array): number;
  shmipcSendClose(session: number, stream: number): number;
  shmipcReceive(
    session: number,
    partMaxBytes: number,
    allMaxBytes: number,
  ): {
    readonly isIdle: boolean;
    readonly received: number;
    readonly parts: readonly (number | Buffer | undefined)[];
  };
  shmipcCountPut(session: number): number;
  shmipcProgress(session: number): ShmipcProgress;
  shmipcClose(session: number): void;
  listenForShmipc(onMet: (session: number) => void): void;
}

/** The peer's progress, and the free memory. */
export interface ShmipcProgress {
  /** Messages that the peer has taken, as of the last send. */
  readonly consumed: number;
  /** It has taken all. */
  readonly isConsumed: boolean;
  readonly freeBytes: number;
}

/** Results of a send. */
export const Sent = { done: 0, doneAndWake: 1, full: 2, noMemory: 3 } as const;

/** Some of what the peer has sent. */
interface Received {
  /** All was received, and the peer sends an event with more. */
  readonly isIdle: boolean;
  /** Messages that were received whole, ever. */
  readonly received: number;
  readonly parts: readonly Part[];
}

/** A message, or a part of one; without bytes: the peer has closed the stream. */
interface Part {
  readonly stream: number;
  readonly status: number;
  readonly bytes: Buffer | undefined;
}

const partMaxBytes = 256 * 1024;
const allMaxBytes = 1024 * 1024;
const waiting = new Map<number, () => void>();
let isListening = false;

/** @throws {SidecallError} `ERR_SIDECALL_ADDON_UNAVAILABLE` where the layout is another one. */
export function shmipcAddon(native: NativeAddon | undefined, reason: string): ShmipcAddon {
  const addon = native as ShmipcAddon | undefined;
  if (addon === undefined || addon.shmipcAccept === undefined) {
    const why = native === undefined ? reason : `this is ${process.platform} on ${process.arch}`;
    const text = `sidecall/shmipc needs the addon on x86-64 Linux: ${why}`;
    throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', text);
  }
  return addon;
}

export class SharedSession {
  /** Of the events on the socket. */
  readonly version: number;
  /** Bytes that the slices of the memory hold, which both directions share. */
  readonly capacityBytes: number;
  readonly #native: ShmipcAddon;
  readonly #number: number;
  #isOpen = true;

  private constructor(native: ShmipcAddon, number: number, met: Met) {
    this.#native = native;
    this.#number = number;
    this.version = met.version;
    this.capacityBytes = met.capacityBytes;
  }

  /**
   * Waits for the handshake that `begin` has begun on a thread.
   * @throws {SidecallError} as the handshake failed; `signal.reason`.
   */
  static async meet(
    native: ShmipcAddon,
    begin: () => number,
    signal: AbortSignal,
  ): Promise<SharedSession> {
    signal.throwIfAborted();
    if (!isListening) native.listenForShmipc((number) => waiting.get(number)?.());
    isListening = true;
    let number: number;
    try {
      number = begin();
    } catch (error) {
      throw SidecallError.from(error);
    }
    try {
      await new Promise<void>((resolve, reject) => {
        waiting.set(number, resolve);
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      const met = native.shmipcTake(number) as Met;
      if (met.outcome !== 'met') throw failureOf(met);
      return new SharedSession(native, number, met);
    } catch (error) {
      native.shmipcClose(number);
      throw error;
    } finally {
      waiting.delete(number);
    }
  }

  /** @throws {SidecallError} `ERR_SIDECALL_RING_CORRUPT`, as all below. */
  send(stream: number, bytes: Uint8Array): number {
    return this.#checked(() => this.#native.shmipcSend(this.#number, stream, bytes));
  }

  sendClose(stream: number): number {
    return this.#checked(() => this.#native.shmipcSendClose(this.#number, stream));
  }

  receive(): Received {
    const { parts: flat, ...rest } = this.#checked(() =>
      this.#native.shmipcReceive(this.#number, partMaxBytes, allMaxBytes),
    );
    const parts: Part[] = [];
    for (let at = 0; at < flat.length; at += 3) {
      const [stream, status, bytes] = flat.slice(at, at + 3);
      parts.push({ stream, status, bytes } as Part);
    }
    return { ...rest, parts };
  }

  /** Messages that the peer has put into its queue, ever. */
  countPut(): number {
    return this.#checked(() => this.#native.shmipcCountPut(this.#number));
  }

  progress(): ShmipcProgress {
    return this.#checked(() => this.#native.shmipcProgress(this.#number));
  }

  close(): void {
    if (this.#isOpen) this.#native.shmipcClose(this.#number);
    this.#isOpen = false;
  }

  #checked<T>(call: () => T): T {
    try {
      return call();
    } catch (cause) {
      const { syscall = 'memory' } = cause as NodeJS.ErrnoException;
      const text = `shmipc: the peer left ${syscall}`;
      throw new SidecallError('ERR_SIDECALL_RING_CORRUPT', text, { cause });
    }
  }
}

const codes = {
  violation: 'ERR_SIDECALL_PROTOCOL',
  version: 'ERR_SIDECALL_VERSION_MISMATCH',
  system: 'ERR_SIDECALL_SYSTEM',
  timeout: 'ERR_SIDECALL_HELLO_TIMEOUT',
  gone: 'ERR_SIDECALL_PEER_GONE',
} as const;

function failureOf({ outcome, what }: Met): SidecallError {
  return new SidecallError(codes[outcome as keyof typeof codes], `shmipc: ${what}`);
}
