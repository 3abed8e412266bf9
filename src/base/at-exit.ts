// SPDX-License-Identifier: MIT
// Work that is left when the process exits in the middle of anything: files are removed from disk,
// and what was reported as sent is written. A killed process does neither. It leaves its
// socket file, whose lock is free: the next listener at that path replaces it.

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
  if (cleanups.size === 0) process.on('exit', runAll);
  cleanups.add(cleanup);
  return () => {
    cleanups.delete(cleanup);
    if (cleanups.size === 0) process.off('exit', runAll);
  };
}
