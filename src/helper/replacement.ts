// SPDX-License-Identifier: MIT
// A process that follows another one while that one still runs.
import { SidecallError } from '../base/errors.ts';
import { withDeadline } from '../open/time-limit.ts';
import { makeClient } from '../rpc/calling/client.ts';
import { HealthService } from '../rpc/serving/health.ts';
import type { Session } from '../rpc/session/session.ts';
import { exitText } from './helper-errors.ts';
import { HelperProcess, type StartSettings } from './helper-process.ts';

/** The result of `helper.replace()`. */
export interface ReplacedHelper {
  /** Process id of the new process. */
  readonly pid: number;
  /**
   * Calls that the old process had not been sent: calls with one answer are made on the new one;
   * notifications and streams reject with `delivered: 'no'`.
   */
  readonly moved: number;
  /** Calls that the old process finished. */
  readonly drained: number;
  /** Calls that were cut off at the deadline, or by the end of the old process. */
  readonly forced: number;
}

/**
 * Starts a process and waits until its health is `serving`.
 * @throws {SidecallError} `ERR_SIDECALL_HELPER_FAILED` with what went wrong; nothing is left.
 */
export async function startHealthy(
  settings: StartSettings,
  signal: AbortSignal,
): Promise<HelperProcess> {
  const next = await HelperProcess.start(settings, signal);
  try {
    await withDeadline('its health', settings.startTimeoutMs, signal, (until) =>
      becameHealthy(next.session, until),
    );
    return next;
  } catch (cause) {
    await next.stop({ deadlineMs: 0, killGraceMs: 0 });
    signal.throwIfAborted();
    const reason = next.exit === undefined ? '' : ` (${exitText(next.pid, next.exit)})`;
    const { message } = SidecallError.from(cause);
    const text = `the new process of ${settings.command} did not become healthy: ${message}${reason}`;
    throw new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause });
  }
}

/** Resolves once the peer serves. A peer without the health service is healthy by its hello. */
async function becameHealthy(session: Session, signal: AbortSignal): Promise<void> {
  const health = makeClient(HealthService, session.target);
  try {
    for await (const { status } of health.watch(undefined, { signal, windowBytes: 1 })) {
      if (status === 'serving') return;
    }
  } catch (error) {
    if (SidecallError.is(error) && error.status === 'unimplemented') return;
    throw error;
  }
  throw new SidecallError('ERR_SIDECALL_PEER_GONE', 'it ended');
}
