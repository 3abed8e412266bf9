// SPDX-License-Identifier: MIT
// Whether a process works, or hangs.
import { readFileSync } from 'node:fs';
import { systemClock } from './clock.ts';
import { pause } from './pause.ts';

/** The doings of a process that does not answer. */
export interface Standing {
  readonly state: 'busy' | 'stopped' | 'idle' | 'unknown';
  readonly pid: number | undefined;
  /** The text that follows 'it' in a message. */
  readonly words: string;
}

const sampleMs = 500;
/** Hundredths of a second of processor time, in a sample, from which a process works. */
const busyTicks = 3;
const never = new AbortController().signal;

/**
 * Looks at a process for half a second, or until `signal` is aborted: a busy one uses the
 * processor, a hung one does not. An undefined `pid` is not known.
 */
export async function standingOfProcess(
  pid: number | undefined,
  signal: AbortSignal = never,
): Promise<Standing> {
  const before = statOf(pid);
  await pause(systemClock, sampleMs, signal);
  const after = statOf(pid);
  if (before === undefined || after === undefined) {
    return { state: 'unknown', pid, words: 'cannot be looked at from here' };
  }
  if (/[RD]/.test(after.letter)) return { state: 'busy', pid, words: 'is busy' };
  if (/[Tt]/.test(after.letter)) {
    return { state: 'stopped', pid, words: 'was stopped (SIGSTOP, or a debugger)' };
  }
  const used = after.ticks - before.ticks;
  if (used >= busyTicks) return { state: 'busy', pid, words: 'is busy' };
  return { state: 'idle', pid, words: 'does not use the processor either: it hangs' };
}

function statOf(pid: number | undefined): { letter: string; ticks: number } | undefined {
  if (pid === undefined || pid <= 0) return undefined;
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    return { letter: fields[0] ?? '', ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined; // not Linux, or it has ended
  }
}
