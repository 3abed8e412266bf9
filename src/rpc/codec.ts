// SPDX-License-Identifier: MIT
// How values become bytes. JSON and bytes are here; others plug in by the same interface.
import { isUtf8 } from 'node:buffer';
import { SidecallError } from '../errors.ts';
import { fixed } from '../limits.ts';
import { wordsOf } from '../words.ts';

/** Turns values of one type into bytes and back. Stateless: one codec serves any number of calls. */
export interface Codec<T> {
  /** Short name, for errors and listings. */
  readonly name: string;
  /**
   * The bytes of `value`, or its text, which travels as UTF-8. They must not change until the call
   * has settled. What it throws fails the call with `ENCODE`.
   */
  encode(value: T): Uint8Array | string;
  /**
   * `decode` may return a value that shares the memory it was given, where it owns it. Left out: it copies
   * what it keeps, and the memory is used again for the next long message.
   */
  readonly keepsBytes?: boolean | undefined;
  /**
   * The value in `bytes`, which come from a peer and prove nothing. Unless `isOwned`, the memory is
   * reused when this returns: copy what is kept. What it throws fails the call with `DECODE`.
   */
  decode(bytes: Uint8Array, isOwned: boolean): T;
}

const nothing = new Uint8Array(0);

/** Raw bytes, uninterpreted. The receiver gets its own copy. */
export const bytes: Codec<Uint8Array> = {
  name: 'bytes',
  keepsBytes: true,
  encode(value) {
    if (value instanceof Uint8Array) return value;
    throw new TypeError(`a Uint8Array is needed, got ${typeof value}`);
  },
  decode: (view, isOwned) => (isOwned ? view : Buffer.from(view)),
};

// biome-ignore lint/suspicious/noExplicitAny: JSON of any type; contracts narrow it
const jsonCodec: Codec<any> = {
  name: 'json',
  encode(value: unknown) {
    // Nothing at all is a message of no bytes, so that methods may take and return nothing.
    if (value === undefined) return nothing;
    const text = JSON.stringify(value) as string | undefined;
    if (text !== undefined) return text;
    throw new TypeError(`JSON cannot carry a ${typeof value}`);
  },
  decode(view): unknown {
    if (view.byteLength === 0) return undefined;
    if (!isUtf8(view)) throw new TypeError('the bytes are not UTF-8');
    const buffer = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
    if (isDeeperThan(buffer, fixed.jsonDepthMax)) {
      throw new TypeError(`JSON nested deeper than ${fixed.jsonDepthMax}`);
    }
    return JSON.parse(buffer.toString('utf8'));
  },
};

/**
 * JSON text. `undefined` alone is a message of no bytes. Numbers, duplicate keys and lone surrogates
 * are as `JSON.parse` has them; `__proto__` becomes an own key like any other.
 */
export function json<T>(): Codec<T> {
  return jsonCodec;
}

const quote = 0x22;
const backslash = 0x5c;

/** Below this a scan is as fast as finding out whether one is needed. */
const scannedBytes = 512;

/** Opening brackets, wherever they stand, by searches that are ten times as fast as a look at each byte. */
function hasBrackets(buffer: Buffer, count: number): boolean {
  let found = 0;
  for (const bracket of [0x7b, 0x5b]) {
    for (let at = buffer.indexOf(bracket); at !== -1; at = buffer.indexOf(bracket, at + 1)) {
      found += 1;
      if (found === count) return true;
    }
  }
  return false;
}

/** One scan of the brackets outside strings. Broken JSON may answer anything: the parser refuses it. */
function isDeeperThan(view: Buffer, max: number): boolean {
  if (view.byteLength <= max) return false;
  if (view.byteLength > scannedBytes && !hasBrackets(view, max + 1)) return false;
  let depth = 0;
  const end = view.byteLength;
  for (let at = 0; at < end; at += 1) {
    const byte = view[at] as number;
    if (byte === quote) {
      at += 1;
      while (at < end && view[at] !== quote) at += view[at] === backslash ? 2 : 1;
    } else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > max) return true;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
  return false;
}

/** Encodes, and turns a refusal into `ENCODE`. */
export function encodeWith<T>(codec: Codec<T>, value: T): Uint8Array | string {
  let encoded: unknown;
  try {
    encoded = codec.encode(value);
  } catch (cause) {
    throw new SidecallError('ERR_SIDECALL_ENCODE', `codec '${codec.name}': ${wordsOf(cause)}`, {
      cause,
    });
  }
  if (typeof encoded === 'string' || encoded instanceof Uint8Array) return encoded;
  const words = `codec '${codec.name}' must encode to a string or a Uint8Array`;
  throw new SidecallError('ERR_SIDECALL_ENCODE', words);
}

/** Decodes, and turns a refusal into `DECODE`. The words never hold a byte of the payload. */
export function decodeWith<T>(codec: Codec<T>, view: Uint8Array, isOwned: boolean): T {
  try {
    return codec.decode(view, isOwned);
  } catch (cause) {
    // No cause: JSON.parse quotes the text it refused, and errors end up in logs.
    const kind = cause instanceof Error ? cause.name : typeof cause;
    const words = `codec '${codec.name}' refused a message of ${view.byteLength} bytes (${kind})`;
    throw new SidecallError('ERR_SIDECALL_DECODE', words);
  }
}
