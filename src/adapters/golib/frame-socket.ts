// SPDX-License-Identifier: MIT
// Frames of golib over a plain connection: read one at a time, at the pace of their reader, and
// sent at that of the peer.
import { systemClock, type Timer } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { ignore } from '../../base/ignore-errors.ts';
import { sessionRanges } from '../../base/limits/option-limits.ts';
import { checkInteger } from '../../base/misuse.ts';
import type { PlainConnection } from '../../rendezvous/plain-listener.ts';
import { encodeFrame, FrameReader } from './chunk-framing.ts';

/** Options of everything that speaks golib's frames. */
export interface FrameOptions {
  /** Largest message accepted, in bytes. Default 4 MiB; 1 KiB to 1 GiB. */
  readonly receiveMaxBytes?: number | undefined;
  /**
   * Milliseconds in which a frame that has begun must be whole, without the time in which this side
   * does not read. Default 30,000; 10 to 600,000.
   */
  readonly frameTimeoutMs?: number | undefined;
}

const frameTimeout = { standard: 30_000, min: 10, max: 600_000 };
/** The time of a frame is counted in so many steps. */
const timeoutSteps = 10;
/**
 * Frames that are handled in one turn of the event loop. Promises run before timers and sockets:
 * without a bound, a peer that sends without pause would keep every other connection waiting.
 */
const framesPerTurn = 256;
const turnMaxMs = 2;

/** Checked {@link FrameOptions}. */
export interface FrameLimits {
  readonly receiveMaxBytes: number;
  readonly frameTimeoutMs: number;
}

/** @throws {TypeError | RangeError} for a value that is out of its range. */
export function checkFrames({ receiveMaxBytes, frameTimeoutMs }: FrameOptions): FrameLimits {
  return {
    receiveMaxBytes: checkInteger(
      'receiveMaxBytes',
      receiveMaxBytes,
      sessionRanges.receiveMaxBytes,
    ),
    frameTimeoutMs: checkInteger('frameTimeoutMs', frameTimeoutMs, frameTimeout),
  };
}

/** Frames over one connection. */
export class FrameSocket {
  /**
   * Settles when the connection is over: undefined after an end behind a whole frame, else why.
   */
  readonly closed: Promise<SidecallError | undefined>;
  readonly #socket: PlainConnection;
  readonly #reader: FrameReader;
  readonly #frameTimeoutMs: number;
  readonly #arrived = new Fifo<Buffer>();
  #wake: () => void = ignore;
  #lastSent: Promise<void> = Promise.resolve();
  #isEnded = false;
  #error: SidecallError | undefined;
  #resolveClosed!: (error: SidecallError | undefined) => void;
  #timer: Timer | undefined;
  #framesInTurn = 0;
  #turnBeganMs = 0;

