// SPDX-License-Identifier: MIT
// Codecs: the interface between values and bytes, and the codec that leaves bytes as they are.

import { isBytes, isError } from '../../base/brands.ts';
import { partOf } from '../../base/bytes.ts';
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { ownedCopy, ownedPart } from '../../base/message-slabs.ts';

/**
 * Turns values into bytes and back. Stateless: one codec serves any number of calls. `T` is what it
 * decodes to, `Input` what it encodes, where that is wider.
 */
export interface Codec<T, Input = T> {
  /** Short name, for errors and listings. */
  readonly name: string;
  /**
   * The bytes of `value`, or its text, which travels as UTF-8. They must not change until the call
   * has settled. An error that it throws fails the call with `ERR_SIDECALL_ENCODE`.
   */
  encode(value: Input): Uint8Array | string;
  /**
   * The result of `encode` changes with the next `encode`, so it is copied if it has to wait. Left
   * out: it stays.
   */
  readonly reusesBytes?: boolean | undefined;
  /**
   * `decode` returns no value that shares the memory which it was given, as with text that was
   * parsed. It may then be given memory that is used again for later messages, which costs less.
   * Left out: it is given memory that belongs to its message alone, perhaps a slice of an array
   * buffer with other messages in it.
   */
  readonly copiesBytes?: boolean | undefined;
  /**
   * `decode` may return a value that shares the memory it was given, for a time: a request until
   * its handler has settled and its answer was sent, a message of a stream until its reader asks
   * for the next one (`next()`, the next round of a loop). Then the memory is used again. An answer
   * of a unary call has memory of its own. Left out: no.
   */
  readonly borrowsBytes?: boolean | undefined;
  /**
   * `decode` returns the bytes as they are, so that the option `into` of a call gives them memory.
   * Left out: no.
   */
  readonly isRaw?: boolean | undefined;
  /**
   * The value in `bytes`, which come from a peer and are not to be trusted. `isOwned`: the memory
   * belongs to this message; always true unless `copiesBytes` or `borrowsBytes` is set.
   * `jsonMaxBytes`: the limit of the session for text that is parsed; undefined: none. An error
   * that it throws fails the call with `ERR_SIDECALL_DECODE`.
   */
  decode(bytes: Uint8Array, isOwned: boolean, jsonMaxBytes?: number): T;
  /**
   * A decoded value as plain data (objects without a class, arrays, bytes, texts, numbers), for
   * pages of Electron. Left out: it is plain already. An error that it throws fails the call
   * with `ERR_SIDECALL_ENCODE`.
   */
  plain?(value: T): unknown;
}

/** The codec {@link bytes}. */
export interface BytesCodec extends Codec<Uint8Array> {
  /**
   * The same bytes, read in memory that is used again: messages of some kilobytes and more cost no
   * fresh memory. A request is valid until its handler has settled, and may be its answer; a
   * message of a stream until its reader asks for the next one. Copy what is kept longer:
   * `message.slice()`. An answer of a unary call has memory of its own; give it some by the
   * option `into`. With `SIDECALL_FILL_RETURNED=1` in the environment, memory that is no longer
   * valid is filled with 0xa5, so that a program which keeps it by mistake is found by its tests.
   * @example
   * ```ts
   * import { bytes, service, unary } from 'sidecall';
   *
   * const request = bytes.borrowed;
   * const Images = service('Images', { size: unary<Uint8Array, number>({ request }) });
   * ```
   */
  readonly borrowed: Codec<Uint8Array>;
}

const raw: Codec<Uint8Array> = {
  name: 'bytes',
  isRaw: true,
  encode(value) {
    if (isBytes(value)) return value;
    throw new TypeError(`a Uint8Array is needed, got ${typeof value}`);
  },
  decode: (view) => view,
};
const { decode: decodeRaw } = raw;
/** Of the codec of bytes, which has nothing to do for bytes. */
export const { encode: encodeRaw } = raw;

/**
 * Raw bytes, uninterpreted. The receiver may keep them: a Buffer, which for up to 16 KiB is a slice
 * of memory that it shares with other messages.
 * @example
 * ```ts
 * import { bytes, service, unary } from 'sidecall';
 *
 * const Images = service('Images', { shrink: unary({ request: bytes, response: bytes }) });
 * ```
 */
