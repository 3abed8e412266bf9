// SPDX-License-Identifier: MIT
// Values that `await` waits for, promises or not.

/** True: the value has a function `then`. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    value !== null &&
    (typeof value === 'object' || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
