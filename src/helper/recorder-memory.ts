// SPDX-License-Identifier: MIT
// The memory of a helper's flight recorder: its parent makes it, hands it over as an inherited
// descriptor, and reads it at any time, also when the helper was killed.
import { Buffer } from 'node:buffer';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { writeNew } from '../base/new-file.ts';
import { FlightRecorder } from '../wire/flight-recorder.ts';
import { endTextMaxBytes, Head, recorderBytes, recorderMagic } from '../wire/recorder-layout.ts';
import { doingText, type Recording, readRecording } from '../wire/recording.ts';
import { keepSettled } from '../wire/settled-records.ts';

/** Number of the descriptor in the helper. */
export const recorderFd = 4;
/**
 * Environment variable with that number, and `:frames` behind it where frames are recorded, too.
 * The helper reads and deletes it.
 */

/** Values of the option `recorder`, the default first. */
export const recorderModes = ['handlers', 'frames', 'off'] as const;
/**
 * `handlers`: a helper records the handlers that run; `frames`: its last 4,096 frames, too; `off`:
 * nothing.
 */
export type RecorderMode = (typeof recorderModes)[number];

/**
 * The handlers of a helper that run, and with `recorder: 'frames'` its last frames: copied while it
 * runs, or when it had ended. It has no payload.
 */
export interface HelperRecording extends Recording {
  /**
   * Saves the copy to a new file of mode 0600, which `npx sidecall inspect FILE` reads.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_SYSTEM` where the file exists or cannot be
   * made.
   */
  save(file: string): Promise<void>;
}

/** The memory, as the parent has it. */
export class RecorderMemory {
  readonly #native: NativeAddon;
  /** To be given to the helper. Closed by {@link RecorderMemory.end}. */
  readonly fd: number;
  #last: Buffer | undefined;
  #hasEnded = false;

  private constructor(native: NativeAddon, fd: number) {
    this.#native = native;
    this.fd = fd;
  }

  /** undefined: the system has no such memory, or none left. */
  static create(native: NativeAddon): RecorderMemory | undefined {
    if (native.createRecorder === undefined) return undefined;
    try {
      const fd = native.createRecorder(recorderBytes, Buffer.from(recorderMagic, 'latin1'));
      return new RecorderMemory(native, fd);
    } catch {
      return undefined; // a helper without a recorder is better than none
    }
  }

  /** The process has ended, as `text` says: its memory is copied, and given back. Never throws. */
  end(text: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    try {
      this.#last = this.#copy(text);
    } catch {
      // The program has closed the descriptor: there is no recording.
    } finally {
      this.#native.closeDescriptor(this.fd);
    }
  }

  /** undefined: the process does not write to the memory. */
  read(): HelperRecording | undefined {
    const copy = this.#hasEnded ? this.#last : this.#copyWhileWritten();
    if (copy === undefined || copy.readUInt32LE(Head.pid) === 0) return undefined;
    return { ...readRecording(copy), save: (file) => save(copy, file) };
  }

  /** The handlers that ran at the end, in words; undefined: it does not write to the memory. */
  get lastWords(): string | undefined {
    const recording = this.read();
    if (recording === undefined) return undefined;
    const isSound = recording.faults.length === 0;
    return isSound ? doingText(recording) : 'its flight recorder holds what no correct one writes';
  }

  #copyWhileWritten(): Buffer {
    const earlier = this.#copy('');
    const copy = this.#copy('');
    keepSettled(earlier, copy);
    return copy;
  }

  #copy(endText: string): Buffer {
    const copy = Buffer.alloc(recorderBytes);
    this.#native.readRecorder?.(this.fd, copy);
    copy.write(recorderMagic, 'latin1'); // the helper may have overwritten it
    copy.writeDoubleLE(monotonicMs(), Head.copiedAtMs);
    copy.writeDoubleLE(performance.timeOrigin + systemClock.nowMs(), Head.copiedAtEpochMs);
    const bytes = Buffer.from(endText).subarray(0, endTextMaxBytes);
    copy.writeUInt32LE(bytes.length, Head.endText);
    copy.set(bytes, Head.endText + 4);
    return copy;
  }
}

/** The recorder of this process, which was started with this variable; undefined: it has none. */
export function openRecorder(
  native: NativeAddon,
  variable: string | undefined,
): FlightRecorder | undefined {
  const [fd, mode] = variable?.split(':') ?? [];
  if (fd !== String(recorderFd) || native.mapRecorder === undefined) return undefined;
  let memory: Buffer | undefined;
  try {
    memory = native.mapRecorder(recorderFd, recorderBytes);
    if (memory?.toString('latin1', 0, recorderMagic.length) !== recorderMagic) return undefined;
    native.closeDescriptor(native.moveDescriptor(recorderFd));
  } catch {
    return undefined; // the descriptor is another one, or none is left
  }
  const now = systemClock.nowMs();
  const origin = {
    pid: process.pid,
    monotonicMs: isMachineWide ? monotonicMs() - now : 0,
    epochMs: performance.timeOrigin,
  };
  return new FlightRecorder(memory, origin, mode === 'frames');
}

/** In Node `process.hrtime()` is the clock of the machine, in Bun and Deno that of the process. */
const isMachineWide = process.versions.bun === undefined && process.versions.deno === undefined;

/** The clock that all processes of the machine share (CLOCK_MONOTONIC on Linux); 0: unknown. */
function monotonicMs(): number {
  if (!isMachineWide) return 0;
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

async function save(copy: Uint8Array, file: string): Promise<void> {
  try {
    await writeNew(file, [copy]);
  } catch (cause) {
    const text = `the recording could not be saved to ${file}: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}
