// SPDX-License-Identifier: MIT
// A child process that ends with the thread that has started it.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { nativeState } from '../addon/load-addon.ts';

/**
 * As `child_process.spawn()`. On Linux, with the addon, the kernel kills the child when this thread
 * ends, in any way, from its first instruction on.
 */
export function spawnBound(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  const { addon } = nativeState();
  addon?.killForksWithUs(1);
  try {
    return spawn(command, args, options);
  } finally {
    addon?.killForksWithUs(0);
  }
}
