// SPDX-License-Identifier: MIT
// Why calls of the peer's end that no handler has answered.
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import { SidecallError, withoutStack } from '../../base/errors.ts';
import { ResetReason } from '../../wire/frame-header.ts';

/** The codes of calls that are not started, by the reason that their opener is told. */
export const refusalCodes: { readonly [reason: number]: SidecallErrorCode } = {
  [ResetReason.goingAway]: 'ERR_SIDECALL_GOING_AWAY',
  [ResetReason.limitStreams]: 'ERR_SIDECALL_LIMIT_STREAMS',
};

/** Of a call that its opener, or a limit, ends. */
export function errorOf(code: SidecallErrorCode): SidecallError {
  return withoutStack(() => new SidecallError(code));
}
