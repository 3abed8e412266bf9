// SPDX-License-Identifier: MIT
// Defaults of all sessions of this thread.
import { availableParallelism } from 'node:os';
import { ranges } from '../base/limits/option-limits.ts';
import { checkBoolean, checkInteger, checkKeys } from '../base/misuse.ts';

/** Options of {@link configure}. */
export interface ProcessOptions {
  /**
   * How long the event loop looks for more after a message before it sleeps, in microseconds, for
   * sessions that do not say. Default 50, or 0 on one CPU and in Electron's main process, where a
   * turn of the loop is dear; 0 to 1,000.
   */
  readonly pollBudgetUs?: number | undefined;
  /**
   * Shared memory of our own that the sessions of this process may hold together, in bytes. The
   * sessions of this thread that would go beyond it get the socket lane, or
   * `ERR_SIDECALL_SHM_UNAVAILABLE` where `lane: 'ring'` was asked for. Default 1 GiB, which is
   * 3,855 ends of sessions at paths, or 1,008 with helpers, of the default `ringBytes`; 0 to 64
   * GiB. A reserve of an eighth more is for peer processes that hold no more than a sixteenth.
   * Memory of other threads counts; memory of another copy of this package does not.
   */
  readonly ringMemoryMaxBytes?: number | undefined;
  /**
   * Lets processes of our own user look into the sessions of this thread by `npx sidecall inspect
   * PID`: calls, windows and rings, without payload. The kernel identifies them. The socket for
   * that opens with the next `connect()`, `listen()`, `spawnHelper()` or `parent()`, so this comes
   * before those. `'payload'`: with `--payload` they see the beginning of unread messages, too.
   * `false`: none is opened. Default: true where the environment has `SIDECALL_INSPECT=1`, and
   * `'payload'` where it has `SIDECALL_INSPECT=payload`.
   */
  readonly inspection?: boolean | 'payload' | undefined;
}

let pollBudgetUs: number | undefined;
let inspection: boolean | 'payload' | undefined;
let advisedBudgetUs: number | undefined;
// Read once: it asks the system each time.
let processors: number | undefined;
let memoryMaxBytes: number = ranges.ringMemoryMaxBytes.standard;

/**
 * Sets the defaults of sessions that this thread makes from now on. An option that is
 * left out keeps its value.
 * @throws {TypeError | RangeError} for misuse; nothing is changed then.
 */
export function configure(options: ProcessOptions): void {
  checkKeys('configure()', options, ['pollBudgetUs', 'ringMemoryMaxBytes', 'inspection']);
  const budget = { ...ranges.pollBudgetUs, standard: pollBudgetUs ?? -1 };
  const chosen = checkInteger('pollBudgetUs', options.pollBudgetUs, budget);
  const memory = { ...ranges.ringMemoryMaxBytes, standard: memoryMaxBytes };
  const memoryMax = checkInteger('ringMemoryMaxBytes', options.ringMemoryMaxBytes, memory);
  if (options.inspection !== undefined) {
    const { inspection: wanted } = options;
    inspection = wanted === 'payload' ? wanted : checkBoolean('inspection', wanted);
  }
  memoryMaxBytes = memoryMax;
  if (chosen >= 0) pollBudgetUs = chosen;
}

/** The poll budget of a session that asks for `wanted`, or leaves it open. */
export function pollBudgetOf(wanted: number | undefined): number {
  return wanted ?? pollBudgetUs ?? advisedBudgetUs ?? standardPollBudgetUs();
}

/** The poll budget that {@link configure} has set. */
export function configuredPollBudgetUs(): number | undefined {
  return pollBudgetUs;
}

/** Takes the advice of the process that started us, which knows how many it has started. */
export function advisePollBudget(text: string): void {
  const budget = Number(text);
  const { min, max } = ranges.pollBudgetUs;
  if (Number.isInteger(budget) && budget >= min && budget <= max) advisedBudgetUs = budget;
}

/** Processes of our own user may look into this thread. */
export function isInspectionAllowed(): boolean {
  return inspectionMode() !== false;
}

/** They may see payloads, too. */
export function isPayloadAllowed(): boolean {
  return inspectionMode() === 'payload';
}

function inspectionMode(): boolean | 'payload' {
  const { SIDECALL_INSPECT: wanted } = process.env;
  return inspection ?? (wanted === 'payload' ? wanted : wanted === '1');
}

/** Bytes that all our outboxes may take together. */
export function ringMemoryMaxBytes(): number {
  return memoryMaxBytes;
}

/**
 * 0 on one CPU, where polling starves the peer, and in Electron's main process, whose turns are as
 * slow as waking up.
 */
function standardPollBudgetUs(): number {
  const { type } = process as NodeJS.Process & { type?: string };
  const isElectronMain = process.versions.electron !== undefined && type === 'browser';
  processors ??= availableParallelism();
  return isElectronMain || processors === 1 ? 0 : ranges.pollBudgetUs.standard;
}
