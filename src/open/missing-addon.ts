// SPDX-License-Identifier: MIT
// Tells that a session is without the addon, which the program did not ask for: it has no ring, and
// its peer was not checked.

import { nativeState, switchedOff } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import type { Peer } from '../base/peer.ts';

let hasWarned = false;

/** Tells `onEvent` for each session; without one, a warning of the process, once. */
export function tellMissingAddon(onEvent: OnEvent | undefined, peer: Peer): void {
  const { reason } = nativeState();
  if (reason === undefined || reason === switchedOff) return;
  const text = `no ring, and peers are not checked, because there is no addon: ${reason}`;
  const error = new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', text);
  emitEvent(onEvent, { type: 'lane', error, peer });
  if (onEvent !== undefined || hasWarned) return;
  hasWarned = true;
  process.emitWarning(text, { code: 'SIDECALL_NO_ADDON' });
}
