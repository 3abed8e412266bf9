// SPDX-License-Identifier: MIT
// The functions that settle a promise, without a closure for each promise: `new Promise(keep)`,
// then `takeResolve()` and `takeReject()`.

/** Settles a promise. */
export type Settle = (value: unknown) => void;

let resolveKept: Settle | undefined;
let rejectKept: Settle | undefined;

/** The executor of a promise whose functions are taken right afterwards. */
export function keep(resolve: Settle, reject: Settle): void {
  resolveKept = resolve;
  rejectKept = reject;
}

/** The function that resolves the last promise that was made with {@link keep}. */
export function takeResolve(): Settle {
  const resolve = resolveKept as Settle;
  resolveKept = undefined; // it holds the promise, which holds its result
  return resolve;
}

/** The function that rejects the last promise that was made with {@link keep}. */
export function takeReject(): Settle {
  const reject = rejectKept as Settle;
  rejectKept = undefined;
  return reject;
}
