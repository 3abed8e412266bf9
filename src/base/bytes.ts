// SPDX-License-Identifier: MIT
// Bytes by the functions of their class: V8 of Node 20 inlines these, and looks for a property of a
// typed array by its name each time.

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array;
const { set, subarray } = typedArray;

/** `lengthOf.call(bytes)` is `bytes.length`. */
export const lengthOf = Object.getOwnPropertyDescriptor(typedArray, 'length')?.get as (
  this: Uint8Array,
) => number;

/** `copyBytes.call(target, bytes, at)` is `target.set(bytes, at)`. */
export const copyBytes: (this: Uint8Array, bytes: Uint8Array, at: number) => void = set;

/** `viewOf.call(bytes, from, to)` is `bytes.subarray(from, to)`. */
export const viewOf: (this: Uint8Array, from: number, to: number) => Uint8Array = subarray;

/** A part of memory as a view. */
export function partOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return from === 0 && to === lengthOf.call(bytes) ? bytes : subarray.call(bytes, from, to);
}
