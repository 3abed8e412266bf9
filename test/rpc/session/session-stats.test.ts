// The counts of a session, by scripted runs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../../src/helper/spawn-helper.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../../src/rendezvous/listen.ts';
import { createSessionPair } from '../../../src/testing/session-pair.ts';
import { Demo, demoHandlers, Flow, flowHandlers, until } from '../../support/contract.ts';
import { waitForState } from '../../support/process-state.ts';
import { programPath } from '../../support/programs.ts';

describe('session.stats()', () => {
  it('counts calls and handlers, ever, and returns to none at work', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Demo, demoHandlers());
    pair.far.serve(Flow, flowHandlers());
    const demo = pair.near.client(Demo);
    const flow = pair.near.client(Flow);
    for (let round = 0; round < 100; round += 1) {
      await demo.add({ a: round, b: 1 });
      for await (const _ of flow.count({ to: 1 }));
    }
    await demo.log('a word');
    await expect(demo.fail('no')).rejects.toThrow();
    await until(() => pair.far.stats().totals.handlers === 202);
    expect(pair.near.stats()).toMatchObject({
      calls: { open: 0, waiting: 0 },
      totals: { calls: 202, handlers: 0 },
    });
    expect(pair.far.stats()).toMatchObject({ handlers: { running: 0 }, totals: { calls: 0 } });
  });

  it('has the bytes of both outboxes on the ring lane', async () => {
    await using listener = await listen({ ringBytes: 131_072 });
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path, ringBytes: 524_288, lane: 'ring' });
    expect(session.stats().capacity).toEqual({ send: 524_288, receive: 131_072 });
  });

  it.each([20_000, 5_120_000, undefined])(
    'has the buffers of the socket as the kernel says, where %s bytes were asked for',
    async (socketBufferBytes) => {
      const options: ListenOptions = { lane: 'socket', socketBufferBytes };
      await using listener = await listen(options);
      listener.serve(Demo, demoHandlers());
      const { path } = listener;
      await using session = await connect({ path, lane: 'socket', socketBufferBytes });
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
      const { capacity } = session.stats();
      expect(capacity).toEqual(await kernelBuffers(socketBufferBytes));
    },
  );

  it('knows no capacity in a test within one process', async () => {
    await using pair = createSessionPair();
    expect(pair.near.stats().capacity).toBeUndefined();
  });

  it('sends one doorbell for a thousand calls that are made in one turn', async () => {
    // The helper does not poll: it sleeps whenever it has nothing to do.
    const options = { ringBytes: 1_048_576, pollBudgetUs: 0, lane: 'ring' } as const;
    const program = [programPath('sleeper.mjs')];
    await using helper = await spawnHelper(process.execPath, program, options);
    const demo = helper.client(Demo);
    const { session } = helper;
    await demo.add({ a: 0, b: 0 });
    await until(() => session.inspect().ring?.received?.sleepsForRecords === true);
    const before = session.stats().doorbells;
    process.kill(helper.pid, 'SIGSTOP'); // it would fall asleep again between two of the calls
    waitForState(helper.pid, 'T');
    const calls = Array.from({ length: 1_000 }, (_, a) => demo.add({ a, b: 1 }));
    const sentInTheTurn = session.stats().doorbells.sent - before.sent;
    process.kill(helper.pid, 'SIGCONT');
    const sums = (await Promise.all(calls)).map(({ sum }) => sum);
    expect(sums).toEqual(Array.from({ length: 1_000 }, (_, a) => a + 1));
    const after = session.stats().doorbells;
    expect(sentInTheTurn).toBe(1);
    expect(after.suppressed - before.suppressed).toBeGreaterThan(100);
    expect(session.stats().totals.calls).toBe(1_001);
  });

  it('each session has a number of its own', async () => {
    await using first = createSessionPair();
    await using second = createSessionPair();
    const ids = [first.near.id, first.far.id, second.near.id, second.far.id];
    expect(new Set(ids).size).toBe(4);
    expect(ids.every((id) => Number.isSafeInteger(id) && id > 0)).toBe(true);
  });
});

/** The buffers of a Unix socket that asked for so many bytes, as `getsockopt` says. */
async function kernelBuffers(bytes: number | undefined): Promise<object> {
  const script = `
import json, socket, sys
near, _ = socket.socketpair()
if len(sys.argv) > 1:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        near.setsockopt(socket.SOL_SOCKET, option, int(sys.argv[1]))
read = lambda option: near.getsockopt(socket.SOL_SOCKET, option)
print(json.dumps({"send": read(socket.SO_SNDBUF), "receive": read(socket.SO_RCVBUF)}))
`;
  const args = ['-c', script, ...(bytes === undefined ? [] : [String(bytes)])];
  const child = spawn('python3', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.on('data', (chunk) => {
    said += chunk;
  });
  await once(child, 'close');
  return JSON.parse(said);
}
