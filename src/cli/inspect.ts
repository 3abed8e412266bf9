// SPDX-License-Identifier: MIT
// `sidecall inspect`: a living process by its pid or by the path at which it listens, or a saved
// copy of the memory of a ring.
import { readFileSync, statSync } from 'node:fs';
import { requireNative } from '../addon/load-addon.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { listenerAt } from '../shared/process-standing.ts';
import { type RingReport, reportRing, splitRingCopy } from '../wire/ring-report.ts';
import { inspectProcess, type OnProgress, type ThreadReport } from './inspect-process.ts';

/** The report of a saved copy, or of the threads of a process. */
export type Inspected =
  | { readonly ring: RingReport }
  | { readonly threads: readonly ThreadReport[] };

/**
 * A number is a pid; a file of that name is written `./NUMBER`.
 * @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where the file cannot be read; what
 * {@link inspectProcess} throws.
 */
export async function inspect(
  operand: string,
  timeoutMs: number,
  onProgress: OnProgress,
): Promise<Inspected> {
  if (/^\d{1,10}$/.test(operand) && Number(operand) > 0) {
    return { threads: await inspectProcess(Number(operand), timeoutMs, onProgress) };
  }
  if (!isSocket(operand)) return { ring: inspectFile(operand) };
  const pid = await processAt(operand);
  return { threads: await inspectProcess(pid, timeoutMs, onProgress) };
}

/** The states that no correct process leaves. */
export function faultsOf(inspected: Inspected): readonly string[] {
  if ('ring' in inspected) return inspected.ring.faults;
  const sessions = inspected.threads.flatMap((thread) => thread.sessions);
  return sessions.flatMap(({ ring }) => ring?.faults ?? []);
}

function isSocket(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isSocket() === true;
}

/** @throws {SidecallError} where no process listens there, or the kernel does not name it. */
async function processAt(path: string): Promise<number> {
  const pid = await listenerAt(requireNative('this'), path);
  if (pid !== undefined && pid > 0) return pid;
  const text = `${path}: the kernel does not name the process that listens there`;
  throw new SidecallError('ERR_SIDECALL_CREDENTIALS_UNAVAILABLE', text);
}

function inspectFile(file: string): RingReport {
  try {
    return reportRing(splitRingCopy(readFileSync(file)));
  } catch (cause) {
    const text = `${file} could not be read: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}
