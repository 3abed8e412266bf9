// The steps of a hand-over, with successors that stop at each of them.
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { HandOver } from '../../src/rendezvous/hand-over.ts';
import type { SuccessorStep } from '../../src/rendezvous/hand-over-service.ts';
import { turns, until } from '../support/contract.ts';
import { loopbackPeer } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

/** A successor of another process, step by step. */
function successorOf(handOver: HandOver, pid: number) {
  const said = new Readable({ objectMode: true, read: () => undefined });
  const peer = { ...loopbackPeer, pid };
  const { signal } = new AbortController();
  const steps = handOver.serve(said, { peer, signal, metadata: {} });
  return {
    say: (step: SuccessorStep) => void said.push(step),
    next: async () => (await steps.next()).value?.step ?? 'end',
    /** Goes on to the step behind which it stops. */
    async upTo(last: string): Promise<void> {
      const answers = { prove: 'proved', offer: 'ready', yours: 'accepting' } as const;
      for (const step of ['prove', 'offer', 'yours', 'end'] as const) {
        expect(await this.next()).toBe(step);
        if (step === last || step === 'end') return;
        this.say(answers[step]);
      }
    },
  };
}

/** A path of no process, which counts. */
function countedPath(clock: SteeredClock) {
  const path = {
    clock: systemClock,
    epoch: 0,
    isPaused: false,
    pause: () => void (path.isPaused = true),
    resume: () => void (path.isPaused = false),
    proofName: () => 'a file',
    takeProof: () => true,
    offer: async () => ({
      path: 'a place',
      give: async () => undefined,
      close: async () => undefined,
    }),
  };
  const ended = new AbortController();
  const rules = { to: () => true, refuse: undefined };
  return { path, clock, handOver: new HandOver(path, rules, ended.signal) };
}

describe('a hand-over', () => {
  it.each(['prove', 'offer', 'yours'])(
    'a successor that stops after %s holds up nobody',
    async (step) => {
      using clock = new SteeredClock();
      const { path, handOver } = countedPath(clock);
      await successorOf(handOver, 1).upTo(step);
      expect(path.isPaused).toBe(step === 'yours');
      const next = successorOf(handOver, 2);
      await next.upTo('offer');
      next.say('ready');
      const yours = next.next();
      if (step === 'yours') clock.advance(250);
      expect(await yours).toBe('yours');
      next.say('accepting');
      expect(await next.next()).toBe('end');
      expect((await handOver.taken).pid).toBe(2);
      expect(path.isPaused).toBe(true);
    },
  );

  it('accepts connections again after a quarter of a second, and a late successor has the path', async () => {
    using clock = new SteeredClock();
    const { path, handOver } = countedPath(clock);
    const late = successorOf(handOver, 1);
    await late.upTo('yours');
    clock.advance(200);
    await turns(3);
    expect(path.isPaused).toBe(true);
    clock.advance(100);
    await until(() => !path.isPaused);
    late.say('accepting');
    expect(await late.next()).toBe('end');
    expect((await handOver.taken).pid).toBe(1);
    expect(path.isPaused).toBe(true);
  });

  it('holds off a process that does not finish, for longer each time, and no other', async () => {
    using clock = new SteeredClock();
    const { path, handOver } = countedPath(clock);
    for (const waitMs of [500, 1_000, 2_000]) {
      const lost = successorOf(handOver, 1);
      await lost.upTo('yours');
      const end = expect(lost.next()).rejects.toMatchObject({ status: 'unavailable' });
      clock.advance(10_000); // its time is over
      await end;
      expect(path.isPaused).toBe(false);
      const { message } = await successorOf(handOver, 1)
        .next()
        .catch((error) => error);
      const leftMs = Number(/may try again in (\d+) ms/.exec(message)?.[1]);
      expect(leftMs).toBeGreaterThan(waitMs / 2);
      expect(leftMs).toBeLessThanOrEqual(waitMs);
      clock.advance(waitMs);
    }
    await successorOf(handOver, 2).upTo('end');
    expect((await handOver.taken).pid).toBe(2);
  });
});
