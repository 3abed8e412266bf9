// SPDX-License-Identifier: MIT
// Bytes in JSON values: they leave the value before it becomes text, travel behind the text, and go
// back. In the text a placeholder `{"$bytes": n}` stands for the n-th; an object that has such a
// key of its own gets one more `$` in front of it, which the other side takes away.

import { Buffer } from 'node:buffer';
import {
  isAnyArrayBuffer,
  isBoxedPrimitive,
  isMap,
  isNativeError,
  isPromise,
  isRegExp,
  isSet,
  isWeakMap,
  isWeakSet,
} from 'node:util/types';
import { isBytes, isDate, isPlain } from '../../base/brands.ts';
import { withArticle } from '../../base/error-text.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { readU32, writeU32 } from '../../wire/frame-header.ts';

/** First byte of a message with attachments. No JSON text begins so. */
export const attachmentsMark = 0;

const key = '$bytes';
const keyPattern = /^\$+bytes$/;
const headBytes = 12;
const noAttachments: readonly Uint8Array[] = [];

/** A value without its bytes, and the bytes. Without any, it is the value itself. */
export interface Detached {
  readonly value: unknown;
  readonly attachments: readonly Uint8Array[];
}

/** The remedy of a value that is nested too deep. */
export const deeper = 'json({ depthMax }) at both ends takes more';

/**
 * A value without its bytes, if it nests at most `depthMax` levels.
 * @throws {RangeError} above 64 attachments. @throws {TypeError} for a circle, and for what JSON
 * does not carry.
 */
export function detach(value: unknown, depthMax: number): Detached {
  // A first pass over the members. Nearly always there are no bytes, and then nothing is copied.
  const isObject = typeof value === 'object' && value !== null;
  if (!isObject || isFlat(value) || !hasBytes(value, [], depthMax)) {
    return { value, attachments: noAttachments };
  }
  const attachments: Uint8Array[] = [];
  const without = replace(value, '', { attachments, ancestors: [], depthMax });
  // A value that has a `toJSON()` and no bytes: its keys are as they were.
  if (attachments.length === 0) return { value: attach(without, attachments), attachments };
  if (attachments.length <= wireLimits.attachmentsMax) return { value: without, attachments };
  const text = `a message carries ${wireLimits.attachmentsMax} attachments at most, this has ${attachments.length}`;
  throw new RangeError(text);
}

/**
 * The value with its bytes back in their places. @throws {TypeError} where they do not belong
 * together.
 */
export function attach(value: unknown, attachments: readonly Uint8Array[]): unknown {
  const isUsed: boolean[] = new Array(attachments.length).fill(false);
  const attached = restore(value, attachments, isUsed);
  if (isUsed.includes(false)) throw new TypeError('an attachment that nothing refers to');
  return attached;
}

/** u8 0, three zeroes, u32 number, u32 bytes of text, u32 length of each, the text, the bytes. */
export function joinParts(text: string, attachments: readonly Uint8Array[]): Uint8Array {
  const textBytes = Buffer.byteLength(text);
  const textAt = headBytes + 4 * attachments.length;
  const total = attachments.reduce((sum, { length }) => sum + length, textAt + textBytes);
  const joined = Buffer.allocUnsafe(total);
  joined.fill(0, 0, 4);
  writeU32(joined, 4, attachments.length);
  writeU32(joined, 8, textBytes);
  joined.write(text, textAt);
  let at = textAt + textBytes;
  for (const [index, bytes] of attachments.entries()) {
    writeU32(joined, headBytes + 4 * index, bytes.length);
    joined.set(bytes, at);
    at += bytes.length;
  }
  return joined;
}

/** Views of the parts. @throws {TypeError} for lengths that do not add up. */
export function splitParts(view: Uint8Array): { text: Uint8Array; attachments: Uint8Array[] } {
  const isHead = view.length >= headBytes && view[1] === 0 && view[2] === 0 && view[3] === 0;
  const count = isHead ? readU32(view, 4) : 0;
  const textAt = headBytes + 4 * count;
  if (count === 0 || count > wireLimits.attachmentsMax || textAt > view.length) {
    throw new TypeError('attachments that are none');
  }
  let at = textAt + readU32(view, 8);
  const text = view.subarray(textAt, at);
  const attachments: Uint8Array[] = [];
  for (let index = 0; index < count; index += 1) {
    const bytes = readU32(view, headBytes + 4 * index);
    if (bytes > view.length - at) throw new TypeError('an attachment that ends too late');
    attachments.push(view.subarray(at, at + bytes));
    at += bytes;
  }
  if (at !== view.length) throw new TypeError('bytes behind the attachments');
  return { text, attachments };
}

