import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { server } from '../../src/open/server.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { isRunning } from '../support/helper.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { Work, workerProgram } from '../support/work.ts';

const Ask = service('Ask', { sum: unary<{ a: number; b: number }, { sum: number }>() });
const closed = { code: 'ERR_SIDECALL_CLOSED' };

describe('server()', () => {
  it('is served at two paths and to a helper at once, and one close ends all', async () => {
    using scratch = scratchDirectory();
    const app = server({ services: [implement(Demo, demoHandlers())] });
    const paths = [scratch.file('a'), scratch.file('b')];
    for (const path of paths) await listen({ path, services: app });
    const helper = await spawnHelper(process.execPath, [workerProgram, 'w'], { services: app });
    const asking = [programPath('asking-helper.mjs')];
    const back = await spawnHelper(process.execPath, asking, { services: app });
    expect(app.openCount).toBe(4);
    const sessions = await Promise.all(paths.map((path) => connect({ path })));
    for (const session of sessions) {
      expect(await session.client(Demo).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    }
    expect(await helper.client(Work).take({ id: 1 })).toMatchObject({ id: 1 });
    expect(await back.client(Ask).sum({ a: 3, b: 4 })).toEqual({ sum: 7 });
    await app.close();
    expect(app.openCount).toBe(0);
    for (const path of paths) expect(existsSync(path)).toBe(false);
    for (const session of sessions) expect(await session.closed).toBeUndefined();
    for (const { pid } of [helper, back]) expect(isRunning(pid)).toBe(false);
    await app.close(); // the same end
  });

  it('calls under way may use helpers of the server until they are answered', async () => {
    const app = server();
    const helper = await spawnHelper(process.execPath, [workerProgram, 'w'], { services: app });
    let go: () => void = () => undefined;
    const closing = new Promise<void>((resolve) => {
      go = resolve;
    });
    let started = 0;
    app.serve(Ask, {
      sum: async ({ a, b }) => {
        started += 1;
        await closing;
        for (const id of [1, 2, 3]) await helper.client(Work).take({ id });
        return { sum: a + b };
      },
    });
    const { path } = await listen({ services: app });
    const session = await connect({ path });
    const answer = session.client(Ask).sum({ a: 3, b: 4 });
    await until(() => started === 1);
    const closed = app.close();
    go();
    expect(await answer).toEqual({ sum: 7 });
    await closed;
    expect(isRunning(helper.pid)).toBe(false);
  });

  it('tells the watchers of its health before its sessions drain', async () => {
    const app = server({ services: [implement(Demo, demoHandlers())] });
    const { path } = await listen({ services: app });
    const session = await connect({ path });
    const statuses: string[] = [];
    const watch = session.client(HealthService).watch();
    expect((await watch.next()).value).toEqual({ status: 'serving' });
    const rest = (async () => {
      for await (const { status } of watch) statuses.push(status);
    })();
    await app.close();
    await rest.catch(() => undefined);
    expect(statuses).toEqual(['not_serving']);
  });

  it('a door that closes by itself is forgotten, and its end is not that of the others', async () => {
    const app = server({ services: [implement(Demo, demoHandlers())] });
    const first = await listen({ services: app });
    const second = await listen({ services: app });
    await first.close();
    await until(() => app.openCount === 1);
    expect(app.health.get('')).toBe('serving');
    await using session = await connect({ path: second.path });
    expect(await session.client(Demo).add({ a: 2, b: 2 })).toEqual({ sum: 4 });
    await app.close();
  });

  it('gives its limits to sessions that set none, and its interceptors to every service', async () => {
    const seen: string[] = [];
    const app = server({
      limits: { receiveMaxBytes: 1_024 },
      interceptors: [
        (call, next) => {
          seen.push(call.method);
          return next(call);
        },
      ],
    });
    app.serve(Demo, demoHandlers());
    await using pair = createSessionPair({ far: { services: app } });
    const client = pair.near.client(Demo);
    await client.add({ a: 1, b: 1 });
    expect(seen).toEqual(['Demo.add']);
    await expect(client.echo(Buffer.alloc(2_000))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
    });
    const far = { services: app, limits: { receiveMaxBytes: 4_096 } };
    await using wider = createSessionPair({ far });
    expect(await wider.near.client(Demo).echo(Buffer.alloc(2_000))).toHaveLength(2_000);
  });

  it('a session of a connection serves it, and is closed with it', async () => {
    await using listener = await listen();
    const app = server({ services: [implement(Demo, demoHandlers())] });
    const connection = await connect({ path: listener.path, services: app, reconnect: true });
    for await (const session of listener) {
      expect(await session.client(Demo).add({ a: 1, b: 4 })).toEqual({ sum: 5 });
      break;
    }
    await app.close();
    expect(connection.state.state).toBe('closed');
  });

  it('opens nothing once it was closed, and closes what is opened meanwhile', async () => {
    using scratch = scratchDirectory();
    const app = server();
    const path = scratch.file('late');
    const late = listen({ path, services: app });
    const closing = app.close();
    await expect(late).rejects.toMatchObject(closed);
    await closing;
    expect(existsSync(path)).toBe(false);
    await expect(listen({ services: app })).rejects.toMatchObject(closed);
    expect(() => createSessionPair({ far: { services: app } })).toThrow('closed');
    app[Symbol.asyncDispose]();
  });

  it('refuses misuse at once', async () => {
    expect(() => server({ service: [] } as never)).toThrow(TypeError);
    expect(() => server({ limits: { receiveMaxBytes: 1 } })).toThrow(RangeError);
    expect(() => server({ interceptors: [1] as never })).toThrow(TypeError);
    const app = server();
    app.serve(Demo, demoHandlers());
    expect(() => app.serve(Demo, demoHandlers())).toThrow('served already');
    await expect(app.close({ deadlineMs: -1 })).rejects.toThrow(RangeError);
    await expect(listen({ services: {} as never })).rejects.toThrow('or a server()');
  });
});

describe('helper.replace()', () => {
  it('takes a helper that was given services', async () => {
    const services = [implement(Demo, demoHandlers())];
    await using helper = await spawnHelper(process.execPath, [workerProgram, 'one'], { services });
    await helper.replace({ args: [workerProgram, 'two'] });
    expect(await helper.client(Work).take({ id: 1 })).toMatchObject({ name: 'two' });
  });
});
