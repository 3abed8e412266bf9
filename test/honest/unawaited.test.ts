// Unawaited rejections do not end the process: every method that returns a promise is called where
// it fails.
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { byteReader, byteWriter } from '../../src/rpc/channels/byte-stream.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { Demo, demoHandlers, Flow, flowHandlers, turns } from '../support/contract.ts';
import { lanes, openLoopback } from '../support/pairs.ts';

const unhandled: unknown[] = [];
const listener = (reason: unknown): void => void unhandled.push(reason);

beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', listener);
});

afterEach(() => {
  process.off('unhandledRejection', listener);
});

/** Calls all that a session can do, and awaits nothing of it. */
function callEverything(session: Session, options?: object): void {
  const demo = session.client(Demo);
  const flow = session.client(Flow);
  void session.call('Demo.add', {}, options);
  void session.notify('Demo.log', 'x', options);
  void session.notify('Demo.log', 1n, options);
  void demo.add({ a: 1, b: 1 }, options);
  void demo.log('x', options);
  const count = flow.count({ to: 5 }, options);
  void count.next();
  void count.next();
  void count.return();
  void flow.sum([1, 2], options);
  const sum = flow.sum(options);
  void sum.send(1);
  void sum.end();
  void sum.end();
  void sum[Symbol.asyncDispose]();
  const shout = flow.shout(options);
  void shout.send('x');
  void shout.end();
  void shout.next();
  shout.cancel();
  void shout.end();
  void shout.send('x');
  void shout[Symbol.asyncDispose]();
  const channel = session.openChannel(json(), { name: 'c', ...options });
  void channel.send('x');
  void channel.send(1n);
  void channel.send('x', { timeoutMs: 1 });
  void channel.send('x', { signal: AbortSignal.abort(new Error('x')) });
  void channel.next();
  void channel.next({ timeoutMs: 1 });
  void channel.next({ signal: AbortSignal.abort(new Error('x')) });
  void channel.end();
  channel.cancel();
  void channel.end();
  void channel.next();
  void channel.send('x');
  void channel.send('x', { timeoutMs: 5 });
  void channel[Symbol.asyncDispose]();
  const duplex = session.openDuplex({ name: 'd', ...options }).on('error', () => undefined);
  void byteReader(duplex).read(5);
  void byteReader(duplex).readByte();
  void byteReader(duplex).readString(5);
  void byteReader(duplex).discard(5);
  void byteReader(duplex).peek(-1);
  const writer = byteWriter(duplex);
  writer.writeString('x');
  void writer.flush({ end: true });
  void session.ping();
  void session.ping({ timeoutMs: -1 });
  void session.liveness({ waitMs: 1 });
  void session.liveness({ waitMs: -1 });
  void session.close({ deadlineMs: -1 });
}

describe.each(lanes)('F8 over the $lane, nothing ends the process', ({ openPair }) => {
  it('where the peer answers, refuses, or dies', async () => {
    const pair = await openPair();
    pair.far.serve(Demo, demoHandlers({ add: () => Promise.reject(new Error('x')) }));
    pair.far.serve(Flow, flowHandlers());
    callEverything(pair.near);
    await turns(10);
    callEverything(pair.near);
    await turns(1);
    pair.cut();
    await turns(10);
    callEverything(pair.near);
    await pair.near.closed;
    callEverything(pair.near);
    await turns(10);
    expect(unhandled).toEqual([]);
  });

  it('where a session is closing or closed, and where options are wrong', async () => {
    const pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    callEverything(pair.near, { timeoutMs: 1 });
    callEverything(pair.near, { timeoutMs: 0 });
    callEverything(pair.near, { signal: AbortSignal.abort(new Error('x')) });
    await turns(5);
    const closing = pair.near.close({ deadlineMs: 50 });
    callEverything(pair.near);
    await closing;
    callEverything(pair.near);
    await pair.far.close();
    const { near } = createSessionPair();
    void near.client(Demo).add({ a: 1, b: 1 }, { timeoutMs: -1 } as never);
    void near
      .client(Flow)
      .count({ to: 1 }, { unknown: 1 } as never)
      .next();
    void near.client(Demo, { interceptors: [() => Promise.reject(new Error('x'))] }).log('x');
    void near
      .client(Flow, { interceptors: [async () => 7] })
      .count({ to: 1 })
      .next();
    await near.close({ deadlineMs: 0 });
    await turns(10);
    expect(unhandled).toEqual([]);
  });
});

it('F8 nothing of helpers, listeners and streams ends the process either', async () => {
  const server = await listen();
  void server.close({ deadlineMs: -1 });
  await server.close();
  const program = 'process.exit(0)';
  await expect(spawnHelper(process.execPath, ['-e', program])).rejects.toThrow();
  const ended = new PassThrough();
  ended.end();
  void byteReader(ended).read(3);
  const pair = openLoopback();
  const accepted = pair.far.channels(bytes, { name: 'a' });
  void accepted.next();
  void accepted.return?.();
  await Promise.all([pair.near.close(), pair.far.close()]);
  await turns(20);
  expect(unhandled).toEqual([]);
});
