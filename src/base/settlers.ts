// SPDX-License-Identifier: MIT
// The functions that settle a promise, without a closure for each promise: `new Promise(keep)`,
// then `kept` has them until the next one.

/** Settles a promise. */
export type Settle = (value: unknown) => void;

/** The functions of the last promise that was made with {@link keep}, to be taken out at once. */
export const kept: { resolve: Settle | undefined; reject: Settle | undefined } = {
  resolve: undefined,
  reject: undefined,
};

/** The executor of a promise whose functions are taken right afterwards. */
export function keep(resolve: Settle, reject: Settle): void {
  kept.resolve = resolve;
  kept.reject = reject;
}
