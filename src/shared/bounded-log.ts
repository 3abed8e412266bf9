// SPDX-License-Identifier: MIT
// The bound of the file that has the standard error of a shared helper.
import { Buffer } from 'node:buffer';
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';

/** Bytes from which the file is cut, and what is left of it. */
export const logMaxBytes = 1_048_576;
export const logKeptBytes = 65_536;

/**
 * Cuts the file of our own standard error to its last bytes where it is long. A standard error
 * that is not this file is left alone. The helper lives long, and the file may lie in memory.
 */
export function boundLog(logPath: string, standardError = 2): void {
  try {
    const { dev, ino, size } = fstatSync(standardError);
    if (size <= logMaxBytes) return;
    const kept = Buffer.alloc(logKeptBytes);
    // A file that has come in the place of the log may be one whose opening waits.
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    const reader = openSync(logPath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    let length: number;
    try {
      const named = fstatSync(reader);
      if (named.dev !== dev || named.ino !== ino) return;
      length = readSync(reader, kept, 0, logKeptBytes, size - logKeptBytes);
    } finally {
      closeSync(reader);
    }
    // It was opened to append: what follows goes behind what is left.
    ftruncateSync(standardError, 0);
    writeSync(standardError, kept, kept.indexOf(10) + 1, length - kept.indexOf(10) - 1);
  } catch {
    // No file, or no room: the helper serves its users all the same.
  }
}
