// SPDX-License-Identifier: MIT
// Bytes by the functions of their class: V8 of Node 20 inlines these, and looks for a property of a
// typed array by its name each time.

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array;
const { set, subarray } = typedArray;
const getLength = Object.getOwnPropertyDescriptor(typedArray, 'length')?.get as (
  this: Uint8Array,
) => number;

export function lengthOf(bytes: Uint8Array): number {
  return getLength.call(bytes);
}

/** Copies bytes, as `target.set(bytes, at)`. */
export function copyBytes(target: Uint8Array, bytes: Uint8Array, at: number): void {
  set.call(target, bytes, at);
}

/** A part of memory as a view. */
export function partOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return from === 0 && to === lengthOf(bytes) ? bytes : subarray.call(bytes, from, to);
}
