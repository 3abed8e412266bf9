// SPDX-License-Identifier: MIT
// How JSON-RPC messages follow each other on a pipe: with a header that says the length, as in the
// Language Server Protocol, or a line for each, as in the Model Context Protocol.

import { Buffer } from 'node:buffer';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { nodeError } from '../base/misuse.ts';
import { parsed } from './jsonrpc-message.ts';

/** Text that is no message is dropped from this length on, also where its line goes on. */
const lineMaxBytes = 16 * 1024;
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
  /** Cuts the bytes of one pipe into messages. `onText` gets each line that is no message. */
  decoder(onText: OnText): BodyDecoder;
}

/** Text that stands in place of a message. */
type OnText = (text: Buffer) => void;

/** Cuts bytes into bodies, whatever the pieces in which they come. */
export interface BodyDecoder {
  /**
   * The bodies that are whole with these bytes.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a length that is none.
   */
  push(bytes: Buffer): readonly Buffer[];
  /**
   * The pipe has ended: a last message that needs no more bytes; undefined: there is none.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` where a message was cut off.
   */
  end(): Buffer | undefined;
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
    decoder: (onText) => new ContentLengthDecoder(onText),
  },
  newline: { frame: lineOf, decoder: (onText) => new LineDecoder(onText) },
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
  readonly #onText: OnText;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(onText: OnText) {
    this.#onText = onText;
  }

  push(bytes: Buffer): readonly Buffer[] {
    const lines: Buffer[] = [];
    let begin = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, begin)) {
      this.#keep(bytes.subarray(begin, end));
      const body = messageIn(this.#take(), this.#onText);
      if (body !== undefined) lines.push(body);
      begin = end + 1;
    }
    this.#keep(bytes.subarray(begin));
    return lines;
  }

  end(): Buffer | undefined {
    return messageIn(this.#take(), this.#onText);
  }

  #keep(piece: Buffer): void {
    this.#chunks.push(piece);
    this.#buffered += piece.length;
    if (this.#buffered <= bodyMaxBytes) return;
    const text = `a line of the program exceeds ${bodyMaxBytes} bytes`;
    throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
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
  readonly #onText: OnText;
  #chunks: Buffer[] = [];
  #buffered = 0;
  /** Bytes of the next body, as its header says; undefined: none has come yet. */
  #bodyBytes: number | undefined;
  /** The header is whole. */
  #isBody = false;
  /** The beginning of this line is dropped already. */
  #isDropping = false;

  constructor(onText: OnText) {
    this.#onText = onText;
  }

  push(bytes: Buffer): readonly Buffer[] {
    this.#chunks.push(bytes);
    this.#buffered += bytes.length;
    const bodies: Buffer[] = [];
    for (;;) {
      while (!this.#isBody) if (!this.#takeLine()) return bodies;
      const bodyBytes = this.#bodyBytes as number;
      if (this.#buffered < bodyBytes) return bodies;
      const body = messageIn(this.#take(bodyBytes), this.#onText);
      if (body !== undefined) bodies.push(body);
      this.#isBody = false;
      this.#bodyBytes = undefined;
    }
  }

  end(): undefined {
    const rest = this.#take(this.#buffered);
    if (this.#bodyBytes !== undefined || /^content-/i.test(rest.toString('latin1'))) {
      throw new SidecallError('ERR_SIDECALL_PROTOCOL', 'the last message was cut off');
    }
    if (rest.length > 0) this.#drop(rest.toString('latin1'));
  }

  /** Takes a line of a header, or a text in place of one. False: it is not whole. */
  #takeLine(): boolean {
    const all = this.#joined();
    const end = all.indexOf(newline);
    if (end === -1) {
      this.#dropLongText(all);
      return false;
    }
    const line = this.#take(end + 1)
      .toString('latin1')
      .trimEnd();
    const found = lengthField.exec(line);
    if (line === '') this.#isBody = this.#bodyBytes !== undefined;
    else if (found !== null) this.#begin(line, found.index, Number(found[1]));
    else if (/^content-length:/i.test(line)) throw broken(`the header "${line.slice(0, 100)}"`);
    else if (!/^content-type:/i.test(line)) {
      this.#bodyBytes = undefined;
      this.#drop(line);
    }
    this.#isDropping = false;
    return true;
  }

  /** Text may stand in front of the field, on its line. */
  #begin(line: string, at: number, bodyBytes: number): void {
    if (at > 0) this.#drop(line.slice(0, at));
    if (bodyBytes > bodyMaxBytes) throw broken(`the header "${line.slice(at, at + 100)}"`);
    this.#bodyBytes = bodyBytes;
  }

  /** A line that does not end is text; only its end may be the begin of a header. */
  #dropLongText(all: Buffer): void {
    if (all.length <= lineMaxBytes) return;
    const kept = Math.max(all.length - fieldMaxBytes, 0);
    const at = all.toString('latin1', kept).search(/content-length:/i);
    this.#drop(this.#take(at === -1 ? kept : kept + at).toString('latin1'));
    this.#isDropping = true;
  }

  #drop(text: string): void {
    if (!this.#isDropping) this.#onText(Buffer.from(text, 'latin1'));
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

/** The field of a header that gives the length of the body; text may stand in front of it. */
const lengthField = /content-length:[ \t]*(\d{1,10})$/i;
/** The longest form of that field. */
const fieldMaxBytes = 64;

function broken(what: string): SidecallError {
  const text = `${what} where "Content-Length: <bytes>" is expected: the program prints something else to its standard output`;
  return new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}

/** Texts that are reported in a second; the others are counted. */
const reportsMax = 10;
const reportsMs = 1_000;

/** Reports text that stands in place of a message. */
export class TextReports {
  readonly #report: (error: SidecallError) => void;
  #count = 0;
  #endsAt = 0;
  #unreported = 0;

  constructor(report: (error: SidecallError) => void) {
    this.#report = report;
  }

  add(text: Buffer): void {
    const now = systemClock.nowMs();
    if (now >= this.#endsAt) {
      this.flush();
      this.#endsAt = now + reportsMs;
      this.#count = 0;
    }
    this.#count += 1;
    if (this.#count > reportsMax) this.#unreported += 1;
    else this.#tell(`${JSON.stringify(text.toString('utf8', 0, 100))} in place of a message`);
  }

  /** Reports the number of those that were not reported. */
  flush(): void {
    if (this.#unreported === 0) return;
    this.#tell(`${this.#unreported} more texts in place of messages`);
    this.#unreported = 0;
  }

  #tell(what: string): void {
    const text = `the program prints ${what}`;
    this.#report(new SidecallError('ERR_SIDECALL_PROTOCOL', text));
  }
}

/** Braces at which a message may begin within a line, and the length of such a line. */
const triesMax = 8;
const triedMaxBytes = 64 * 1024;

/**
 * The message in what one line or one body has; undefined: there is none. `onText` gets what is
 * beside it.
 */
function messageIn(line: Buffer, onText: OnText): Buffer | undefined {
  if (line.length === 0) return undefined;
  if (looksLikeMessage(line)) return line;
  const end = line.lastIndexOf('}') + 1;
  let at = line.length > triedMaxBytes ? -1 : line.indexOf('{');
  for (let tries = 0; tries < triesMax && at !== -1 && at < end; tries += 1) {
    const body = line.subarray(at, end);
    if ((parsed(body) as { jsonrpc?: unknown } | null | undefined)?.jsonrpc === '2.0') {
      onText(Buffer.concat([line.subarray(0, at), line.subarray(end)]));
      return body;
    }
    at = line.indexOf('{', at + 1);
  }
  onText(line);
  return undefined;
}

/** True: an object, or an array of objects or of nothing, by its first and last bytes. */
function looksLikeMessage(line: Buffer): boolean {
  const first = inkAt(line, 0, 1);
  const [open, next] = [line[first], line[inkAt(line, first + 1, 1)]];
  const close = line[inkAt(line, line.length - 1, -1)];
  if (open === 0x5b) return close === 0x5d && (next === 0x7b || next === 0x5d);
  return open === 0x7b && close === 0x7d && (next === 0x22 || next === 0x7d);
}

/** The next byte that is no white space, from `at` on. */
function inkAt(line: Buffer, at: number, step: number): number {
  let found = at;
  while ((line[found] ?? 0x7b) <= 0x20) found += step;
  return found;
}
