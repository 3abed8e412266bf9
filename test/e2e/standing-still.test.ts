// Peers that stand still, as real processes: the session with each ends in time, others go on.
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { notification, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { programPath, startProgram } from '../support/programs.ts';

const Feed = service('Feed', { feed: serverStream<void, Uint8Array>({ response: bytes }) });
const Echo = service('Echo', { echo: unary<number, number>() });
const Busy = service('Busy', { block: notification<number>(), ping: unary<void, string>() });
const attacker = new URL('../hostile/attackers/half_frame.py', import.meta.url).pathname;
const stallTimeoutMs = 10_000;
const messagesOf = 4_000;

/** A listener that watches its peers and feeds each that asks. */
async function watching() {
  const listener = await listen({ stallTimeoutMs });
  listener.serve(Feed, {
    async *feed() {
      for (let count = 0; count < messagesOf; count += 1) yield new Uint8Array(1_000);
    },
  });
  const sessions = listener[Symbol.asyncIterator]();
  return {
    listener,
    next: async (): Promise<Session> => (await sessions.next()).value as Session,
    [Symbol.asyncDispose]: () => listener.close({ deadlineMs: 0 }),
  };
}

/** Calls again and again, until the returned function is called; it resolves to their number. */
function calling(session: Session): () => Promise<number> {
  let isOver = false;
  const made = (async () => {
    let calls = 0;
    for (; !isOver; calls += 1) {
      expect(await session.client(Echo).echo(calls)).toBe(calls);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return calls;
  })();
  return () => {
    isOver = true;
    return made;
  };
}

describe('a listener with stallTimeoutMs', () => {
  it.each(['half', 'drip'])('ends a session whose peer sends a frame by %s', async (mode) => {
    await using side = await watching();
    await using honest = startProgram('reader.mjs', [side.listener.path, 'socket']);
    await honest.next();
    const other = await side.next();
    await using peer = startProgram('', [attacker, side.listener.path, mode], {
      command: 'python3',
    });
    const attacked = await side.next();
    const stop = calling(other);
    expect(await peer.next()).toEqual({ state: 'answered' });
    expect(await attacked.closed).toMatchObject({
      code: 'ERR_SIDECALL_PEER_UNRESPONSIVE',
      message: expect.stringContaining('has not finished a frame'),
    });
    expect(await peer.next()).toEqual({ state: 'ended' });
    expect(await stop()).toBeGreaterThan(0);
    expect(other.state).toBe('open');
  });

  it.each(['ring', 'socket'])('ends that of a stopped process over the %s', async (lane) => {
    await using side = await watching();
    await using honest = startProgram('reader.mjs', [side.listener.path, lane]);
    await honest.next();
    const other = await side.next();
    await using stopped = startProgram('reader.mjs', [side.listener.path, lane]);
    const { pid } = (await stopped.next()) as { pid: number };
    const session = await side.next();
    process.kill(pid, 'SIGSTOP');
    const stop = calling(other);
    const call = session
      .client(Echo)
      .echo(1)
      .catch((error: unknown) => error);
    expect(await session.closed).toMatchObject({ code: 'ERR_SIDECALL_PEER_UNRESPONSIVE' });
    expect(await call).toMatchObject({ delivered: 'unknown' });
    expect(await stop()).toBeGreaterThan(0);
    expect(other.state).toBe('open');
    process.kill(pid, 'SIGCONT');
    await stopped.exited; // it is told
  });

  it.each(['ring', 'socket'])('feeds a reader to its end over the %s', async (lane) => {
    await using side = await watching();
    await using reader = startProgram('reader.mjs', [side.listener.path, lane]);
    await reader.next();
    const session = await side.next();
    expect(await reader.next()).toEqual({ messages: messagesOf });
    expect(session.state).toBe('open');
  });

  it('goes on where its own loop computes for twice the time', async () => {
    await using side = await watching();
    await using near = await connect({ path: side.listener.path, stallTimeoutMs });
    const session = await side.next();
    await using reader = startProgram('reader.mjs', [side.listener.path, 'auto']);
    await reader.next();
    const other = await side.next();
    const call = other.client(Echo).echo(1);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * stallTimeoutMs);
    expect(await call).toBe(1);
    expect([near.state, session.state, other.state]).toEqual(['open', 'open', 'open']);
  });
});

it('a helper that computes for half of stallTimeoutMs, again and again, goes on', async () => {
  const program = [programPath('busy.mjs')];
  await using helper = await spawnHelper(process.execPath, program, { stallTimeoutMs });
  const busy = helper.client(Busy);
  for (let round = 0; round < 3; round += 1) {
    await busy.block(0.5 * stallTimeoutMs);
    expect(await busy.ping()).toBe('pong');
  }
});

it('a helper that hangs is ended and started again', async () => {
  const program = [programPath('busy.mjs')];
  const options = { stallTimeoutMs, restart: true };
  await using helper = await spawnHelper(process.execPath, program, options);
  const busy = helper.client(Busy);
  const { pid } = helper;
  await busy.block(120_000);
  await expect(busy.ping()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_UNRESPONSIVE' });
  expect(await busy.ping()).toBe('pong');
  expect(helper.pid).not.toBe(pid);
});
