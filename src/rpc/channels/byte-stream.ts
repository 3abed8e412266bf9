// SPDX-License-Identifier: MIT
// Reading and writing of byte streams by count, for protocols of the application.

import { Buffer } from 'node:buffer';
import type { Readable, Writable } from 'node:stream';
import { SidecallError } from '../../base/errors.ts';
import { quiet, rejected } from '../../base/ignore-errors.ts';
import { nodeError } from '../../base/misuse.ts';

/** Reads a byte stream by count. Each method waits for as many bytes as it was asked for. */
export interface ByteReader {
  /** Bytes that have arrived and were not read. */
  readonly length: number;
  /**
   * The next `count` bytes, in memory of their own.
   * @throws (as rejection) `ERR_SIDECALL_END_OF_STREAM` where the stream ends before; the
   * bytes that have arrived stay readable. `RangeError` for an invalid count. The error
   * of a stream that failed.
   */
  read(count: number): Promise<Buffer>;
  readByte(): Promise<number>;
  /** `count` bytes as UTF-8. */
  readString(count: number): Promise<string>;
  /** As {@link ByteReader.read}, and they can be read again. */
  peek(count: number): Promise<Buffer>;
  /** Skips `count` bytes. */
  discard(count: number): Promise<void>;
}

/** Collects bytes; nothing is sent before {@link ByteWriter.flush}. */
export interface ByteWriter {
  /** Bytes that were collected since the last flush. */
  readonly length: number;
  writeByte(byte: number): void;
  /** Adds bytes, which must not change until the flush. */
  write(bytes: Uint8Array): void;
  writeString(text: string): void;
  /** Memory for the next `count` bytes, to be filled before the flush. */
  reserve(count: number): Buffer;
  /**
   * Sends what was collected, as one write. Resolves when the stream has taken it; `end` ends our
   * half, too.
   */
  flush(options?: { readonly end?: boolean | undefined }): Promise<void>;
}

/** Reads from `stream`, which has no other reader. */
export function byteReader(stream: Readable): ByteReader {
  return new StreamByteReader(stream);
}

/** Writes to `stream`. */
export function byteWriter(stream: Writable): ByteWriter {
  return new StreamByteWriter(stream);
}

class StreamByteReader implements ByteReader {
  readonly #stream: Readable;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isEnded = false;
  #failure: unknown;
  #wake: () => void = () => undefined;
  // Reads run one at a time, in the order in which they were asked for.
  #turn: Promise<unknown> = Promise.resolve();

  constructor(stream: Readable) {
    this.#stream = stream;
    const wake = (): void => this.#wake();
    this.#isEnded = stream.readableEnded || stream.destroyed;
    this.#failure = stream.errored ?? undefined;
    stream.on('readable', wake);
    stream.once('end', () => {
      this.#isEnded = true;
      wake();
    });
    stream.once('error', (error) => {
      this.#failure = error;
    });
    stream.once('close', () => {
      this.#isEnded = true;
      wake();
    });
  }

  get length(): number {
    return this.#bytes + this.#stream.readableLength;
  }

  read(count: number): Promise<Buffer> {
    return this.#inTurn(count, () => this.#take(count));
  }

  readByte(): Promise<number> {
    return quiet(this.read(1).then((bytes) => bytes[0] as number));
  }

  readString(count: number): Promise<string> {
    return quiet(this.read(count).then((bytes) => bytes.toString('utf8')));
  }

  peek(count: number): Promise<Buffer> {
    return this.#inTurn(count, () => {
      const bytes = this.#take(count);
      this.#chunks.unshift(Buffer.from(bytes));
      this.#bytes += count;
      return bytes;
    });
  }

  discard(count: number): Promise<void> {
    return quiet(this.read(count).then(() => undefined));
  }

  #inTurn<T>(count: number, act: () => T): Promise<T> {
    if (!Number.isSafeInteger(count) || count < 0) {
      const text = `a number of bytes must be 0 or more, got ${count}`;
      return rejected(nodeError(RangeError, 'ERR_OUT_OF_RANGE', text));
    }
    const acted = this.#turn.then(async () => {
      await this.#fill(count);
      return act();
    });
    this.#turn = acted.catch(() => undefined);
    return acted;
  }

  async #fill(count: number): Promise<void> {
    for (;;) {
      for (let chunk = this.#stream.read(); chunk !== null; chunk = this.#stream.read()) {
        this.#chunks.push(chunk as Buffer);
        this.#bytes += (chunk as Buffer).length;
        if (this.#bytes >= count) break;
      }
      if (this.#bytes >= count) return;
      if (this.#isEnded) throw this.#failure ?? this.#tooShort(count);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #tooShort(count: number): SidecallError {
    const text = `the stream ended: ${count} bytes were asked for, ${this.#bytes} are left`;
    return new SidecallError('ERR_SIDECALL_END_OF_STREAM', text);
  }

  /** The next `count` bytes: the first chunk, where it has this length, else a copy. */
  #take(count: number): Buffer {
    this.#bytes -= count;
    const first = this.#chunks[0];
    if (first !== undefined && first.length === count) {
      this.#chunks.shift();
      return first;
    }
    const taken = Buffer.allocUnsafe(count);
    let at = 0;
    while (at < count) {
      const chunk = this.#chunks[0] as Buffer;
      const part = chunk.subarray(0, count - at);
      taken.set(part, at);
      at += part.length;
      if (part.length === chunk.length) this.#chunks.shift();
      else this.#chunks[0] = chunk.subarray(part.length);
    }
    return taken;
  }
}

class StreamByteWriter implements ByteWriter {
  readonly #stream: Writable;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  get length(): number {
    return this.#bytes;
  }

  writeByte(byte: number): void {
    this.write(Buffer.from([byte]));
  }

  write(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#bytes += bytes.length;
  }

  writeString(text: string): void {
    this.write(Buffer.from(text));
  }

  reserve(count: number): Buffer {
    if (!Number.isSafeInteger(count) || count < 0) {
      const text = `a number of bytes must be 0 or more, got ${count}`;
      throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
    }
    const place = Buffer.alloc(count);
    this.write(place);
    return place;
  }

  flush(options: { readonly end?: boolean | undefined } = {}): Promise<void> {
    return quiet(this.#flush(options));
  }

  async #flush(options: { readonly end?: boolean | undefined }): Promise<void> {
    const bytes = Buffer.concat(this.#parts, this.#bytes);
    this.#parts = [];
    this.#bytes = 0;
    if (bytes.length > 0) {
      await new Promise<void>((resolve, reject) => {
        this.#stream.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
    }
    if (options.end !== true) return;
    if (this.#stream.destroyed) {
      throw this.#stream.errored ?? new SidecallError('ERR_SIDECALL_END_OF_STREAM');
    }
    await new Promise<void>((resolve, reject) => {
      // With an error where the stream failed before it had finished.
      this.#stream.end((error?: Error | null) => (error ? reject(error) : resolve()));
    });
  }
}
