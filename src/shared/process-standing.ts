// SPDX-License-Identifier: MIT
// Whether the process that listens at a path works, or hangs.
import { readFileSync } from 'node:fs';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { pause } from '../base/pause.ts';
import { connectToPath } from '../uds/connect-path.ts';

/** The doings of a process that does not answer. */
export interface Standing {
  readonly state: 'busy' | 'stopped' | 'idle' | 'unknown';
  readonly pid: number | undefined;
  /** The text that follows 'it' in a message. */
  readonly words: string;
}

const sampleMs = 500;
const connectMs = 1_000;
/** Hundredths of a second of processor time, in a sample, from which a process works. */
const busyTicks = 3;
const never = new AbortController().signal;

/** Looks at the process for half a second: a busy one uses the processor, a hung one does not. */
export async function standingOf(native: NativeAddon, path: string): Promise<Standing> {
  return standingOfProcess(await listenerAt(native, path).catch(() => undefined));
}

/** The same of a process by its number; undefined: it is not known. */
export async function standingOfProcess(pid: number | undefined): Promise<Standing> {
  const before = statOf(pid);
  await pause(systemClock, sampleMs, never);
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

/**
 * The process that listens at a path, by the word of the kernel. `unsafeDirectory`: as of
 * `connect()`. @throws what a connect throws.
 */
export async function listenerAt(
  native: NativeAddon,
  path: string,
  unsafeDirectory = false,
): Promise<number | undefined> {
  const fd = await connectToPath(native, path, undefined, {
    unsafeDirectory,
    signal: AbortSignal.timeout(connectMs), // its backlog may be full
    timeoutMs: connectMs,
  });
  try {
    return native.peerIds(fd).pid;
  } finally {
    native.closeDescriptor(fd);
  }
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
