// A listener that is killed and returns, with many clients in several processes.
import { expect, it } from 'vitest';
import { scratchDirectory, startProgram } from '../support/programs.ts';

interface Arrival {
  readonly atMs: number;
  readonly pauseMs: number;
}

const processes = 4;
const each = 50;
const awayMs = 3_000;

it('200 clients of a listener that was away for three seconds all come back, and not together', async () => {
  using directory = scratchDirectory();
  const path = directory.file('socket');
  const first = startProgram('returning.mjs', [path]);
  await first.next();
  const clients = Array.from({ length: processes }, () =>
    startProgram('reconnecting.mjs', [path, String(each)]),
  );
  try {
    for (const client of clients) expect(await client.next()).toEqual({ connected: each });
    await new Promise((resolve) => setTimeout(resolve, 1_000)); // the sessions live for a while
    await first[Symbol.asyncDispose](); // SIGKILL
    await new Promise((resolve) => setTimeout(resolve, awayMs));
    await using second = startProgram('returning.mjs', [path]);
    const { listensAt } = (await second.next()) as { listensAt: number };
    const told = await Promise.all(clients.map((client) => client.next()));
    const arrivals = told.flatMap(({ arrivals }) => arrivals as Arrival[]);
    expect(arrivals).toHaveLength(processes * each);
    for (const { atMs } of arrivals) expect(atMs).toBeGreaterThan(listensAt);
    for (const { longestPauseMs } of told) expect(longestPauseMs).toBeLessThanOrEqual(400);
    // Pauses are drawn over the half of the longest one: no tenth of that time has half of them.
    const pauses = arrivals.map(({ pauseMs }) => pauseMs);
    const together = pauses.map((ms) => pauses.filter((one) => one >= ms && one < ms + 20).length);
    expect(Math.max(...together)).toBeLessThan((processes * each) / 2);
    for (const client of clients) await client.exited;
  } finally {
    for (const client of clients) await client[Symbol.asyncDispose]();
  }
});
