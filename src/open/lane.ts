// SPDX-License-Identifier: MIT
// The lane that a session gets, and the reason.

import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import type { RingMemory } from '../shm/hello-memory.ts';
import type { HelloResult } from '../uds/hello.ts';

export const asked = 'the socket lane was asked for';

/** Why there is no addon, for words. */
export function addonReason(): string {
  return nativeState().reason ?? 'it is loaded';
}

/**
 * A peer whose descriptors hang where they are closed, or whose memory hangs where it is checked,
 * is asked for no more; where every thread for that hangs, no peer is.
 */
export function whyNoMemory(native: NativeAddon, owner: number): string | undefined {
  const why = native.whyNoMemory(owner);
  if (why === 0) return undefined;
  const what = why === 1 ? 'descriptors that were sent to us cannot be closed' : 'a check hangs';
  return `shared memory is not offered for now: ${what}`;
}

export function laneReasonOf(hello: HelloResult, memory: RingMemory | undefined): string {
  if (memory === undefined) return hello.reason;
  return hello.isRing ? 'both sides have shared memory' : (memory.failure ?? hello.reason);
}

export function unavailable(why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_SHM_UNAVAILABLE', why);
}
