// SPDX-License-Identifier: MIT
// How JSON-RPC messages follow each other on a pipe: with a header that says the length, as in the
// Language Server Protocol, or a line for each, as in the Model Context Protocol.

import { Buffer } from 'node:buffer';
import { SidecallError } from '../base/errors.ts';
import { nodeError } from '../base/misuse.ts';

const headerMaxBytes = 16 * 1024;
// As the largest limits.receiveMaxBytes.
const bodyMaxBytes = 1024 ** 3;
const headerEnd = '\r\n\r\n';

/**
 * `content-length`: a header with the length stands before each message (language servers).
 * `newline`: each message is a line (servers of the Model Context Protocol).
 */
export type FramingName = 'content-length' | 'newline';

/** Turns messages into the bytes of a pipe, and back. */
export interface Framing {
  /** The bytes of one message on the pipe. */
  frame(body: Uint8Array): Uint8Array;
  /** Cuts the bytes of one pipe into messages. */
  decoder(): BodyDecoder;
}

/** Cuts bytes into bodies, whatever the pieces in which they come. */
export interface BodyDecoder {
  /**
   * The bodies that are whole with these bytes.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for bytes that are no message.
   */
  push(bytes: Buffer): readonly Buffer[];
  /** Is a message begun and not whole? */
  readonly isMidway: boolean;
}

/** @throws {TypeError} for a name that is none. */
export function framingOf(name: FramingName = 'content-length'): Framing {
  const framing = Object.hasOwn(framings, name) ? framings[name] : undefined;
  if (framing !== undefined) return framing;
  const text = `framing must be 'content-length' or 'newline', got '${String(name)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

const framings: Record<FramingName, Framing> = {
  'content-length': {
    frame: (body) =>
      Buffer.concat([Buffer.from(`Content-Length: ${body.length}${headerEnd}`), body]),
    decoder: () => new ContentLengthDecoder(),
  },
  newline: { frame: lineOf, decoder: () => new LineDecoder() },
};

const newline = 0x0a;
const carriageReturn = 0x0d;

/** A body as one line: a newline in JSON is white space, so a space takes its place. */
function lineOf(body: Uint8Array): Buffer {
  const line = Buffer.allocUnsafe(body.length + 1);
  line.set(body);
  for (let at = line.indexOf(newline); at !== -1 && at < body.length; ) {
    line[at] = 0x20;
    at = line.indexOf(newline, at + 1);
  }
  line[body.length] = newline;
  return line;
}

class LineDecoder implements BodyDecoder {
  #chunks: Buffer[] = [];
  #buffered = 0;

  push(bytes: Buffer): readonly Buffer[] {
    const lines: Buffer[] = [];
    let begin = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, begin)) {
      this.#keep(bytes.subarray(begin, end));
      const line = this.#take();
      if (line.length > 0) lines.push(line);
      begin = end + 1;
    }
    this.#keep(bytes.subarray(begin));
    return lines;
  }

  get isMidway(): boolean {
    return this.#buffered > 0;
  }

  #keep(piece: Buffer): void {
    this.#chunks.push(piece);
    this.#buffered += piece.length;
    if (this.#buffered > bodyMaxBytes) throw broken(`a line of more than ${bodyMaxBytes} bytes`);
  }

  #take(): Buffer {
    const line =
      this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#buffered = 0;
    return line.at(-1) === carriageReturn ? line.subarray(0, -1) : line;
  }
}

class ContentLengthDecoder implements BodyDecoder {
  #chunks: Buffer[] = [];
  #buffered = 0;
  /** Bytes of the next body; undefined: its header has not come yet. */
  #bodyBytes: number | undefined;

  push(bytes: Buffer): readonly Buffer[] {
    this.#chunks.push(bytes);
    this.#buffered += bytes.length;
    const bodies: Buffer[] = [];
    for (;;) {
      this.#bodyBytes ??= this.#takeHeader();
      if (this.#bodyBytes === undefined || this.#buffered < this.#bodyBytes) return bodies;
      bodies.push(this.#take(this.#bodyBytes));
      this.#bodyBytes = undefined;
    }
  }

  get isMidway(): boolean {
    return this.#buffered > 0 || this.#bodyBytes !== undefined;
  }

  /** undefined: it is not whole. */
  #takeHeader(): number | undefined {
    const all = this.#joined();
    const end = all.indexOf(headerEnd);
    if (end > headerMaxBytes || (end === -1 && all.length > headerMaxBytes)) {
      throw broken(`a header of more than ${headerMaxBytes} bytes${expected}`);
    }
    if (end === -1) return undefined;
    const header = all.toString('latin1', 0, end);
    const length = /^content-length:[ \t]*(\d{1,10})[ \t]*$/im.exec(header)?.[1];
    const bodyBytes = Number(length);
    if (length === undefined || bodyBytes > bodyMaxBytes) {
      throw broken(`the header "${header.slice(0, 100)}"${expected}`);
    }
    this.#take(end + headerEnd.length);
    return bodyBytes;
  }

  #take(bytes: number): Buffer {
    const all = this.#joined();
    this.#chunks = bytes === all.length ? [] : [all.subarray(bytes)];
    this.#buffered -= bytes;
    return all.subarray(0, bytes);
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }
}

const expected = ' where "Content-Length: <bytes>" is expected';

function broken(what: string): SidecallError {
  const text = `${what}: the program prints something else to its standard output`;
  return new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}
