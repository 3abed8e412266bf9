// SPDX-License-Identifier: MIT
// Values that cross a port. A page can send any value of structured clone: a few hundred bytes can
// expand to more than the memory there is, so the size is checked. A value for a page gets memory
// of its own, so that the page sees no other bytes.

import { isBytes, isDate } from '../../base/brands.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';

// Most bytes of a page's value, counted as JSON would write it: a shared object counts each time,
// and so does each hole of an array.
const costMax = 64 * 1024 * 1024;
const nodeCost = 32; // so that no value is walked for longer than some hundredths of a second

/**
 * About how many bytes a page's value takes, once it is written out.
 * @throws {RpcError} `invalid_argument` for what JSON with bytes does not carry,
 * `resource_exhausted` where it is too much.
 */
export function costOf(value: unknown): number {
  const budget = { left: costMax };
  spend(value, budget, 0);
  return costMax - budget.left;
}

function spend(value: unknown, budget: { left: number }, depth: number): void {
  take(budget, nodeCost);
  if (typeof value === 'string') return take(budget, value.length);
  // The clone of a view holds all of the buffer below it.
  if (isBytes(value)) return take(budget, value.buffer.byteLength);
  if (typeof value === 'bigint') throw refused('a bigint');
  if (typeof value !== 'object' || value === null || isDate(value)) return;
  if (depth >= wireLimits.jsonDepthMax)
    throw refused(`what is nested deeper than ${wireLimits.jsonDepthMax}`);
  if (Array.isArray(value)) {
    take(budget, nodeCost * value.length); // before it is walked: holes are cheap to send
    for (const each of value) spend(each, budget, depth + 1);
    return;
  }
  // Structured clone gives each object of the page this prototype, also an instance of a class;
  // another prototype marks a built-in type.
  if (Object.getPrototypeOf(value) !== Object.prototype)
    throw refused(`a ${value.constructor?.name}`);
  for (const key of Object.keys(value)) {
    take(budget, key.length);
    spend((value as Record<string, unknown>)[key], budget, depth + 1);
  }
}

function take(budget: { left: number }, cost: number): void {
  budget.left -= cost;
  if (budget.left >= 0) return;
  const text = `a value of a page takes more than ${costMax} bytes once it is written out`;
  throw new RpcError('resource_exhausted', text);
}

function refused(what: string): RpcError {
  return new RpcError('invalid_argument', `${what} is nothing that a page can send`);
}

/**
 * A copy whose bytes have memory of their own: the clone of a view would show
 * the page the whole buffer.
 */
export function withOwnMemory<T>(value: T, depth = 0): T {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > wireLimits.jsonDepthMax) {
    const text = `an answer is nested deeper than ${wireLimits.jsonDepthMax}`;
    throw new SidecallError('ERR_SIDECALL_ENCODE', text, { delivered: 'yes' });
  }
  const inner = <Inner>(each: Inner): Inner => withOwnMemory(each, depth + 1);
  if (isBytes(value)) return new Uint8Array(value) as T & Uint8Array;
  if (Array.isArray(value)) return value.map(inner) as T;
  if (isDate(value)) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    const kind = (value as object).constructor?.name ?? 'object of some class';
    const text = `an answer holds a ${kind}, which a page cannot be given: a codec says by plain() what it is as plain data`;
    throw new SidecallError('ERR_SIDECALL_ENCODE', text, { delivered: 'yes' });
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inner(each)])) as T;
}