  constructor(socket: PlainConnection, { receiveMaxBytes, frameTimeoutMs }: FrameLimits) {
    this.#reader = new FrameReader(receiveMaxBytes);
    this.#frameTimeoutMs = frameTimeoutMs;
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    socket.on('data', (bytes) => this.#onData(bytes));
    socket.on('error', (cause) => this.#fail(peerGone(cause.message)));
    socket.on('end', () => this.#onEnd());
    socket.on('close', () => this.#onClose());
    socket.pause();
  }

  get peer(): PlainConnection['peer'] {
    return this.#socket.peer;
  }

  /** Why the connection is over; undefined: it is not, or its end was orderly. */
  get error(): SidecallError | undefined {
    return this.#error;
  }

  /**
   * The next frame; undefined behind the last one.
   * @throws (as rejection) {SidecallError} where the connection has failed.
   */
  async next(): Promise<Buffer | undefined> {
    for (;;) {
      if (this.#arrived.length > 0) {
        await this.#turn();
        return this.#arrived.shift();
      }
      if (this.#error !== undefined) throw this.#error;
      if (this.#isEnded) return undefined;
      this.#resume();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Reads no more: behind the frames that have arrived, `next()` gives undefined. */
  stopReading(): void {
    this.#isEnded = true;
    this.#pause();
    this.#wake();
  }

  /**
   * Sends a frame, behind those that were sent before. Resolves when there is room for another one.
   * @throws (as rejection) {SidecallError} where the connection is over.
   */
  send(bytes: Uint8Array): Promise<void> {
    const sent = this.#lastSent.then(() => this.#send(bytes));
    this.#lastSent = sent.catch(ignore);
    return sent;
  }

  /** Sends no more, behind what was sent; what the peer still sends is read. */
  end(): void {
    void this.#lastSent.then(() => this.#socket.end());
  }

  /** Ends the connection at once. */
  destroy(error?: SidecallError): void {
    if (error !== undefined) this.#fail(error);
    else {
      this.#isEnded = true;
      this.#socket.destroy();
    }
    this.#arrived.clear();
  }

  /** Waits for the next turn of the event loop when this one has handled its share. */
  async #turn(): Promise<void> {
    this.#framesInTurn += 1;
    const isLong = systemClock.nowMs() - this.#turnBeganMs > turnMaxMs;
    if (this.#framesInTurn <= framesPerTurn && !isLong) return;
    await new Promise<void>((resolve) => systemClock.setImmediate(resolve));
    this.#beginTurn();
  }

  #beginTurn(): void {
    this.#framesInTurn = 0;
    this.#turnBeganMs = systemClock.nowMs();
  }

  async #send(bytes: Uint8Array): Promise<void> {
    const socket = this.#socket;
    if (socket.writableEnded || socket.destroyed) {
      throw this.#error ?? new SidecallError('ERR_SIDECALL_CLOSED', 'the connection was closed');
    }
    if (socket.write(encodeFrame(bytes))) return;
    await new Promise<void>((resolve) => {
      const go = (): void => {
        socket.off('drain', go);
        socket.off('close', go);
        resolve();
      };
      socket.on('drain', go);
      socket.on('close', go);
    });
    if (this.#error !== undefined) throw this.#error;
  }

  #onData(bytes: Uint8Array): void {
    this.#beginTurn();
    try {
      for (const frame of this.#reader.push(bytes)) this.#arrived.push(frame);
    } catch (error) {
      return this.#fail(SidecallError.from(error));
    }
    if (this.#arrived.length > 0) {
      this.#pause();
      this.#wake();
    } else this.#watch();
  }

  /** The time of a frame counts while it is read. */
  #watch(): void {
    if (this.#reader.isMidway && this.#timer === undefined) this.#count(timeoutSteps);
  }

  /** A standstill of this process counts as one step, whatever it lasts. */
  #count(steps: number): void {
    const step = (): void => {
      if (steps > 1) return this.#count(steps - 1);
      // Bytes that lie in the kernel are read before the next turn.
      systemClock.setImmediate(() => this.#judge(timer));
    };
    const timer = systemClock.setTimeout(step, Math.ceil(this.#frameTimeoutMs / timeoutSteps));
    timer.unref();
    this.#timer = timer;
  }

  /** Fails where the frame of `timer` still arrives. */
  #judge(timer: Timer): void {
    if (this.#timer !== timer) return;
    const text = `golib: a frame was not whole within ${this.#frameTimeoutMs} ms (frameTimeoutMs)`;
    this.#fail(new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text));
  }

  #pause(): void {
    this.#socket.pause();
    systemClock.clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #resume(): void {
    this.#socket.resume();
    this.#watch();
  }

  #onEnd(): void {
    this.#isEnded = true;
    if (this.#reader.isMidway) this.#fail(peerGone('it ended in the middle of a frame'));
    this.#wake();
  }

  #onClose(): void {
    this.#pause();
    if (!this.#isEnded) this.#error ??= peerGone('its end closed');
    this.#isEnded = true;
    this.#wake();
    this.#resolveClosed(this.#error);
  }

  #fail(error: SidecallError): void {
    this.#error ??= error;
    this.#wake();
    this.#socket.destroy();
  }
}

function peerGone(why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', `golib: the peer is gone: ${why}`);
}
