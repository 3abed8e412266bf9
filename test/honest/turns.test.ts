// The share of a turn of the event loop (docs/adr/0020) delays work and refuses none: the busiest
// honest sessions of a process get all their answers, and each session its part of them.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { lanes, type Pair } from '../support/pairs.ts';

const Busy = service('Busy', {
  echo: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  compute: unary<number, number>(),
});

const sessionsCount = 16;
const callers = 16;
const callsOfEach = 60;

function compute(ms: number): number {
  const until = performance.now() + ms;
  let rounds = 0;
  while (performance.now() < until) rounds += 1;
  return rounds;
}

describe.each(lanes)('busy sessions over the $lane', ({ openPair }) => {
  it('get every answer, and each session its part while all are busy', async () => {
    const pairs: Pair[] = [];
    try {
      for (let at = 0; at < sessionsCount; at += 1) {
        const pair = await openPair();
        pair.far.serve(Busy, { echo: (request) => request, compute });
        pairs.push(pair);
      }
      const wanted = callers * callsOfEach;
      const answered = pairs.map(() => 0);
      let whenFirstIsDone: number[] | undefined;
      const sessions = pairs.map(async ({ near }, session) => {
        const busy = near.client(Busy);
        const caller = async (_: unknown, at: number): Promise<void> => {
          const request = new Uint8Array(4_096).fill(session * callers + at);
          for (let call = 0; call < callsOfEach; call += 1) {
            expect(Buffer.compare(await busy.echo(request), request)).toBe(0);
            answered[session] = (answered[session] ?? 0) + 1;
          }
        };
        await Promise.all(Array.from({ length: callers }, caller));
        whenFirstIsDone ??= [...answered];
      });
      await Promise.all(sessions);
      expect(answered).toEqual(pairs.map(() => wanted));
      expect(Math.min(...(whenFirstIsDone ?? []))).toBeGreaterThan(wanted / 3);
      expect(pairs.every(({ near, far }) => near.state === 'open' && far.state === 'open')).toBe(
        true,
      );
    } finally {
      for (const pair of pairs) await pair[Symbol.asyncDispose]();
    }
  });

  it('go on beside sessions whose handlers take many turns each', async () => {
    const pairs: Pair[] = [];
    try {
      for (let at = 0; at < 8; at += 1) {
        const pair = await openPair();
        pair.far.serve(Busy, { echo: (request) => request, compute });
        pairs.push(pair);
      }
      const [light, ...heavy] = pairs as [Pair, ...Pair[]];
      let isHeavyDone = false;
      const computing = Promise.all(
        heavy.flatMap(({ near }) => Array.from({ length: 24 }, () => near.client(Busy).compute(5))),
      ).finally(() => (isHeavyDone = true));
      let lightAnswers = 0;
      while (!isHeavyDone) {
        await light.near.client(Busy).echo(new Uint8Array(64));
        lightAnswers += 1;
      }
      expect((await computing).every((rounds) => rounds > 0)).toBe(true);
      // 168 handlers, each of more than a turn's share: the light session has its turn between
      // them.
      expect(lightAnswers).toBeGreaterThan(0);
    } finally {
      for (const pair of pairs) await pair[Symbol.asyncDispose]();
    }
  });
});
