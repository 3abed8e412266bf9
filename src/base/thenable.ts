// SPDX-License-Identifier: MIT
// Values that `await` waits for, promises or not.

/** True: the value has a function `then`. Bytes have none. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    value !== null &&
    !ArrayBuffer.isView(value) &&
    (typeof value === 'object' || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
