// A peer that ends while its forked child holds the socket: the session ends with the peer.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const listening = new URL('attackers/forking_listener.py', import.meta.url).pathname;
const attacker = new URL('attackers/forking.py', import.meta.url).pathname;

describe('a peer whose child holds its socket', () => {
  it.each(['ring', 'socket'])('ends its session over the %s when it dies', async (lane) => {
    await using victim = startProgram('victim.mjs', ['{}']);
    const { path } = (await victim.next()) as { path: string };
    const report = async (): Promise<Record<string, number>> => {
      victim.tell('report');
      return (await victim.next()) as Record<string, number>;
    };
    const before = await report();
    await using peer = startProgram('', [attacker, path, lane], { command: 'python3' });
    const { parent, child } = (await peer.next()) as { parent: number; child: number };
    await until(async () => (await report()).sessions === 1);
    process.kill(parent, 'SIGKILL');
    await until(async () => (await report()).sessions === 0);
    // Its cost has gone: the child holds its own end only.
    await until(async () => ((await report()).descriptors ?? 0) <= (before.descriptors ?? 0) + 2);
    process.kill(child, 'SIGKILL'); // it lived, and held its socket, until now
    victim.tell('exit');
    expect(await victim.exited).toEqual({ code: 0, signal: null });
  });

  it('ends that of a listener that dies, too', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('socket');
    await using peer = startProgram('', [listening, path, 'child-holds'], { command: 'python3' });
    await peer.next();
    const session = await connect({ path, lane: 'socket' });
    const { parent, child } = (await peer.next()) as { parent: number; child: number };
    await session.ping(); // its child answers
    process.kill(parent, 'SIGKILL');
    expect(await session.closed).toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      message: `process ${parent}, which listened, has ended`,
    });
    process.kill(child, 'SIGKILL');
  });

  it('goes on where a child of the listener has accepted, whatever becomes of that', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('socket');
    await using peer = startProgram('', [listening, path, 'child-serves'], { command: 'python3' });
    await peer.next();
    const { parent, child } = (await peer.next()) as { parent: number; child: number };
    await using session = await connect({ path, lane: 'socket' });
    await session.ping();
    process.kill(parent, 'SIGKILL');
    await until(() => peer.child.signalCode !== null);
    await new Promise((done) => setTimeout(done, 1_100)); // the last answer counts for a second
    expect(await session.ping()).toBeGreaterThan(0);
    expect(session.state).toBe('open');
    process.kill(child, 'SIGKILL');
    expect(await session.closed).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });

  it('keeps its session for as long as it lives, whatever its children do', async () => {
    await using victim = startProgram('victim.mjs', ['{}']);
    const { path } = (await victim.next()) as { path: string };
    await using peer = startProgram('', [attacker, path, 'socket'], { command: 'python3' });
    const { child } = (await peer.next()) as { child: number };
    process.kill(child, 'SIGKILL');
    await new Promise((done) => setTimeout(done, 300));
    victim.tell('report');
    expect(await victim.next()).toMatchObject({ sessions: 1 });
    peer.child.stdin?.end();
    await peer.exited;
    victim.tell('exit');
    expect(await victim.exited).toEqual({ code: 0, signal: null });
  });
});
