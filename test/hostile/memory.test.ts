// Memory and descriptors with slow operations do not delay our process; attackers are processes of
// their own.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { canary } from '../support/canary.ts';
import { Demo, until } from '../support/contract.ts';
import { type RunningProgram, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const seconds = rounds(5, 1);
const attackers = new URL('attackers/', import.meta.url).pathname;

interface Report {
  readonly longestDelayMs: number;
  readonly descriptors: number;
  readonly maps: number;
  readonly residentMiB: number;
  readonly threads: number;
  readonly sessions: number;
  readonly events: Record<string, number>;
}

async function reportOf(victim: RunningProgram): Promise<Report> {
  victim.tell('report');
  return (await victim.next()) as unknown as Report;
}

/** The victim, an honest session beside the attack, and what both have to say. */
async function attack(act: string, options: object = {}) {
  const victim = startProgram('victim.mjs', [JSON.stringify(options)]);
  await using _ = victim;
  const { path } = (await victim.next()) as { path: string };
  await using honest = await connect({ path });
  await honest.client(Demo).add({ a: 1, b: 1 });
  const quiet = canary(honest);
  const quietFrom = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const quietRate = (await quiet.stop()) / (performance.now() - quietFrom);
  const before = await reportOf(victim);
  const watch = canary(honest);
  const from = performance.now();
  await using attacker = startProgram('', [`${attackers}memory.py`, path, act, `${seconds}`], {
    command: 'python3',
  });
  const { outcomes, ownMs } = (await attacker.next()) as {
    outcomes: Record<string, number>;
    ownMs: number;
  };
  await attacker.exited;
  const during = await reportOf(victim);
  const calls = await watch.stop();
  const rate = calls / (performance.now() - from);
  // Others get in, and shared memory, too, once nothing of the attacker's is left.
  let lane = '';
  await until(async () => {
    await using late = await connect({ path });
    lane = late.lane;
    return (await late.client(Demo).add({ a: 1, b: 1 })).sum === 2 && lane === 'ring';
  });
  let after = await reportOf(victim);
  await until(async () => {
    after = await reportOf(victim);
    return after.descriptors <= before.descriptors && after.maps <= before.maps;
  });
  console.log(
    `${act}: ${JSON.stringify(outcomes)}, the work itself takes ${ownMs.toFixed(0)} ms; longest delay of the loop ${during.longestDelayMs.toFixed(0)} ms, ` +
      `${rate.toFixed(2)} calls/ms beside it, ${quietRate.toFixed(2)} without; resident ${before.residentMiB.toFixed(0)} to ${after.residentMiB.toFixed(0)} MiB`,
  );
  expect(honest.state).toBe('open');
  expect(after.sessions).toBe(1);
  victim.tell('exit');
  expect(await victim.exited).toEqual({ code: 0, signal: null });
  // A loop that stands still serves nobody.
  expect(rate).toBeGreaterThan(quietRate / 10);
  return { outcomes, ownMs, before, during };
}

describe('a peer whose memory takes its time', () => {
  it('holds the lock of its memory: the loop goes on', async () => {
    await attack('hold-the-lock');
  });

  it('does not hold up the end of our process', async () => {
    await using victim = startProgram('victim.mjs', ['{}']);
    const { path } = (await victim.next()) as { path: string };
    const before = (await reportOf(victim)).threads;
    const args = [`${attackers}memory.py`, path, 'hold-the-lock', '600'];
    await using attacker = startProgram('', args, { command: 'python3' });
    let isOver = false;
    void attacker.exited.then(() => {
      isOver = true;
    });
    await until(async () => (await reportOf(victim)).threads > before); // a check is under way, or was
    victim.tell('exit');
    expect(await victim.exited).toEqual({ code: 0, signal: null });
    expect(isOver).toBe(false);
  });

  it('offers the same large memory again and again', async () => {
    const { outcomes } = await attack('offer-again');
    expect(outcomes).toHaveProperty('ring');
  });

  it('has blocks behind its end', async () => {
    const { outcomes } = await attack('blocks-beyond');
    expect(outcomes).not.toHaveProperty('ring');
  });

  it('has blocks behind its end, and leaves it to us to free them', async () => {
    const { ownMs, before, during } = await attack('beyond-and-gone');
    const usualMs = 3 * before.longestDelayMs; // of a machine that does not let it run
    expect(during.longestDelayMs).toBeLessThan(Math.max(ownMs / 2, usualMs));
  });

  it('makes us take memory by a hello alone', async () => {
    await attack('hello-alone', { blockAreaBytes: 256 * 1024 * 1024 });
  });
});

describe('a peer whose descriptors take their time', () => {
  it('sends sockets that linger: others get in, and nothing piles up', async () => {
    const { outcomes, during } = await attack('lingering');
    expect(outcomes).toHaveProperty('sent');
    expect(during.descriptors).toBeLessThan(200);
  });
});
