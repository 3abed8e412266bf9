// SPDX-License-Identifier: MIT
// The last step of a session that closes: its transport hands over what was sent, within a limit.
import type { Clock } from '../../base/clock.ts';
import { endWaits, pause } from '../../base/pause.ts';
import type { Transport } from '../../wire/transport.ts';

/**
 * Closes the transport, and destroys it at the instant `untilMs`. False: what was sent last may
 * be lost.
 */
export async function closeTransport(
  { transport, clock }: { readonly transport: Transport; readonly clock: Clock },
  untilMs: number,
): Promise<boolean> {
  const closed = new AbortController();
  const handedOver = transport.close().finally(() => endWaits(closed));
  await pause(clock, Math.max(0, untilMs - clock.nowMs()), closed.signal);
  const isHandedOver = closed.signal.aborted;
  if (!isHandedOver) transport.destroy();
  await handedOver;
  return isHandedOver;
}
