// SPDX-License-Identifier: MIT
// The process that listens at a path, and whether it works.
import type { NativeAddon } from '../addon/addon-api.ts';
import { type Standing, standingOfProcess } from '../base/process-standing.ts';
import { connectToPath } from '../uds/connect-path.ts';

const connectMs = 1_000;

/** Looks at that process for half a second: a busy one uses the processor, a hung one does not. */
export async function standingOf(native: NativeAddon, path: string): Promise<Standing> {
  return standingOfProcess(await listenerAt(native, path).catch(() => undefined));
}

/**
 * The process that listens at a path, by the word of the kernel. `unsafeDirectory`: as of
 * `connect()`. @throws what a connect throws.
 */
export async function listenerAt(
  native: NativeAddon,
  path: string,
  unsafeDirectory = false,
): Promise<number | undefined> {
  const fd = await connectToPath(native, path, undefined, {
    unsafeDirectory,
    signal: AbortSignal.timeout(connectMs), // its backlog may be full
    timeoutMs: connectMs,
  });
  try {
    return native.peerIds(fd).pid;
  } finally {
    native.closeDescriptor(fd);
  }
}
