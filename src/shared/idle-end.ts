// SPDX-License-Identifier: MIT
// The end of a shared helper that no program uses.
import type { Clock } from '../base/clock.ts';
import { ignore } from '../base/ignore-errors.ts';
import { pause } from '../base/pause.ts';

/** The part of a listener that its idle end needs. */
export interface IdleListener {
  readonly closed: Promise<unknown>;
  readonly sessionCount: number;
  readonly sessionsEver: number;
  /** Closes, unless a session is open or on its way to be. */
  closeIfUnused(): Promise<boolean>;
}

const never = new AbortController().signal;
/** Time for the first session to come. */
const firstUseMs = 10_000;
const leastLookMs = 25;
const mostLookMs = 1_000;

/** Looks now and then, which a timer for each session would cost more than. */
export async function endWhenIdle(
  clock: Clock,
  listener: IdleListener,
  idleTimeoutMs: number,
): Promise<void> {
  const lookMs = Math.min(mostLookMs, Math.max(leastLookMs, idleTimeoutMs / 4));
  let isClosed = false;
  void listener.closed.then(() => {
    isClosed = true;
  });
  let usedAt = clock.nowMs();
  let ever = listener.sessionsEver;
  while (!isClosed) {
    await pause(clock, lookMs, never, false);
    const isUsed = listener.sessionCount > 0 || listener.sessionsEver !== ever;
    ever = listener.sessionsEver;
    if (isUsed) usedAt = clock.nowMs();
    // The program that has started it may be slow to come.
    const mostMs = ever === 0 ? Math.max(idleTimeoutMs, firstUseMs) : idleTimeoutMs;
    // A session that comes at this moment keeps it: calls are never finished beside a next helper.
    // Without a descriptor at this moment, the next look tries again.
    if (clock.nowMs() - usedAt >= mostMs) await listener.closeIfUnused().catch(ignore);
  }
}
