// SPDX-License-Identifier: MIT
// The exit of a peer's process, where another one (a forked child) still holds its socket.

import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';

// Pause before the call: the end of an ordinary peer shows on the socket
// first, and is handled there.
const graceMs = 50;

const watches = new Map<number, () => void>();
let isListening = false;

function onEnd(watch: number): void {
  const then = watches.get(watch);
  watches.delete(watch);
  if (then !== undefined) systemClock.setTimeout(then, graceMs).unref();
}

/**
 * Calls `then` once, a moment after the process at the other end of `fd` has ended, on Linux 6.5
 * and newer. Returns how to stop that, or undefined where it cannot be known.
 */
export function whenPeerExits(
  native: NativeAddon,
  fd: number,
  then: () => void,
): (() => void) | undefined {
  if (!isListening) native.listenForEnds(onEnd);
  isListening = true;
  const watch = watchOf(native, fd);
  if (watch === 0) return undefined;
  watches.set(watch, then);
  return () => {
    watches.delete(watch);
    native.forgetEnd(watch);
  };
}

/**
 * The number of a watch; 0 where no thread or descriptor is left, and only
 * the socket shows the end.
 */
function watchOf(native: NativeAddon, fd: number): number {
  try {
    return native.watchEnd(fd);
  } catch {
    return 0;
  }
}
