// SPDX-License-Identifier: MIT
// The start of the members of a pool: all of them, or none.
import { mapItems } from './map-items.ts';

/**
 * Starts members, `atOnce` at a time. Where one fails, the others are ended, and the error of the
 * first one is thrown once they are gone.
 */
export async function allOrNone<M>(
  size: number,
  atOnce: number,
  start: (signal: AbortSignal) => Promise<M>,
  end: (member: M) => Promise<unknown>,
  signal: AbortSignal | undefined,
): Promise<M[]> {
  const members: M[] = [];
  const begun = new Set<Promise<unknown>>();
  const startOne = (_: number, options: { readonly signal: AbortSignal }): Promise<unknown> => {
    const started = start(options.signal).then((member) => void members.push(member));
    begun.add(started);
    return started;
  };
  const numbers = Array.from({ length: size }, (_, at) => at);
  const settings = { concurrency: atOnce, isOrdered: false, signal };
  try {
    for await (const result of mapItems(numbers, startOne, settings)) void result;
    return members;
  } catch (error) {
    await Promise.allSettled(begun);
    await Promise.all(members.map(end));
    throw error;
  }
}
