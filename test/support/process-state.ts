// Waits for the state of another process while this one does not return to its event loop.
import { readFileSync } from 'node:fs';

/** `T`: it was stopped, which takes a moment behind the signal; `Z`: it has ended. */
export function waitForState(pid: number, letter: 'T' | 'Z'): void {
  const until = performance.now() + 60_000;
  const isThere = (): boolean =>
    readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.startsWith(letter) === true;
  while (!isThere() && performance.now() < until);
}
