// Descriptors whose close hangs: their sender is asked for no more, and others are unaffected.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { canary } from '../support/canary.ts';
import { Demo, until } from '../support/contract.ts';
import { startProgram } from '../support/programs.ts';

const attacker = new URL('attackers/closing.py', import.meta.url).pathname;

/** The lane that a new session of this process has, and why. */
async function laneOf(path: string): Promise<{ lane: string; laneReason: string }> {
  await using session = await connect({ path });
  expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  const { lane, laneReason } = session;
  return { lane, laneReason };
}

describe('descriptors whose close hangs', () => {
  it.each([
    // Two threads hang for one sender, and six are left.
    { senders: 1, lane: 'ring' },
    // All eight hang: nobody is asked for memory, and sessions go over the socket.
    { senders: 5, lane: 'socket' },
  ])('of $senders senders leave the $lane lane to others', async ({ senders, lane }) => {
    await using victim = startProgram('victim.mjs', ['{}']);
    const { path } = (await victim.next()) as { path: string };
    await using honest = await connect({ path });
    const watch = canary(honest);
    await using attack = startProgram('', [attacker, path, `${senders}`], { command: 'python3' });
    const outcomes = await attack.next();
    console.log(`${senders} senders: ${JSON.stringify(outcomes)}`);
    expect(outcomes).toHaveProperty('no memory asked for');
    for (let at = 0; at < 20; at += 1) {
      const found = await laneOf(path);
      expect(found.lane).toBe(lane);
      if (lane === 'socket') expect(found.laneReason).not.toBe('');
    }
    await watch.stop();
    expect(honest.state).toBe('open');
    victim.tell('report');
    const { descriptors } = (await victim.next()) as { descriptors: number };
    expect(descriptors).toBeLessThan(100);
    // With the daemon, the closes end; then memory is offered again.
    attack.child.stdin?.end();
    await attack.exited;
    await until(async () => (await laneOf(path)).lane === 'ring');
    await honest.close();
    victim.tell('exit');
    expect(await victim.exited).toEqual({ code: 0, signal: null });
  });
});
