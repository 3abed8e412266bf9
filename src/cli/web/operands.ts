// SPDX-License-Identifier: MIT
// The processes and files that the pages show.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { printable } from '../../base/printable.ts';
import { inspectablePids, inspectionPathsOf } from '../../rendezvous/inspection-paths.ts';
import { type InspectedFile, inspectFile, isProcess, processOf } from '../inspect.ts';
import { checkAllowed, isAlive } from '../inspect-process.ts';

/** A saved copy that was named on the command line. */
export interface ShownFile {
  readonly name: string;
  /** The report, read once: the file may change or go. */
  readonly report: InspectedFile;
}

/** The operands of the command. */
export interface Operands {
  /** Empty: all processes of this user that allow it. */
  readonly pids: readonly number[];
  readonly files: readonly ShownFile[];
}

/** Options of the pages. */
export interface WebSettings extends Operands {
  /** Milliseconds between two looks into a process. */
  readonly intervalMs: number;
  /** The longest wait for an answer. */
  readonly timeoutMs: number;
  /** Milliseconds for which a process is looked at after a page has asked. Default: 5,000. */
  readonly interestMs?: number | undefined;
}

/**
 * @throws {SidecallError} for an operand that is no saved copy and no process that may be looked
 * into.
 */
export async function readOperands(operands: readonly string[]): Promise<Operands> {
  const pids: number[] = [];
  const files: ShownFile[] = [];
  for (const operand of operands) {
    if (isProcess(operand)) {
      const pid = await processOf(operand);
      checkAllowed(pid);
      pids.push(pid);
    } else files.push({ name: basename(operand), report: inspectFile(operand) });
  }
  return { pids, files };
}

/** True: the process may be shown. */
export function mayShow({ pids, files }: Operands, pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  if (pids.length > 0 || files.length > 0) return pids.includes(pid);
  return isAlive(pid) && inspectionPathsOf(pid).length > 0;
}

/** A process that can be chosen. */
export interface ProcessChoice {
  readonly pid: number;
  /** The beginning of its command line; empty: unknown. */
  readonly command: string;
}

/** Processes in the list; others are reached by `#process/PID`. */
const choicesMax = 200;

/** The processes that can be looked into now. Files alone were named: none. */
export function processChoices({ pids, files }: Operands): readonly ProcessChoice[] {
  const isAll = pids.length === 0 && files.length === 0;
  const wanted = isAll ? inspectablePids() : pids;
  return wanted
    .filter((pid) => !isAll || isAlive(pid))
    .slice(0, choicesMax)
    .map((pid) => ({ pid, command: commandOf(pid) }));
}

const commandMax = 120;

function commandOf(pid: number): string {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const [program = '', ...rest] = words.filter((word) => word !== '');
    const short = rest.map((word) => (word.startsWith('/') ? basename(word) : word));
    return printable([basename(program), ...short].join(' ')).slice(0, commandMax);
  } catch {
    return ''; // it has ended, or there is no /proc
  }
}