/** A plain object of texts, numbers and the like, as most messages are. */
function isFlat(value: object): boolean {
  if (Object.getPrototypeOf(value) !== Object.prototype || hasToJson(value)) return false;
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if ((typeof member === 'object' && member !== null) || isDropped(member)) return false;
    if (typeof member === 'bigint') return false;
  }
  return true;
}

/**
 * True: the value is or holds bytes, or an object with `toJSON()`, which may return some.
 * @throws {TypeError} for a circle, for a value that is too deep for the receiver, and
 * for what JSON does not carry.
 */
function hasBytes(value: object, ancestors: object[], depthMax: number): boolean {
  if (isBytes(value)) return true;
  refuseBinary(value);
  enter(value, ancestors, depthMax);
  const members = value as Record<string, unknown>;
  if (hasToJson(value)) {
    ancestors.pop();
    return !isDate(value) || value.toJSON !== Date.prototype.toJSON;
  }
  refuseEmptied(value);
  for (const name in members) {
    const member = members[name];
    if (typeof member === 'object') {
      if (member === null || !Object.hasOwn(value, name)) continue;
      if (hasBytes(member, ancestors, depthMax)) return true;
    } else if (typeof member === 'bigint') {
      if (hasToJson(member)) return true;
    } else if (isDropped(member) && Object.hasOwn(value, name)) refuseDropped(member, name);
  }
  ancestors.pop();
  return false;
}

function refuseBinary(value: object): void {
  if (!ArrayBuffer.isView(value) && !isAnyArrayBuffer(value)) return;
  const name = nameOf(value);
  throw new TypeError(`JSON cannot carry ${withArticle(name)}: give a Uint8Array of it`);
}

/** True: `JSON.stringify` leaves such a member out, or writes null in its place in an array. */
function isDropped(member: unknown): boolean {
  return typeof member === 'function' || typeof member === 'symbol';
}

/** @throws {TypeError} */
function refuseDropped(member: unknown, name: string): never {
  throw new TypeError(`JSON cannot carry a ${typeof member}: leave '${name}' out`);
}

/** The name that a built-in class gives its instances, in each realm. */
function nameOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

const entries = 'give an object, or an array of its entries';
const unread = 'it cannot be read';
/** A stream of Node: its fields are of its inside. */
const isStream = (value: object) =>
  ['pipe', 'on'].every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
const isNamed = (name: string) => (value: object) => nameOf(value) === name;
/** Kinds of objects that `JSON.stringify` turns into `{}`, and what to give instead. */
const emptied: readonly (readonly [
  is: (value: object) => boolean,
  name: string,
  instead: string,
])[] = [
  [isMap, 'Map', entries],
  [isSet, 'Set', entries],
  [isNativeError, 'Error', 'give its message, or throw it'],
  [isRegExp, 'RegExp', 'give its source'],
  [isPromise, 'Promise', 'await it'],
  [isWeakMap, 'WeakMap', unread],
  [isWeakSet, 'WeakSet', unread],
  [isNamed('WeakRef'), 'WeakRef', 'give what it refers to'],
  [isNamed('AbortSignal'), 'AbortSignal', 'options are the second argument of a call'],
  [isNamed('URLSearchParams'), 'URLSearchParams', 'give its text, or an array of its entries'],
  [isNamed('Headers'), 'Headers', entries],
  [isNamed('FormData'), 'FormData', entries],
  [isNamed('Blob'), 'Blob', 'give its bytes'],
  [isNamed('File'), 'File', 'give its bytes'],
  [isStream, 'stream', 'send what it reads, by a method that streams'],
];
/** Names of objects without fields that `JSON.stringify` writes as what they are. */
const written = new Set(['Object', 'Arguments', 'Number', 'String', 'Boolean', 'BigInt']);

/**
 * @throws {TypeError} for an object that JSON would empty, since its content would be lost: one of
 * these kinds, and one without fields that has a name of its own, as iterators and streams have.
 */
function refuseEmptied(value: object): void {
  if (Array.isArray(value) || isPlain(value)) return;
  const [, name = nameOf(value), instead] = emptied.find(([is]) => is(value)) ?? [];
  if (instead === undefined && (written.has(name) || Object.keys(value).length > 0)) return;
  const text = `JSON cannot carry ${withArticle(name)}`;
  throw new TypeError(`${text}: ${instead ?? 'none of its content is in fields'}`);
}

/**
 * Notes an object whose members are walked next. @throws {TypeError} for one that is too deep, and
 * for a circle: the number of paths through it has no bound.
 */
