// SPDX-License-Identifier: MIT
// Sends what an iteration gives as the requests of a call.

import { iteratorOf } from '../../base/iterable.ts';
import { releaseBlockIn } from '../contract/leases.ts';
import type { StreamCall } from './call-target.ts';

const done: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

/**
 * Sends all of `requests`, then their end. An error of the iteration cancels the call; a call that
 * is over first ends the iteration.
 */
export async function sendAll(
  call: StreamCall,
  requests: AsyncIterable<unknown> | Iterable<unknown>,
): Promise<void> {
  let isOver = false;
  let wake: (step: typeof done) => void = () => undefined;
  const onOver = (): void => {
    isOver = true;
    wake(done);
  };
  call.promise.then(onOver, onOver);
  let iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined;
  try {
    iterator = iteratorOf(requests);
    const isSync = !(Symbol.asyncIterator in requests);
    for (;;) {
      // A promise of its own for each turn: one for all would remember every turn.
      const woken = new Promise<typeof done>((resolve) => {
        wake = resolve;
      });
      const next: unknown = isOver ? done : iterator.next();
      const step = await Promise.race([next as typeof done | IteratorResult<unknown>, woken]);
      if (isOver) {
        Promise.resolve(next as IteratorResult<unknown>).then(
          (late) => releaseBlockIn(late.value), // a block that comes too late
          () => undefined,
        );
        return await leave(iterator);
      }
      if (step.done === true) break;
      await call.send(isSync ? await step.value : step.value);
    }
    void call.end().catch(() => undefined);
  } catch (error) {
    call.cancel(error); // no news where the call itself had failed
    await leave(iterator);
  }
}

/** Calls `return()` of an iterator. Its errors are dropped, since the call is over. */
async function leave(
  iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined,
): Promise<void> {
  try {
    await iterator?.return?.();
  } catch {
    // The call is over: the failure of the clean-up has no receiver.
  }
}