export const bytes: BytesCodec = {
  ...raw,
  borrowed: { ...raw, borrowsBytes: true, decode: plainBytes },
};

/**
 * Never a Buffer, whose `slice()` copies nothing: a program would keep what is not valid for long.
 */
function plainBytes(view: Uint8Array, isOwned: boolean): Uint8Array {
  const { buffer, byteOffset, length } = isOwned ? view : ownedCopy(view);
  return new Uint8Array(buffer, byteOffset, length);
}

/** True: what the codec decodes may share the memory of its message for good. */
export function keepsBytes({ copiesBytes, borrowsBytes }: Codec<unknown>): boolean {
  return copiesBytes !== true && borrowsBytes !== true;
}

/** Encodes, and turns a refusal into `ERR_SIDECALL_ENCODE`. */
export function encodeWith<T>(codec: Codec<unknown, T>, value: T): Uint8Array | string {
  let encoded: unknown;
  try {
    encoded = codec.encode(value);
  } catch (cause) {
    throw new SidecallError('ERR_SIDECALL_ENCODE', `codec '${codec.name}': ${errorText(cause)}`, {
      cause,
    });
  }
  if (typeof encoded === 'string' || isBytes(encoded)) return encoded;
  const text = `codec '${codec.name}' must encode to a string or a Uint8Array`;
  throw new SidecallError('ERR_SIDECALL_ENCODE', text);
}

/**
 * Decodes, and turns a refusal into `ERR_SIDECALL_DECODE`. The words never hold a byte of the
 * payload. Unless `isOwned`, the memory is used again: it is copied for codecs that keep it.
 */
export function decodeWith<T>(
  codec: Codec<T>,
  view: Uint8Array,
  isOwned: boolean,
  jsonMaxBytes?: number,
): T {
  try {
    if (isOwned || !keepsBytes(codec)) return codec.decode(view, isOwned, jsonMaxBytes);
    return codec.decode(ownedCopy(view), true, jsonMaxBytes);
  } catch (cause) {
    // No cause: JSON.parse quotes the text it refused, and errors end up in logs.
    const kind = isError(cause) ? cause.name : typeof cause;
    const what = `codec '${codec.name}' refused a message of ${view.length} bytes (${kind})`;
    if (cause instanceof TextTooLong) {
      const most = `its text is longer than limits.jsonMaxBytes of this side, ${jsonMaxBytes}, and has too many objects, arrays and strings to be parsed beyond it`;
      throw new SidecallError('ERR_SIDECALL_DECODE', `${what}; ${most}`);
    }
    const isRefused = cause instanceof RefusedValue; // by a schema: both sides have the contract
    const text = isRefused ? what : `${what}; both sides must use the same contract`;
    const error = new SidecallError('ERR_SIDECALL_DECODE', text);
    if (isRefused) refusals.set(error, cause.details);
    throw error;
  }
}

/** Bytes that have to wait, in memory of their own where their codec will use its memory again. */
export function keepWaiting<T>(codec: Codec<unknown>, message: T): T | Uint8Array {
  return codec.reusesBytes === true && isBytes(message) ? new Uint8Array(message) : message;
}

/** As {@link decodeWith}, of a part of memory that is used again. */
export function decodePart<T>(
  codec: Codec<T>,
  memory: Uint8Array,
  from: number,
  to: number,
  jsonMaxBytes: number,
): T {
  if (codec.decode === decodeRaw) return ownedPart(memory, from, to) as T;
  const isCopied = codec.isRaw === true && keepsBytes(codec);
  if (isCopied) return decodeWith(codec, ownedPart(memory, from, to), true, jsonMaxBytes);
  return decodeWith(codec, partOf(memory, from, to), false, jsonMaxBytes);
}

/** A text longer than `jsonMaxBytes`. */
export class TextTooLong extends Error {}

/** The issues of a schema with a value. Only the sender of the value is told. */
export class RefusedValue extends Error {
  readonly details: unknown;

  constructor(text: string, details: unknown) {
    super(text);
    this.name = 'RefusedValue';
    this.details = details;
  }
}

const refusals = new WeakMap<object, unknown>();

/** The issues of a schema, if {@link decodeWith} threw this error because of them. */
export function refusalDetails(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? refusals.get(error) : undefined;
}
