// SPDX-License-Identifier: MIT
// `sidecall inspect`: a living process by its pid or by the path at which it listens, or a saved
// copy: of the memory of a ring, or of the flight recorder of a helper.
import { Buffer } from 'node:buffer';
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { requireNative } from '../addon/load-addon.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { shownPayloadBytes } from '../rendezvous/inspection-service.ts';
import { listenerAt } from '../shared/process-standing.ts';
import { isRecording, type Recording, readRecording } from '../wire/recording.ts';
import { isRingCopy, type RingReport, reportRing, splitRingCopy } from '../wire/ring-report.ts';
import { type InspectSettings, inspectProcess, type ThreadReport } from './inspect-process.ts';

/** The report of a saved copy: of the memory of a ring, or of a flight recorder. */
export type InspectedFile = { readonly ring: RingReport } | { readonly recording: Recording };

/** The report of a saved copy, or of the threads of a process. */
export type Inspected = InspectedFile | { readonly threads: readonly ThreadReport[] };

/**
 * A number is a pid; a file of that name is written `./NUMBER`.
 * @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where the file cannot be read; what
 * {@link inspectProcess} throws.
 */
export async function inspect(operand: string, settings: InspectSettings): Promise<Inspected> {
  if (!isProcess(operand)) return inspectFile(operand, settings.payload === true);
  return { threads: await inspectProcess(await processOf(operand), settings) };
}

/** True: the operand is a pid, or the path of a socket. */
export function isProcess(operand: string): boolean {
  return isPid(operand) || statSync(operand, { throwIfNoEntry: false })?.isSocket() === true;
}

/**
 * The process of an operand that is a pid, or the path at which it listens.
 * @throws {SidecallError} where it is neither, or of another user.
 */
export async function processOf(operand: string): Promise<number> {
  if (isPid(operand)) return Number(operand);
  const file = statSync(operand, { throwIfNoEntry: false });
  if (file?.isSocket() === true) return processAt(operand, file.uid);
  throw unreadableFile(operand, 'it is neither a pid nor a socket');
}

function isPid(operand: string): boolean {
  return /^\d{1,10}$/.test(operand) && Number(operand) > 0;
}

/** The states that no correct process leaves. */
export function faultsOf(inspected: Inspected): readonly string[] {
  if ('ring' in inspected) return inspected.ring.faults;
  if ('recording' in inspected) return inspected.recording.faults;
  const sessions = inspected.threads.flatMap((thread) => thread.sessions);
  return sessions.flatMap(({ ring }) => ring?.faults ?? []);
}

/**
 * The process that listens at a path. @throws {SidecallError} where it is of another user, or the
 * kernel does not name it.
 */
async function processAt(path: string, owner: number): Promise<number> {
  if (owner !== process.geteuid?.()) {
    const text = `${path} is a socket of uid ${owner}, and only that user may look into its process: run this command as that user`;
    throw new SidecallError('ERR_SIDECALL_PEER_DENIED', text);
  }
  // Only a number is taken from there: the process is identified again when it is looked into.
  const pid = await listenerAt(requireNative('this'), path, true);
  if (pid !== undefined && pid > 0) return pid;
  const text = `${path}: the kernel does not name the process that listens there; it may run in another pid namespace`;
  throw new SidecallError('ERR_SIDECALL_CREDENTIALS_UNAVAILABLE', text);
}

const noCopy =
  'neither a saved ring (session.inspect().ring.save(FILE)) nor the recording of a helper (helper.recording().save(FILE))';
/** @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where the file cannot be read, or is no copy. */
export function inspectFile(file: string, hasPayload = false): InspectedFile {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined)
    throw unreadableFile(file, 'there is no pid, socket or file of that name');
  if (!stat.isFile()) throw unreadableFile(file, 'it is neither a socket nor a file');
  try {
    // A file of another kind may be too long to be read.
    const head = beginOf(file);
    if ((!isRecording(head) && !isRingCopy(head)) || stat.size > copyMaxBytes) {
      throw new Error(`its ${stat.size} bytes are ${noCopy}`);
    }
    const bytes = readFileSync(file);
    if (isRecording(bytes)) return { recording: readRecording(bytes) };
    return { ring: reportRing(splitRingCopy(bytes), hasPayload ? shownPayloadBytes : 0) };
  } catch (cause) {
    throw unreadableFile(file, errorText(cause), cause);
  }
}

/** The two memories of a session with the largest rings and block areas, and some more. */
const copyMaxBytes = 2 * (ranges.ringBytes.max + ranges.blockAreaBytes.max + 65_536);
const headBytes = 64;

function beginOf(file: string): Buffer {
  const fd = openSync(file, 'r');
  try {
    const head = Buffer.alloc(headBytes);
    return head.subarray(0, readSync(fd, head, 0, headBytes, 0));
  } finally {
    closeSync(fd);
  }
}

function unreadableFile(file: string, why: string, cause?: unknown): SidecallError {
  return new SidecallError('ERR_SIDECALL_SYSTEM', `${file} could not be read: ${why}`, { cause });
}
