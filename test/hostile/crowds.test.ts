// One process that takes all of a resource, and the part that is reserved for others.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { canary } from '../support/canary.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { type RunningProgram, startProgram } from '../support/programs.ts';

const attacker = new URL('attackers/crowd.py', import.meta.url).pathname;

interface Attacked {
  readonly path: string;
  readonly victim: RunningProgram;
  /** The attacker's gains. */
  readonly got: Record<string, number>;
  /** Ends the attacker, and resolves when it has gone. */
  readonly end: () => Promise<void>;
}

interface Stock {
  readonly descriptors: number;
  readonly maps: number;
  readonly sessions: number;
}

async function attacked(
  act: string,
  options: object,
  look: (attack: Attacked) => Promise<void>,
): Promise<void> {
  await using victim = startProgram('victim.mjs', [JSON.stringify(options)]);
  const { path } = (await victim.next()) as { path: string };
  const before = await report(victim);
  await using honest = await connect({ path });
  const watch = canary(honest);
  await using attack = startProgram('', [attacker, path, act], { command: 'python3' });
  const got = (await attack.next()) as Record<string, number>;
  const end = async (): Promise<void> => {
    attack.child.stdin?.end();
    await attack.exited;
  };
  await look({ path, victim, got, end });
  await end();
  expect(await watch.stop()).toBeGreaterThan(0);
  await honest.close();
  // Everything comes back.
  await until(async () => {
    const { descriptors, maps, sessions } = await report(victim);
    return descriptors <= before.descriptors && maps <= before.maps && sessions === 0;
  });
  await leave(victim);
}

async function leave(victim: RunningProgram): Promise<void> {
  victim.tell('exit');
  expect(await victim.exited).toEqual({ code: 0, signal: null });
}

async function report(victim: RunningProgram): Promise<Stock> {
  victim.tell('report');
  return (await victim.next()) as unknown as Stock;
}

/** Comes in twenty times. Milliseconds of the slowest. */
async function comeIn(path: string, expected: { lane: string }): Promise<number> {
  const waits: number[] = [];
  for (let at = 0; at < 20; at += 1) {
    const begun = performance.now();
    await using session = await connect({ path });
    waits.push(performance.now() - begun);
    expect(session.lane).toBe(expected.lane);
    expect(await session.client(Demo).add({ a: at, b: 1 })).toEqual({ sum: at + 1 });
  }
  return Math.max(...waits);
}

describe('one process that wants all there is', () => {
  it('leaves places to others while it drips hellos into all that it can get', async () => {
    await attacked('drip', { helloTimeoutMs: 60_000 }, async ({ path, got }) => {
      expect(got.dripping).toBeGreaterThan(900);
      console.log(
        `drip: 20 came in, ${(await comeIn(path, { lane: 'ring' })).toFixed(1)} ms at most`,
      );
    });
  });

  it('leaves sessions to other processes of its user', async () => {
    await attacked('sessions', { helloTimeoutMs: 60_000 }, async ({ path, got }) => {
      expect(got).toEqual({ sessions: 1024 });
      console.log(
        `sessions: 20 came in, ${(await comeIn(path, { lane: 'ring' })).toFixed(1)} ms at most`,
      );
    });
  });

  it('leaves ring memory to other processes of its user', async () => {
    // 16 MiB and a ring each: 60 are a gibibyte, one of them of the honest one.
    await attacked(
      'rings',
      { ringBytes: 2 ** 20, blockAreaBytes: 16 * 2 ** 20, helloTimeoutMs: 60_000 },
      async ({ path, got }) => {
        expect(got).toEqual({ rings: 59 });
        await comeIn(path, { lane: 'ring' });
      },
    );
  });
});

describe('one busy honest process', () => {
  it('keeps 1,024 sessions, and others come in', async () => {
    await using victim = startProgram('victim.mjs', ['{"helloTimeoutMs":60000}']);
    const { path } = (await victim.next()) as { path: string };
    await using _same = await connect({ path });
    const sessions: Session[] = [];
    for (let at = 1; at < 1024; at += 1) sessions.push(await connect({ path }));
    for (const session of sessions) {
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    }
    await using other = startProgram('', [attacker, path, 'sessions'], { command: 'python3' });
    expect(await other.next()).toEqual({ sessions: 256 });
    await Promise.all(sessions.map((session) => session.close()));
    await leave(victim);
  });

  it('comes and goes as fast as it can, with more memory in all than rings may take', async () => {
    await using listener = await listen({ blockAreaBytes: 64 * 2 ** 20 });
    listener.serve(Demo, demoHandlers());
    for (let at = 0; at < 60; at += 1) {
      await using session = await connect({ path: listener.path });
      expect(session.lane).toBe('ring');
    }
  });

  it('may have one session that takes nearly all ring memory, again and again', async () => {
    const options = { ringMemoryMaxBytes: 64 * 2 ** 20, blockAreaBytes: 60 * 2 ** 20 };
    await using victim = startProgram('victim.mjs', [JSON.stringify(options)]);
    const { path } = (await victim.next()) as { path: string };
    for (let at = 0; at < 5; at += 1) {
      await using session = await connect({ path });
      expect([session.lane, session.laneReason]).toEqual(['ring', expect.any(String)]);
    }
    await leave(victim);
  });
});
