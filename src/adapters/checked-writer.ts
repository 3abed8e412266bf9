// SPDX-License-Identifier: MIT
// Encoding by protobufjs that refuses values which it would change: a number beyond the range of
// its field, half of a surrogate pair, an object of a built-in class.
import protobufjs from 'protobufjs/minimal.js';
import { isBytes, isDate, isPlain } from '../base/brands.ts';
import { withArticle } from '../base/error-text.ts';

/** A value that does not fit the type of its field. */
class UnfitValue extends Error {
  readonly value: unknown;

  constructor(value: unknown, type: string) {
    const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
    super(`${text.length > 40 ? `${text.slice(0, 40)}…` : text} is no ${type}`);
    this.value = value;
  }
}

type Fits = (value: unknown) => boolean;

/**
 * A number that is no safe integer was rounded before. Texts and Longs have all digits; a Long is
 * of the other kind where its first bit has the other meaning.
 */
const isWide =
  (min: bigint, isUnsigned: boolean): Fits =>
  (value) => {
    if (typeof value === 'number') return Number.isSafeInteger(value) && value >= min;
    if (typeof value === 'string') {
      return /^[+-]?\d{1,20}$/.test(value) && isWithin(BigInt(value), min);
    }
    const { high, unsigned = isUnsigned } = value as { high: number; unsigned?: boolean };
    return unsigned === isUnsigned || high >= 0;
  };
const isWithin = (value: bigint, min: bigint): boolean => value >= min && value < min + 2n ** 64n;

/** The keys of a map come as texts. */
const isKeyOf = (value: unknown, isInRange: (value: number) => boolean): boolean =>
  typeof value === 'string' && /^-?\d{1,10}$/.test(value) && isInRange(Number(value));
const isInt32: Fits = (value) =>
  ((value as number) | 0) === value || isKeyOf(value, (key) => (key | 0) === key);
const isUint32: Fits = (value) =>
  (value as number) >>> 0 === value || isKeyOf(value, (key) => key >>> 0 === key);
const isInt64 = isWide(-(2n ** 63n), false);
const isUint64 = isWide(0n, true);
const isFloat: Fits = (value) =>
  !Number.isFinite(value) || Number.isFinite(Math.fround(value as number));
// `isWellFormed()` is of ES2024, which Node 20 has.
const isText: Fits = (value) => (value as { isWellFormed(): boolean }).isWellFormed();

const isByte: Fits = (value) => ((value as number) & 0xff) === value;
/** Bytes, numbers that are bytes, or a text in base64, with padding or without. */
const isBinary: Fits = (value) => {
  if (typeof value !== 'string')
    return isBytes(value) || (Array.isArray(value) && value.every(isByte));
  const [, digits] = /^([A-Za-z0-9+/_-]*)={0,2}$/.exec(value) ?? [];
  return digits !== undefined && digits.length % 4 !== 1;
};

/** By the methods of a writer. Each may have one for an array of values, too: `int32s`. */
const checks: { readonly [method: string]: readonly [fits: Fits, type: string] } = {
  uint32: [isUint32, 'uint32'],
  int32: [isInt32, 'int32'],
  sint32: [isInt32, 'sint32'],
  fixed32: [isUint32, 'fixed32'],
  sfixed32: [isInt32, 'sfixed32'],
  uint64: [isUint64, 'uint64'],
  int64: [isInt64, 'int64'],
  sint64: [isInt64, 'sint64'],
  fixed64: [isUint64, 'fixed64'],
  sfixed64: [isInt64, 'sfixed64'],
  float: [isFloat, 'float'],
  string: [isText, 'text: it has half of a surrogate pair'],
  bytes: [isBinary, 'field of bytes'],
};

export class CheckedWriter extends protobufjs.BufferWriter {
  static {
    const base = protobufjs.BufferWriter.prototype as unknown as Methods;
    const own = CheckedWriter.prototype as unknown as Methods;
    for (const [name, [fits, type]] of Object.entries(checks)) {
      const [write, writeAll] = [base[name] as Write, base[`${name}s`]];
      own[name] = function (value) {
        if (!fits(value)) throw new UnfitValue(value, type);
        return write.call(this, value);
      };
      if (writeAll === undefined) continue;
      own[`${name}s`] = function (values) {
        for (const value of values as readonly unknown[]) {
          if (!fits(value)) throw new UnfitValue(value, type);
        }
        return writeAll.call(this, values);
      };
    }
  }
}

interface EncodedType<Input> {
  encode(message: Input, writer: protobufjs.Writer): protobufjs.Writer;
}

