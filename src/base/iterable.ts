// SPDX-License-Identifier: MIT
// Values that can be iterated, at once or in time.

/** Something that can be iterated, and is no options object. */
export function isIterable(value: unknown): value is AsyncIterable<unknown> | Iterable<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value)
  );
}

/** The iterator of something that can be iterated. */
export function iteratorOf(
  requests: AsyncIterable<unknown> | Iterable<unknown>,
): AsyncIterator<unknown> | Iterator<unknown> {
  if (Symbol.asyncIterator in requests) return requests[Symbol.asyncIterator]();
  return requests[Symbol.iterator]();
}
