import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { connectPool } from '../../src/pool/connect-pool.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const dist = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);

describe('worker threads', () => {
  it('have sessions of their own, over an addon loaded once per environment', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    const workers = Array.from(
      { length: 3 },
      () =>
        new Worker(
          `const { parentPort, workerData } = require('node:worker_threads');
           import(${dist}).then(async ({ connect }) => {
             const session = await connect({ path: workerData });
             const calls = Array.from({ length: 200 }, (_, a) => session.call('Demo.add', { a, b: 1 }));
             const sums = await Promise.all(calls);
             await session.close();
             parentPort.postMessage(sums.length);
           });`,
          { eval: true, workerData: listener.path },
        ),
    );
    await Promise.all(
      workers.map(async (worker) => {
        const exited = once(worker, 'exit'); // it may come in the same turn as the message
        const [count] = await once(worker, 'message');
        expect(count).toBe(200);
        await exited;
      }),
    );
  });

  it('can be terminated while they copy the memory of their rings', async () => {
    await using listener = await listen({ ringBytes: 16 * 1024 * 1024 });
    listener.serve(Demo, demoHandlers());
    for (let round = 0; round < rounds(20, 6); round += 1) {
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         import(${dist}).then(async ({ connect }) => {
           const options = { path: workerData, lane: 'ring', ringBytes: 16 * 1024 * 1024 };
           const session = await connect(options);
           parentPort.postMessage('begun');
           for (;;) session.inspect();
         });`,
        { eval: true, workerData: listener.path },
      );
      await once(worker, 'message');
      await new Promise((done) => setTimeout(done, round * 3));
      await worker.terminate();
      await until(() => listener.sessionCount === 0);
    }
  });

  it('can be terminated in mid-call, in mid-hello and while listening: nothing is left', async () => {
    await using listener = await listen({ helloTimeoutMs: 60_000 });
    listener.serve(Demo, demoHandlers());
    for (let round = 0; round < rounds(50, 12); round += 1) {
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         import(${dist}).then(async ({ connect, listen, spawnHelper }) => {
           const own = await listen();
           const session = await connect({ path: workerData, lane: 'ring' });
           void session.call('Demo.hang');
           const stuck = connect({ path: own.path, expect: () => new Promise(() => {}) });
           parentPort.postMessage(own.path);
           for (;;) await session.call('Demo.add', { a: 1, b: 1 });
         });`,
        { eval: true, workerData: listener.path },
      );
      const [path] = await once(worker, 'message');
      await worker.terminate();
      await until(() => listener.sessionCount === 0);
      expect(existsSync(dirname(path))).toBe(false);
    }
  });
});

describe('pools', () => {
  it('have options of their own, in one thread and in a worker', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    const { path } = listener;
    await using small = await connectPool({ path, size: 1, callsPerMember: 1 });
    await using large = await connectPool({ path, size: 3 });
    const worker = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
       import(${dist}).then(async ({ connectPool, service, unary }) => {
         const Demo = service('Demo', { add: unary() });
         const pool = await connectPool({ path: workerData, size: 2, lane: 'socket' });
         const calls = Array.from({ length: 100 }, (_, a) => pool.client(Demo).add({ a, b: 1 }));
         const sums = await Promise.all(calls);
         const { members } = pool.stats();
         parentPort.postMessage({ members: members.length, sums: sums.length });
         parentPort.once('message', () => pool.stop());
       });`,
      { eval: true, workerData: path },
    );
    const exited = once(worker, 'exit');
    expect((await once(worker, 'message'))[0]).toEqual({ members: 2, sums: 100 });
    expect(small.stats().members).toHaveLength(1);
    expect(large.stats().members).toHaveLength(3);
    expect(listener.sessionCount).toBe(6);
    const adds = [small, large].flatMap((pool) =>
      Array.from({ length: 50 }, (_, a) => pool.client(Demo).add({ a, b: 1 })),
    );
    expect(await Promise.all(adds)).toHaveLength(100);
    worker.postMessage('stop');
    await exited;
  });
});

describe('two copies of the package', () => {
  it("work in one process and recognise each other's errors", async () => {
    const first = await import(`${JSON.parse(dist)}?copy=1`);
    const { SidecallError, RpcError } = await import('../../src/base/errors.ts');
    const helper = await first.spawnHelper(process.execPath, [programPath('helper.mjs')]);
    const error = await helper.session.call('No.such').catch((reason: unknown) => reason);
    expect(error instanceof SidecallError).toBe(false);
    expect(SidecallError.is(error) && RpcError.is(error)).toBe(true);
    expect(first.SidecallError.is(new SidecallError('ERR_SIDECALL_CLOSED'))).toBe(true);
    expect(SidecallError.is(new Error('x'))).toBe(false);
    await helper.stop();
  });
});
