// SPDX-License-Identifier: MIT
// Promises whose rejection does not have to be awaited, and two values that do nothing.

/** A function for results that are not wanted. */
export const ignore = (): void => undefined;

/** No bytes at all. */
export const noBytes = new Uint8Array(0);

/** The same promise, whose rejection does not end the process where it is not awaited. */
export function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore);
  return promise;
}

/** A rejection that need not be awaited. */
export function rejected(reason: unknown): Promise<never> {
  return quiet(Promise.reject(reason));
}
