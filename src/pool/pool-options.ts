// SPDX-License-Identifier: MIT
// The options of pools, and their checks.
import { availableParallelism } from 'node:os';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../base/misuse.ts';

/** Options of every pool. */
export interface PoolOptions {
  /**
   * Number of members; 1 to 1,024. `auto` (the default): the processors that this process may use,
   * less one for itself, and at least one.
   */
  readonly size?: number | 'auto' | undefined;
  /**
   * Calls under way on one member from which it is busy: others wait in the pool, so that none
   * waits behind a long one while another member is free. Calls with a `key` go to their member
   * even so. Calls that were given up count until their handlers have ended; notifications and
   * channels count as well. Default: no limit; 1 to 1,048,576. For handlers that keep a processor
   * busy: 1, or 2 to have the next request there when an answer leaves.
   */
  readonly callsPerMember?: number | undefined;
}

/** When a helper of a pool is followed by a fresh process; each is off unless given. */
export interface RecycleOptions {
  /** Calls that one process gets. 1 to 2,147,483,647. */
  readonly calls?: number | undefined;
  /** Milliseconds that one process lives. 1,000 to 2,147,483,647. */
  readonly ageMs?: number | undefined;
  /** Resident memory of one process in bytes; Linux only. 1 MiB to 1 TiB. */
  readonly memoryBytes?: number | undefined;
}

/** Checked {@link PoolOptions}. */
export interface PoolSettings {
  readonly size: number;
  readonly callsPerMember: number;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkPool(options: PoolOptions): PoolSettings {
  if (typeof options !== 'object' || options === null) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'the options of a pool are missing');
  }
  const { size, callsPerMember } = options;
  const isAuto = size === undefined || size === 'auto';
  if (!isAuto && typeof size !== 'number') {
    const text = `size must be 'auto' or a number, 1 to 1024, got ${String(size)}`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  return {
    size: isAuto
      ? Math.max(1, availableParallelism() - 1)
      : checkInteger('size', size, ranges.poolSize),
    callsPerMember:
      callsPerMember === undefined
        ? Number.POSITIVE_INFINITY
        : checkInteger('callsPerMember', callsPerMember, ranges.callsPerMember),
  };
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkRecycle(recycle: RecycleOptions | undefined): RecycleOptions | undefined {
  if (recycle === undefined) return undefined;
  checkKeys('recycle', recycle, ['calls', 'ageMs', 'memoryBytes']);
  const { calls, ageMs, memoryBytes } = recycle;
  if (calls !== undefined) checkInteger('recycle.calls', calls, ranges.recycleCalls);
  if (ageMs !== undefined) checkInteger('recycle.ageMs', ageMs, ranges.recycleAgeMs);
  if (memoryBytes !== undefined) {
    checkInteger('recycle.memoryBytes', memoryBytes, ranges.recycleMemoryBytes);
    if (process.platform !== 'linux') {
      const text = 'recycle.memoryBytes needs /proc, which only Linux has; use calls or ageMs';
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
  }
  return recycle;
}
