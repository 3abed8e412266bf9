// SPDX-License-Identifier: MIT
// JSON, with bytes beside it.

import { Buffer, isUtf8 } from 'node:buffer';
import { noBytes } from '../../base/ignore-errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import { type Codec, TextTooLong } from './codec.ts';
import { attach, attachmentsMark, deeper, detach, joinParts, splitParts } from './json-bytes.ts';
import type { IfJson } from './jsonable.ts';

const depthRange = { standard: wireLimits.jsonDepthMax, min: 1, max: 1_000 };

// biome-ignore lint/suspicious/noExplicitAny: JSON of any type; contracts narrow it
function jsonCodec(depthMax: number): Codec<any> {
  return {
    name: 'json',
    copiesBytes: true,
    encode(value: unknown) {
      // An undefined value is a message without bytes, so that methods may take and return none.
      if (value === undefined) return noBytes;
      const detached = detach(value, depthMax);
      const text = JSON.stringify(detached.value) as string | undefined;
      if (text === undefined) throw new TypeError(`JSON cannot carry a ${typeof value}`);
      return detached.attachments.length === 0 ? text : joinParts(text, detached.attachments);
    },
    decode(view, _isOwned, jsonMaxBytes): unknown {
      if (view.length === 0) return undefined;
      if (view[0] !== attachmentsMark) return parse(view, depthMax, jsonMaxBytes);
      const { text, attachments } = splitParts(view);
      return attach(parse(text, depthMax, jsonMaxBytes), attachments);
    },
  };
}

const standardCodec = jsonCodec(depthRange.standard);

/** Options of {@link json}. */
export interface JsonOptions {
  /**
   * Levels of arrays and objects in each other, for both directions: a message with more fails its
   * call with `ERR_SIDECALL_ENCODE` or `ERR_SIDECALL_DECODE`. Default 64; 1 to 1,000.
   */
  readonly depthMax?: number | undefined;
}

/**
 * JSON. `Uint8Array`s anywhere in a value (and so `Buffer`s) travel as bytes, at most 64 in a
 * message, and arrive as `Uint8Array`s. `undefined` alone is a message of no bytes. Numbers,
 * duplicate keys and lone surrogates are as `JSON.parse` has them; `__proto__` becomes an own key
 * like any other. A `Date` arrives as a string, as `JSON.stringify` has it, so a type that promises
 * one is refused by the compiler. What `JSON.stringify` would drop or empty without a word fails
 * the call with `ERR_SIDECALL_ENCODE`: a function, a symbol, a `Map`, a `Set`, a `RegExp`, an
 * `Error`, a `Promise`, an `ArrayBuffer`, an `AbortSignal`, `Headers`, a `Blob`, an iterator, a
 * stream and the like, of whatever realm, unless the value has a `toJSON()`; so does a `bigint`. An
 * instance of another class travels as its own fields.
 * @throws {TypeError | RangeError} for misuse of the options.
 * @example
 * ```ts
 * import { json, type Session } from 'sidecall';
 *
 * function open(session: Session) {
 *   return session.openChannel(json<{ text: string }>(), { name: 'chat' });
 * }
 * ```
 */
export function json<T>(options: JsonOptions = {}): IfJson<T, Codec<T>> {
  checkKeys('json()', options, ['depthMax']);
  const depthMax = checkInteger('depthMax', options.depthMax, depthRange);
  const isStandard = depthMax === depthRange.standard;
  return (isStandard ? standardCodec : jsonCodec(depthMax)) as IfJson<T, Codec<T>>;
}

/** @throws {Error} for what is no JSON, is too long, or is nested too deep to be walked. */
function parse(view: Uint8Array, depthMax: number, bytesMax = Number.POSITIVE_INFINITY): unknown {
  if (!isUtf8(view)) throw new TypeError('the bytes are not UTF-8');
  const buffer = Buffer.from(view.buffer, view.byteOffset, view.length);
  if (view.length > bytesMax && hasMoreParts(buffer, bytesMax / bytesOfPart))
    throw new TextTooLong();
  if (isDeeperThan(buffer, depthMax)) {
    throw new TypeError(`JSON nested deeper than ${depthMax}: ${deeper}`);
  }
  return JSON.parse(buffer.toString('utf8'));
}

const quote = 0x22;
const backslash = 0x5c;

/** A text has at most one part in as many bytes to be parsed whatever its length. */
const bytesOfPart = 8;

/**
 * True: the text has more than `max` parts, which are slow to parse whatever their length: an
 * object, array or key is one, a string half of one, any other value a sixteenth.
 */
function hasMoreParts(text: Buffer, max: number): boolean {
  let parts = 0;
  const end = text.length;
  for (let at = 0; at < end; at += 1) {
    const byte = text[at];
    if (byte === quote) {
      parts += 1 / 2;
      at += 1;
      while (at < end && text[at] !== quote) at += text[at] === backslash ? 2 : 1;
    } else if (byte === 0x7b || byte === 0x5b) parts += 1;
    else if (byte === 0x3a) parts += 1 / 2;
    else if (byte === 0x2c) parts += 1 / 16;
    else continue;
    if (parts > max) return true;
  }
  return false;
}

/** Length up to which a scan is as fast as the check whether one is needed. */
const scannedBytes = 512;

/**
 * True: there are at least `count` opening brackets, within strings or not. The search is ten times
 * as fast as a loop over the bytes.
 */
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

/**
 * True: the brackets outside strings nest deeper than `max`. Invalid JSON may give either
 * result: the parser refuses it.
 */
function isDeeperThan(view: Buffer, max: number): boolean {
  if (view.length <= max) return false;
  if (view.length > scannedBytes && !hasBrackets(view, max + 1)) return false;
  let depth = 0;
  const end = view.length;
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
