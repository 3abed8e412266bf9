// SPDX-License-Identifier: MIT
// Environment variables of a helper process, which parent() reads and deletes.

/** The number of its inherited descriptor. */
export const fdVariable = 'SIDECALL_FD';
/** The pid of the process that has started it, and with which it dies. */
export const parentVariable = 'SIDECALL_PARENT';
/** Microseconds of polling that its parent advises. */
export const pollVariable = 'SIDECALL_POLL_US';
/** The number of the descriptor of its flight recorder, and what is recorded. */
export const recorderVariable = 'SIDECALL_RECORDER';
/** How many helpers have started one another, this one with them, without a call of parent(). */
export const chainVariable = 'SIDECALL_CHAIN';

const all = [fdVariable, parentVariable, pollVariable, recorderVariable, chainVariable];

/** The environment for a program that is no helper. */
export function withoutHelperVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !all.includes(name)));
}
