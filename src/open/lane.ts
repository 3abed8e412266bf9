// SPDX-License-Identifier: MIT
// Whether a ring is offered, and the reason of the lane, for `session.laneReason`. The two hellos
// (uds/hello.ts) decide together.

import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import type { RingMemory } from '../shm/hello-memory.ts';
import type { HelloResult } from '../uds/hello.ts';

/** The lane that was asked for. */
export interface LaneSetting {
  readonly lane: 'auto' | 'ring' | 'socket';
}

const asked = 'the socket lane was asked for';

/** The reason why there is no addon, as text. */
export function addonReason(): string {
  return nativeState().reason ?? 'it is loaded';
}

/** Why no ring is offered to the process `owner`; undefined: one is. */
export function noRingReason(
  native: NativeAddon,
  { lane }: LaneSetting,
  owner: number,
): string | undefined {
  return lane === 'socket' ? asked : noMemoryReason(native, owner);
}

/**
 * The reason of the lane that both hellos led to. `whyNot`: what {@link noRingReason} said.
 * @throws {SidecallError} `ERR_SIDECALL_SHM_UNAVAILABLE`: only the ring will do, and there is none.
 */
export function laneReasonOf(
  { lane }: LaneSetting,
  whyNot: string | undefined,
  hello: HelloResult,
  memory: RingMemory | undefined,
): string {
  const reason = whyNot ?? helloReason(hello, memory);
  if (lane === 'ring' && !hello.isRing) throw unavailable(reason);
  return reason;
}

/** The same without the addon: there is the socket lane. */
export function plainLaneReason({ lane }: LaneSetting): string {
  const reason = lane === 'socket' ? asked : `there is no addon: ${addonReason()}`;
  if (lane === 'ring') throw unavailable(reason);
  return reason;
}

/**
 * The reason why no shared memory is offered to a peer: closing its descriptors or checking its
 * memory hangs, or all threads for that do. undefined: it may be offered.
 */
function noMemoryReason(native: NativeAddon, owner: number): string | undefined {
  const why = native.whyNoMemory(owner);
  if (why === 0) return undefined;
  const what = why === 1 ? 'descriptors that were sent to us cannot be closed' : 'a check hangs';
  return `shared memory is not offered for now: ${what}`;
}

function helloReason(hello: HelloResult, memory: RingMemory | undefined): string {
  if (memory === undefined) return hello.reason;
  return hello.isRing ? 'both sides have shared memory' : (memory.failure ?? hello.reason);
}

export function unavailable(why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_SHM_UNAVAILABLE', why);
}