function enter(value: object, ancestors: object[], depthMax: number): void {
  if (ancestors.includes(value)) throw new TypeError('JSON cannot carry a circle');
  if (ancestors.length >= depthMax) {
    throw new TypeError(`JSON nested deeper than ${depthMax}: ${deeper}`);
  }
  ancestors.push(value);
}

/** The attachments found so far, and the objects around the present one. */
interface Walk {
  readonly attachments: Uint8Array[];
  readonly ancestors: object[];
  readonly depthMax: number;
}

/** A text that `JSON.stringify` writes as it is; Node 22 and later have such. */
const { isRawJSON: isRawJson = () => false } = JSON as { isRawJSON?: (value: unknown) => boolean };

type WithToJson = { toJSON(name: string): unknown };

function hasToJson(value: unknown): value is WithToJson {
  return typeof (value as Partial<WithToJson>).toJSON === 'function';
}

/** The value that `JSON.stringify` takes for the member `name`, with placeholders for bytes. */
function replace(given: unknown, name: string, walk: Walk): unknown {
  const mayConvert = typeof given === 'bigint' || (typeof given === 'object' && given !== null);
  if (!mayConvert || isBytes(given) || !hasToJson(given)) return replacePlain(given, name, walk);
  return replacePlain(given.toJSON(name), name, walk);
}

/** The same for a value whose `toJSON()` was called, or that has none. */
function replacePlain(value: unknown, name: string, walk: Walk): unknown {
  if (typeof value === 'bigint') throw new TypeError('JSON cannot carry a bigint');
  if (isDropped(value)) refuseDropped(value, name);
  if (typeof value !== 'object' || value === null) return value;
  if (isBytes(value)) return { [key]: walk.attachments.push(value) - 1 };
  if (isRawJson(value)) return value;
  refuseBinary(value);
  if (isBoxedPrimitive(value)) return replacePlain(value.valueOf(), name, walk);
  refuseEmptied(value);
  enter(value, walk.ancestors, walk.depthMax);
  const replaced = Array.isArray(value) ? replaceItems(value, walk) : replaceFields(value, walk);
  walk.ancestors.pop();
  return replaced;
}

function replaceItems(items: readonly unknown[], walk: Walk): unknown {
  // Not by a method of its own class.
  const copy = Array.from({ length: items.length }, (_, at) => replace(items[at], `${at}`, walk));
  // An old library may give each array a method, which was called for this one.
  if (hasToJson(copy)) setOwn(copy, 'toJSON', undefined);
  return copy;
}

function replaceFields(value: object, walk: Walk): unknown {
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) {
    // Its own method, which was called, is no content.
    if (name === 'toJSON' && typeof member === 'function') continue;
    copy[keyPattern.test(name) ? `$${name}` : name] = replace(member, name, walk);
  }
  return copy;
}

/**
 * In place where no key has to change: the value was made by `JSON.parse`, and is held by no other
 * code.
 */
function restore(value: unknown, attachments: readonly Uint8Array[], isUsed: boolean[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (const [index, member] of value.entries()) {
      value[index] = restore(member, attachments, isUsed);
    }
    return value;
  }
  if (Object.hasOwn(value, key)) return attachmentOf(value, attachments, isUsed);
  const names = Object.keys(value);
  const isEscaped = names.some(isEscapedKey);
  const restored = (isEscaped ? {} : value) as Record<string, unknown>;
  for (const name of names) {
    const member = (value as Record<string, unknown>)[name];
    const attached = restore(member, attachments, isUsed);
    if (!isEscaped && attached === member) continue;
    // Not by assignment: here it is a key like any other.
    if (name === '__proto__') setOwn(restored, name, attached);
    else restored[isEscapedKey(name) ? name.slice(1) : name] = attached;
  }
  return restored;
}

function isEscapedKey(name: string): boolean {
  return name.charCodeAt(0) === 0x24 && keyPattern.test(name);
}

function setOwn(object: object, name: string, value: unknown): void {
  const member = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(object, name, member);
}

function attachmentOf(
  placeholder: object,
  attachments: readonly Uint8Array[],
  isUsed: boolean[],
): Uint8Array {
  const index = (placeholder as Record<string, unknown>)[key];
  const bytes = typeof index === 'number' ? attachments[index] : undefined;
  if (bytes === undefined || isUsed[index as number] || Object.keys(placeholder).length !== 1) {
    throw new TypeError('a placeholder that stands for nothing');
  }
  isUsed[index as number] = true;
  return new Uint8Array(bytes); // its own memory: what it came in is used again
}
