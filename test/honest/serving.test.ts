// Calls that arrive before a service is served: they wait.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import {
  collect,
  Demo,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const Long = service('Long', { count: unary<{ words: string }, number>() });
const Late = service('Late', { hello: unary<void, string>() });

describe.each(lanes)('calls before serve() over the $lane', ({ openPair }) => {
  it('F2 of every kind are answered once it is served, in their order', async () => {
    await using pair = await openPair();
    const demo = pair.near.client(Demo);
    const flow = pair.near.client(Flow);
    const lines: string[] = [];
    const calls = [
      demo.add({ a: 1, b: 2 }),
      demo.echo(new Uint8Array(300_000).fill(7)).then((bytes) => bytes.byteLength),
      demo.same({ bytes: new Uint8Array([1, 2]) }),
      collect(flow.count({ to: 3 })),
      flow.sum([1, 2, 3]),
      collect(flow.shout(['a', 'b'])),
      flow.upload([new Uint8Array(100_000), new Uint8Array(5)]),
      pair.near.client(Late).hello(),
    ];
    for (let at = 0; at < 10; at += 1) await demo.log(String(at));
    await until(() => pair.far.stats().waits.serve === 18);
    expect(await pair.near.client(HealthService).check()).toEqual({ status: 'serving' });
    pair.far.serve(Demo, demoHandlers({ log: (line) => void lines.push(line) }));
    pair.far.serve(Flow, flowHandlers());
    pair.far.serve(Late, { hello: () => 'hi' });
    expect(await Promise.all(calls)).toEqual([
      { sum: 3 },
      300_000,
      { bytes: new Uint8Array([1, 2]) },
      [1, 2, 3],
      { sum: 6 },
      ['A', 'B'],
      { bytes: 100_005 },
      'hi',
    ]);
    await until(() => lines.length === 10);
    expect(lines.join('')).toBe('0123456789');
    expect(pair.far.stats().waits.serve).toBe(0);
    await expect(pair.near.call('No.such')).rejects.toMatchObject({ status: 'unimplemented' });
  });

  it('F2 are decoded as their method says, though it was served while they arrived', async () => {
    await using pair = await openPair();
    let pieces = 0;
    const words = 'x'.repeat(3_000_000);
    const call = pair.near.client(Long).count({ words });
    // Some pieces have arrived, and others have not.
    while (pieces === 0) {
      await turns(1);
      pieces = pair.far.stats().windows.requests.held;
    }
    pair.far.serve(Long, { count: (request) => request.words.length });
    expect(await call).toBe(words.length);
  });

  it('end with their deadlines, their signals, and with the session', async () => {
    const pair = await openPair();
    const late = pair.near.call('No.such', 1, { timeoutMs: 20 });
    await expect(late).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    const stop = new AbortController();
    const aborted = pair.near.call('No.such', 1, { signal: stop.signal });
    await turns(3);
    stop.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    await until(() => pair.near.stats().waits['given-up'] === 0);
    const left = pair.near.call('No.such', 1);
    await until(() => pair.far.stats().waits.serve === 1);
    await pair.far.close();
    await expect(left).rejects.toMatchObject({
      code: 'ERR_SIDECALL_GOING_AWAY',
      delivered: 'no',
      retryable: true,
    });
    await pair.near.close();
  });

  it('a service that is served no more is refused', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    pair.far.unserve(Demo);
    const refused = pair.near.client(Demo).add({ a: 1, b: 1 });
    await expect(refused).rejects.toMatchObject({ status: 'unimplemented' });
    expect(() => pair.far.unserve(Demo)).toThrow(TypeError);
    pair.far.serve(Demo, demoHandlers());
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });
});

describe('sessions of a listener', () => {
  it('that are iterated one after the other lose no call', async () => {
    await using listener = await listen();
    const sessions = await Promise.all([1, 2, 3].map(() => connect({ path: listener.path })));
    const answers = sessions.map((session) => session.client(Late).hello());
    await turns(20);
    let number = 0;
    for await (const session of listener) {
      number += 1;
      const mine = `session ${number}`;
      session.serve(Late, { hello: () => mine });
      await turns(5);
      if (number === 3) break;
    }
    expect((await Promise.all(answers)).sort()).toEqual(['session 1', 'session 2', 'session 3']);
    await Promise.all(sessions.map((session) => session.close()));
  });

  it('wait for what each of them serves beside the listener, until they are taken', async () => {
    await using listener = await listen({ services: [implement(Demo, demoHandlers())] });
    await using session = await connect({ path: listener.path });
    const reader = listener[Symbol.asyncIterator]();
    const own = session.client(Late).hello();
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    const { value: theirs } = await reader.next();
    theirs?.serve(Late, { hello: () => 'own' });
    expect(await own).toBe('own');
    await expect(session.call('No.such')).rejects.toMatchObject({ status: 'unimplemented' });
  });

  it('with services of their own from the start refuse at once what is none of them', async () => {
    await using listener = await listen({ services: [] });
    listener[Symbol.asyncIterator](); // somebody will take them
    await using session = await connect({
      path: listener.path,
      services: [implement(Late, { hello: () => 'from the connecting side' })],
    });
    const { value: theirs } = await listener[Symbol.asyncIterator]().next();
    expect(await theirs?.client(Late).hello()).toBe('from the connecting side');
    await expect(theirs?.call('No.such')).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(session.call('No.such')).rejects.toMatchObject({ status: 'unimplemented' });
  });

  it('misuse of `services` is told at once', async () => {
    for (const services of [{}, [{}], ['x'], [implement(Late, {} as never)]]) {
      await expect(listen({ services: services as never })).rejects.toThrow(TypeError);
    }
    expect(() => implement({} as never, {})).toThrow(TypeError);
    await createSessionPair().close();
  });
});
