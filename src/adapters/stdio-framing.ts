// SPDX-License-Identifier: MIT
// The framing of the Language Server Protocol: a header with the length of the body, then the body.

import { SidecallError } from '../base/errors.ts';

const headerMaxBytes = 16 * 1024;
// As the largest limits.receiveMaxBytes.
const bodyMaxBytes = 1024 ** 3;
const headerEnd = '\r\n\r\n';

/** A body with its header. */
export function framed(text: string): Buffer {
  const length = Buffer.byteLength(text);
  return Buffer.from(`Content-Length: ${length}${headerEnd}${text}`);
}

/** Cuts bytes into bodies, whatever the pieces in which they come. */
export class BodyDecoder {
  #chunks: Buffer[] = [];
  #buffered = 0;
  /** Bytes of the next body; undefined: its header has not come yet. */
  #bodyBytes: number | undefined;

  /**
   * The bodies that are whole with these bytes.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a header without a length, or too long.
   */
  push(bytes: Buffer): readonly Buffer[] {
    this.#chunks.push(bytes);
    this.#buffered += bytes.byteLength;
    const bodies: Buffer[] = [];
    for (;;) {
      this.#bodyBytes ??= this.#takeHeader();
      if (this.#bodyBytes === undefined || this.#buffered < this.#bodyBytes) return bodies;
      bodies.push(this.#take(this.#bodyBytes));
      this.#bodyBytes = undefined;
    }
  }

  /** Is a message begun and not whole? */
  get isMidway(): boolean {
    return this.#buffered > 0 || this.#bodyBytes !== undefined;
  }

  /** undefined: it is not whole. */
  #takeHeader(): number | undefined {
    const all = this.#joined();
    const end = all.indexOf(headerEnd);
    if (end > headerMaxBytes || (end === -1 && all.byteLength > headerMaxBytes)) {
      throw broken(`a header of more than ${headerMaxBytes} bytes`);
    }
    if (end === -1) return undefined;
    const header = all.toString('latin1', 0, end);
    const length = /^content-length:[ \t]*(\d{1,10})[ \t]*$/im.exec(header)?.[1];
    const bodyBytes = Number(length);
    if (length === undefined || bodyBytes > bodyMaxBytes) {
      throw broken(`the header "${header.slice(0, 100)}"`);
    }
    this.#take(end + headerEnd.length);
    return bodyBytes;
  }

  #take(bytes: number): Buffer {
    const all = this.#joined();
    this.#chunks = bytes === all.byteLength ? [] : [all.subarray(bytes)];
    this.#buffered -= bytes;
    return all.subarray(0, bytes);
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }
}

function broken(what: string): SidecallError {
  return new SidecallError(
    'ERR_SIDECALL_PROTOCOL',
    `${what} where "Content-Length: <bytes>" is expected: the program prints something else to its standard output`,
  );
}
