// The steps of a hand-over, with successors that stop at each of them.
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { SidecallError } from '../../src/base/errors.ts';
import { HandOver } from '../../src/rendezvous/hand-over.ts';
import type { SuccessorStep } from '../../src/rendezvous/hand-over-service.ts';
import { turns, until } from '../support/contract.ts';
import { loopbackPeer } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

/** A successor of another process, step by step. */
function successorOf(handOver: HandOver, pid: number) {
  const said = new Readable({ objectMode: true, read: () => undefined });
  const peer = { ...loopbackPeer, pid };
  const left = new AbortController();
  const { signal } = left;
  const steps = handOver.serve(said, { peer, signal, metadata: {} });
  return {
    say: (step: SuccessorStep) => void said.push(step),
    leave: () => left.abort(new SidecallError('ERR_SIDECALL_PEER_GONE')),
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
    isFull: false,
    pause: () => {
      if (path.isFull) throw Object.assign(new Error('EMFILE'), { code: 'EMFILE', errno: -24 });
      path.isPaused = true;
    },
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
      if (step === 'yours') await clock.pass(250);
      if (step === 'yours') await clock.pass(250); // connections are accepted for as long
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

  it('has room for a successor while thousands of processes prove nothing', async () => {
    using clock = new SteeredClock();
    const { handOver } = countedPath(clock);
    for (let pid = 100; pid < 2_100; pid += 1) await successorOf(handOver, pid).upTo('prove');
    await successorOf(handOver, 1).upTo('end');
    expect((await handOver.taken).pid).toBe(1);
  });

  it('has room for a successor while others with the socket prepare themselves, up to sixteen', async () => {
    using clock = new SteeredClock();
    const { handOver } = countedPath(clock);
    const preparing = Array.from({ length: 16 }, (_, at) => successorOf(handOver, 100 + at));
    for (const each of preparing) {
      await each.upTo('offer');
      void each.next().catch(() => undefined); // it waits for 'ready'
    }
    const one = successorOf(handOver, 1);
    await one.upTo('offer');
    await expect(one.next()).rejects.toMatchObject({ status: 'unavailable' });
    preparing[0]?.leave();
    await turns(3);
    await successorOf(handOver, 2).upTo('end');
  });

  it('is begun once by a process at a time, and again once that has ended', async () => {
    using clock = new SteeredClock();
    const { handOver } = countedPath(clock);
    const first = successorOf(handOver, 1);
    await first.upTo('offer');
    await expect(successorOf(handOver, 1).next()).rejects.toMatchObject({
      status: 'unavailable',
      message: expect.stringContaining('in progress'),
    });
    const end = expect(first.next()).rejects.toMatchObject({ status: 'unavailable' });
    first.leave();
    await end;
    await successorOf(handOver, 1).upTo('end');
  });

  it('holds off a process that proves nothing in time', async () => {
    using clock = new SteeredClock();
    const { handOver } = countedPath(clock);
    const silent = successorOf(handOver, 1);
    await silent.upTo('prove');
    const end = expect(silent.next()).rejects.toMatchObject({ status: 'unavailable' });
    clock.advance(10_000);
    await end;
    await expect(successorOf(handOver, 1).next()).rejects.toMatchObject({
      message: expect.stringContaining('may try again'),
    });
  });

  it('accepts connections for as long between two pauses, however many do not finish', async () => {
    using clock = new SteeredClock();
    const { path, handOver } = countedPath(clock);
    const waiting = Array.from({ length: 8 }, (_, at) => successorOf(handOver, 100 + at));
    for (const each of waiting) {
      await each.upTo('offer');
      each.say('ready');
      void each.next().catch(() => undefined);
    }
    const seen: boolean[] = [];
    for (let step = 0; step < 32; step += 1) {
      await turns(3);
      seen.push(path.isPaused);
      await clock.pass(125);
    }
    const paused = seen.filter(Boolean).length;
    expect(paused).toBeGreaterThan(4);
    expect(paused).toBeLessThanOrEqual(seen.length / 2 + 1);
    expect(seen.join()).not.toContain('true,true,true,true');
  });

  it('survives that no descriptor is free at the moment of the pause', async () => {
    using clock = new SteeredClock();
    const { path, handOver } = countedPath(clock);
    const first = successorOf(handOver, 1);
    await first.upTo('offer');
    path.isFull = true;
    first.say('ready');
    await expect(first.next()).rejects.toMatchObject({ status: 'unavailable' });
    path.isFull = false;
    const late = successorOf(handOver, 2);
    await late.upTo('yours');
    await clock.pass(250); // accepted again
    path.isFull = true;
    late.say('accepting');
    await expect(late.next()).rejects.toMatchObject({ status: 'unavailable' });
    expect(path.isPaused).toBe(false);
    path.isFull = false;
    await clock.pass(250);
    await successorOf(handOver, 3).upTo('end');
    expect((await handOver.taken).pid).toBe(3);
  });
});
