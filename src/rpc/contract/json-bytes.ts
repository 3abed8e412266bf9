// SPDX-License-Identifier: MIT
// Bytes in JSON values: they leave the value before it becomes text, travel behind the text, and go
// back. In the text a placeholder `{"$bytes": n}` stands for the n-th; an object that has such a
// key of its own gets one more `$` in front of it, which the other side takes away.

import { wireLimits } from '../../base/wire-limits.ts';
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

/** @throws {RangeError} above 64 attachments. @throws {TypeError} for a circle. */
export function detach(value: unknown): Detached {
  // A first pass over the members. Nearly always there are no bytes, and then nothing is copied.
  const isObject = typeof value === 'object' && value !== null;
  if (!isObject || isFlat(value) || !hasBytes(value, [])) {
    return { value, attachments: noAttachments };
  }
  const attachments: Uint8Array[] = [];
  const without = replace(value, '', attachments, []);
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
  const total = attachments.reduce((sum, { byteLength }) => sum + byteLength, textAt + textBytes);
  const joined = Buffer.allocUnsafe(total);
  joined.fill(0, 0, 4);
  writeU32(joined, 4, attachments.length);
  writeU32(joined, 8, textBytes);
  joined.write(text, textAt);
  let at = textAt + textBytes;
  for (const [index, bytes] of attachments.entries()) {
    writeU32(joined, headBytes + 4 * index, bytes.byteLength);
    joined.set(bytes, at);
    at += bytes.byteLength;
  }
  return joined;
}

/** Views of the parts. @throws {TypeError} for lengths that do not add up. */
export function splitParts(view: Uint8Array): { text: Uint8Array; attachments: Uint8Array[] } {
  const isHead = view.byteLength >= headBytes && view[1] === 0 && view[2] === 0 && view[3] === 0;
  const count = isHead ? readU32(view, 4) : 0;
  const textAt = headBytes + 4 * count;
  if (count === 0 || count > wireLimits.attachmentsMax || textAt > view.byteLength) {
    throw new TypeError('attachments that are none');
  }
  let at = textAt + readU32(view, 8);
  const text = view.subarray(textAt, at);
  const attachments: Uint8Array[] = [];
  for (let index = 0; index < count; index += 1) {
    const bytes = readU32(view, headBytes + 4 * index);
    if (bytes > view.byteLength - at) throw new TypeError('an attachment that ends too late');
    attachments.push(view.subarray(at, at + bytes));
    at += bytes;
  }
  if (at !== view.byteLength) throw new TypeError('bytes behind the attachments');
  return { text, attachments };
}

/** A plain object of texts, numbers and the like, as most messages are. */
function isFlat(value: object): boolean {
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if ((typeof member === 'object' && member !== null) || typeof member === 'function')
      return false;
  }
  return true;
}

/**
 * True: the value is or holds bytes, or an object with `toJSON()`, which may return some.
 * @throws {TypeError} for a circle, for a value that is too deep for the receiver, and
 * for other binary values.
 */
function hasBytes(value: object, ancestors: object[]): boolean {
  if (value instanceof Uint8Array) return true;
  refuseBinary(value);
  if (ancestors.length >= wireLimits.jsonDepthMax) {
    throw new TypeError(
      `JSON is nested at most ${wireLimits.jsonDepthMax} deep, and not in a circle`,
    );
  }
  enter(value, ancestors);
  const members = value as Record<string, unknown>;
  if (typeof members.toJSON === 'function') {
    ancestors.pop();
    return !(value instanceof Date);
  }
  refuseEmptied(value);
  for (const name in members) {
    const member = members[name];
    if (typeof member === 'object' && member !== null && hasBytes(member, ancestors)) return true;
  }
  ancestors.pop();
  return false;
}

function refuseBinary(value: object): void {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new TypeError(`JSON cannot carry a ${value.constructor.name}: give a Uint8Array of it`);
  }
}

/**
 * Objects that `JSON.stringify` turns into `{}` are refused: their content would be lost. @throws
 * {TypeError}
 */
function refuseEmptied(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || Array.isArray(value)) return;
  if (value instanceof Map || value instanceof Set) {
    const name = value.constructor.name;
    throw new TypeError(`JSON cannot carry a ${name}: give an object, or an array of its entries`);
  }
  if (value instanceof Promise) throw new TypeError('JSON cannot carry a Promise: await it');
  if (value instanceof AbortSignal) {
    throw new TypeError(
      'JSON cannot carry an AbortSignal: options are the second argument of a call',
    );
  }
}

/**
 * Notes an object whose members are walked next. @throws {TypeError} for a circle: the number of
 * paths through it has no bound.
 */
function enter(value: object, ancestors: object[]): void {
  if (ancestors.includes(value)) throw new TypeError('JSON cannot carry a circle');
  ancestors.push(value);
}

/** The value that `JSON.stringify` takes for the member `name`, with placeholders for bytes. */
function replace(
  given: unknown,
  name: string,
  attachments: Uint8Array[],
  ancestors: object[],
): unknown {
  if (typeof given === 'bigint') throw new TypeError('JSON cannot carry a bigint');
  if (typeof given !== 'object' || given === null) return given;
  if (given instanceof Uint8Array) return { [key]: attachments.push(given) - 1 };
  if (ancestors.length >= wireLimits.jsonDepthMax) throw new TypeError('too deep');
  const { toJSON } = given as { toJSON?: unknown };
  if (typeof toJSON !== 'function') return replaceMembers(given, attachments, ancestors);
  const value: unknown = toJSON.call(given, name);
  if (typeof value !== 'object' || value === null)
    return replace(value, name, attachments, ancestors);
  if (value instanceof Uint8Array) return { [key]: attachments.push(value) - 1 };
  return replaceMembers(value, attachments, ancestors);
}

function replaceMembers(value: object, attachments: Uint8Array[], ancestors: object[]): unknown {
  refuseBinary(value);
  refuseEmptied(value);
  const isBoxed = value instanceof Number || value instanceof String || value instanceof Boolean;
  if (isBoxed) return value.valueOf();
  enter(value, ancestors);
  const replaced = Array.isArray(value)
    ? value.map((member, at) => replace(member, String(at), attachments, ancestors))
    : replaceFields(value as Record<string, unknown>, attachments, ancestors);
  ancestors.pop();
  return replaced;
}

function replaceFields(
  value: Record<string, unknown>,
  attachments: Uint8Array[],
  ancestors: object[],
): unknown {
  const copy = Object.create(null) as Record<string, unknown>;
  for (const name of Object.keys(value)) {
    const member = replace(value[name], name, attachments, ancestors);
    copy[keyPattern.test(name) ? `$${name}` : name] = member;
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
  const isEscaped = names.some((name) => keyPattern.test(name));
  const restored: object = isEscaped ? {} : value;
  for (const name of names) {
    const member = (value as Record<string, unknown>)[name];
    const attached = restore(member, attachments, isUsed);
    const ownName = keyPattern.test(name) ? name.slice(1) : name;
    // Not by assignment: `__proto__` is a key like any other here.
    if (isEscaped || attached !== member) setOwn(restored, ownName, attached);
  }
  return restored;
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
