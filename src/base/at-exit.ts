// SPDX-License-Identifier: MIT
// Work that is left when the process exits in the middle of anything: files are removed from disk,
// and what was reported as sent is written. A killed process does neither. It leaves its
// socket file, whose lock is free: the next listener at that path replaces it.

// The exit of a process waits that long for peers that do not read, 2 s for all of them together.
const pauseMs = 2;
let pauses = 1_000;
const pauseWord = new Int32Array(new SharedArrayBuffer(4));

/** Waits a moment, at the exit of the process. False: it has waited long enough. */
export function waitAtExit(): boolean {
  if (pauses === 0) return false;
  pauses -= 1;
  Atomics.wait(pauseWord, 0, 0, pauseMs);
  return true;
}

const cleanups = new Set<() => void>();

function runAll(): void {
  for (const cleanup of cleanups) {
    try {
      cleanup();
    } catch {
      // exiting: the others still have their turn
    }
  }
}

/**
 * Runs `cleanup` at `process.exit`, an uncaught exception, or the end of the loop. Returns how to
 * stop that.
 */
export function atExit(cleanup: () => void): () => void {
  // In front of the program's listeners: Node calls none behind one that throws, or exits again.
  if (cleanups.size === 0) process.prependListener('exit', runAll);
  cleanups.add(cleanup);
  return () => {
    cleanups.delete(cleanup);
    if (cleanups.size === 0) process.off('exit', runAll);
  };
}