/** The fields of a type of reflection; a type of a static module does not tell its own. */
interface Fields {
  readonly [name: string]: Field | undefined;
}

interface Field {
  readonly repeated?: boolean;
  readonly map?: boolean;
  /** Of messages and enums. */
  readonly resolvedType?: { readonly fields?: Fields } | null;
}

type Write = (this: unknown, value: unknown) => unknown;
type Methods = { [name: string]: Write | undefined };

/**
 * Encodes a message.
 * @throws {TypeError} that names the field, for a value that does not fit it.
 */
export function encodeChecked<Input>(
  type: EncodedType<Input>,
  message: Input,
  writer: CheckedWriter,
): protobufjs.Writer {
  if (Array.isArray(message)) throw new TypeError('an array is no message');
  if (ArrayBuffer.isView(message)) throw new TypeError('bytes are no message');
  if (typeof message === 'object' && message !== null && !isPlain(message)) {
    refuseBuiltIn(message, 'the message');
  }
  refuseEmptied(message as object, '', (type as { readonly fields?: Fields }).fields);
  try {
    return type.encode(message, writer);
  } catch (error) {
    if (!(error instanceof UnfitValue)) throw error;
    throw new TypeError(`${pathOf(type, message, error.value)}: ${error.message}`);
  }
}

/**
 * Refuses what would be written as nothing, and what `verify()` of protobufjs lets pass. `fields`:
 * of the message, where they are known. `item`: what the list or map holds; undefined: `value` is a
 * message. `seen`: objects that were walked.
 */
function refuseEmptied(
  value: object,
  path: string,
  fields: Fields | undefined,
  item?: Field,
  seen?: Set<object>,
): void {
  let known = seen;
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if (typeof member !== 'object' || member === null) continue;
    if (!Object.hasOwn(value, name) || known?.has(member) === true) continue;
    const inner = path === '' ? name : `${path}.${name}`;
    const { repeated, map, resolvedType } = item ?? fields?.[name] ?? unknownField;
    const isMessage = resolvedType?.fields !== undefined;
    if (ArrayBuffer.isView(member)) {
      if (isMessage) throw new TypeError(`${inner}: bytes are no message`);
      continue;
    }
    known = (known ?? new Set()).add(member);
    if (Array.isArray(member) && (map === true || (isMessage && repeated !== true))) {
      throw new TypeError(`${inner}: an array is no ${map === true ? 'map' : 'message'}`);
    }
    if (!Array.isArray(member) && !isPlain(member)) refuseBuiltIn(member, inner);
    else if (repeated !== true && map !== true)
      refuseEmptied(member, inner, resolvedType?.fields, undefined, known);
    else refuseEmptied(member, inner, undefined, isMessage ? { resolvedType } : undefined, known);
  }
}

const unknownField: Field = {};

/** @throws {TypeError} for a `Date`, a `Map` and the like, whose content would be lost. */
function refuseBuiltIn(value: object, path: string): void {
  const name = Object.prototype.toString.call(value).slice('[object '.length, -1);
  if (name === 'Object' || isBytes(value)) return; // a message of a type
  const remedy = isDate(value) ? '; a Timestamp is { seconds, nanos }' : '';
  throw new TypeError(`${path}: ${withArticle(name)} is no message${remedy}`);
}

/**
 * Where the value is in a message: `items.2.id`. The message is encoded once more, since the field
 * that is read last is the one that was refused.
 */
function pathOf<Input>(type: EncodedType<Input>, message: Input, value: unknown): string {
  let path = '';
  let last: unknown;
  let holder = { at: '', target: {} };
  const watched = (target: object, at: string): object =>
    new Proxy(target, {
      get: (_target, name) => {
        const member = (target as Record<string | symbol, unknown>)[name];
        if (typeof name === 'symbol' || name === 'length') return member;
        if (!Object.hasOwn(target, name)) return member;
        path = at === '' ? name : `${at}.${name}`;
        last = member;
        holder = { at, target };
        return isWalked(member) ? watched(member, path) : member;
      },
    });
  try {
    type.encode(watched(message as object, '') as Input, new CheckedWriter());
  } catch {
    // as before
  }
  if (typeof value !== 'string' || last === value) return path;
  // A key of a map, of which the value before was read last, or nothing yet.
  if (isWalked(last) && Object.hasOwn(last, value)) return `${path}.${value}`;
  return Object.hasOwn(holder.target, value) ? `${holder.at}.${value}` : path;
}

/** Messages, lists and maps; a Long is read by protobufjs itself. */
function isWalked(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  const { low, high } = value as { low?: unknown; high?: unknown };
  return typeof low !== 'number' || typeof high !== 'number';
}
