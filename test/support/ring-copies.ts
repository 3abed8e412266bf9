// Copies of the memory of a ring in which requests wait to be read.
import { readFileSync } from 'node:fs';
import { Demo, demoHandlers } from './contract.ts';
import { openRingPair } from './pairs.ts';
import { scratchDirectory } from './programs.ts';

/** The size of an outbox of `openRingPair` without blocks: its control page and its data. */
export const outboxBytes = 16_384 + 1_048_576;

/** Requests that are unread in the copy: one is published at once, then four at a time. */
export const unreadRequests = 9;

/** A saved copy: the memory of the caller, in which its requests are unread, then the other one. */
export async function copyWithRequests(): Promise<Buffer> {
  using scratch = scratchDirectory();
  await using pair = await openRingPair({}, {});
  pair.far.serve(Demo, demoHandlers());
  const { add } = pair.near.client(Demo);
  // The name of the method is known from here on, and no drain has found several records.
  for (let count = 0; count < 2; count += 1) {
    await add({ a: 0, b: 0 });
    await new Promise(setImmediate);
  }
  const calls = Array.from({ length: unreadRequests }, (_, a) => add({ a, b: 1 }));
  const { ring } = pair.near.inspect(); // in the same turn: nothing was read yet
  await ring?.save(scratch.file('copy'));
  await Promise.all(calls);
  return readFileSync(scratch.file('copy'));
}
