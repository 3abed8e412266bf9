// The numbers of a session, by a scripted run whose counts are known, on each lane.
import { describe, expect, it } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../../src/rpc/contract/service.ts';
import type { Session } from '../../../src/rpc/session/session.ts';
import { collect, until } from '../../support/contract.ts';
import { lanes } from '../../support/pairs.ts';
import { SteeredClock } from '../../support/steered-clock.ts';

const Store = service('Store', {
  same: unary({ request: bytes, response: bytes }),
  refuse: unary({ request: bytes, response: bytes }),
  hang: unary({ request: bytes, response: bytes }),
  note: notification({ request: bytes }),
  drip: serverStream({ request: bytes, response: bytes }),
  pour: clientStream({ request: bytes, response: bytes }),
  exchange: bidi({ request: bytes, response: bytes }),
});
const of = (size: number): Uint8Array => new Uint8Array(size);

function serve(session: Session): { notes: number } {
  const seen = { notes: 0 };
  session.serve(Store, {
    same: (request) => request,
    refuse: () => {
      throw new RpcError('not_found', 'on purpose');
    },
    hang: (_, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      ),
    note: () => {
      seen.notes += 1;
    },
    async *drip() {
      for (let at = 0; at < 5; at += 1) yield of(1_000);
    },
    pour: async (messages) => {
      for await (const message of messages) expect(message).toHaveLength(2_000);
      return of(7);
    },
    async *exchange(messages) {
      for await (const message of messages) yield message;
    },
  });
  return seen;
}

function refuse(): never {
  throw new RpcError('aborted', 'not now');
}

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) yield of(10);
}

/** Everything but the times, which a test cannot know. */
function countsOf(session: Session): { called: unknown[]; served: unknown[] } {
  const { called, served } = session.stats().methods;
  const plain = (methods: typeof called): unknown[] =>
    methods.map(({ latencyMs, ...counts }) => {
      const { count, p50, p90, p99, max } = latencyMs;
      expect(count).toBe(counts.succeeded + counts.failed);
      expect([p50, p90, p99, max].every((ms, at, all) => ms >= (all[at - 1] ?? 0))).toBe(true);
      return counts;
    });
  return { called: plain(called), served: plain(served) };
}

describe.each(lanes)("the numbers of a session over the '$lane'", ({ openPair }) => {
  it('are those of a scripted run, on both sides', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const seen = serve(pair.far);
    const store = pair.near.client(Store);
    for (const size of [10, 5_000, 100_000, 300_000]) await store.same(of(size));
    for (let at = 0; at < 2; at += 1) await expect(store.refuse(of(3))).rejects.toThrow('purpose');
    const late = store.hang(of(1), { timeoutMs: 60_000 });
    await until(() => pair.far.stats().handlers.running > 0);
    clock.advance(60_000);
    await expect(late).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    const abort = new AbortController();
    const aborted = store.hang(of(1), { signal: abort.signal });
    await until(() => pair.far.stats().handlers.running > 0);
    abort.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    for (const name of ['Ghost.a', 'Ghost.b', 'Ghost.c'])
      await expect(pair.near.call(name, 1)).rejects.toThrow('not served');
    for (let at = 0; at < 4; at += 1) await store.note(of(20));
    expect(await collect(store.drip(of(2)))).toHaveLength(5);
    const pour = store.pour();
    for (let at = 0; at < 3; at += 1) await pour.send(of(2_000));
    expect(await pour.end()).toHaveLength(7);
    const exchange = store.exchange();
    for (let at = 0; at < 2; at += 1) {
      await exchange.send(of(30));
      await exchange.next();
    }
    await exchange.end();
    await exchange.next();
    const accepted = pair.far.channels(bytes, { name: 'talk' });
    const channel = pair.near.openChannel(bytes, { name: 'talk' });
    await channel.send(of(11));
    const { value: other } = await accepted.next();
    await other?.next();
    await other?.send(of(12));
    await channel.next();
    await Promise.all([channel.end(), other?.end()]);
    await until(() => seen.notes === 4 && pair.far.stats().handlers.running === 0);
    await until(() => pair.near.stats().calls.open === 0);
    await until(() => pair.far.stats().messages.received.messages === 22);

    const method = (
      name: string,
      kind: string,
      [started, failed]: readonly [number, number],
      sent: readonly [number, number],
      received: readonly [number, number],
    ) => ({
      method: name,
      kind,
      started,
      succeeded: started - failed,
      failed,
      sent: { messages: sent[0], bytes: sent[1] },
      received: { messages: received[0], bytes: received[1] },
    });
    const mirrored = [
      method('Store.same', 'unary', [4, 0], [4, 405_010], [4, 405_010]),
      method('Store.refuse', 'unary', [2, 2], [2, 6], [0, 0]),
      method('Store.hang', 'unary', [2, 2], [2, 2], [0, 0]),
      method('Store.note', 'notification', [4, 0], [4, 80], [0, 0]),
      method('Store.drip', 'serverStream', [1, 0], [1, 2], [5, 5_000]),
      method('Store.pour', 'clientStream', [1, 0], [3, 6_000], [1, 7]),
      method('Store.exchange', 'bidi', [1, 0], [2, 60], [2, 60]),
      method('(channels)', 'channel', [1, 0], [1, 11], [1, 12]),
    ];
    const ghosts = ['Ghost.a', 'Ghost.b', 'Ghost.c'].map((name) =>
      method(name, 'unary', [1, 1], [1, 1], [0, 0]),
    );
    const near = countsOf(pair.near);
    expect(near.called).toHaveLength(mirrored.length + ghosts.length);
    expect(near.called).toEqual(expect.arrayContaining([...mirrored, ...ghosts]));
    expect(near.served).toEqual([]);
    const far = countsOf(pair.far);
    expect(far.called).toEqual([]);
    expect(far.served).toHaveLength(mirrored.length + 1);
    expect(far.served).toEqual(
      expect.arrayContaining([
        ...mirrored.map(({ sent, received, ...rest }) => ({
          ...rest,
          sent: received,
          received: sent,
        })),
        method('(not served)', 'unary', [3, 3], [0, 0], [3, 3]),
      ]),
    );
    const [ours, theirs] = [pair.near.stats(), pair.far.stats()];
    expect(ours.ends).toEqual({
      called: {
        not_found: 2,
        ERR_SIDECALL_DEADLINE_EXCEEDED: 1,
        'by-caller': 1,
        unimplemented: 3,
      },
      served: {},
    });
    expect(theirs.ends.served).toMatchObject({ not_found: 2, unimplemented: 3 });
    expect(Object.values(theirs.ends.served).reduce((a, b) => a + b, 0)).toBe(7);
    const sent = { messages: 22, bytes: 405_010 + 6 + 2 + 80 + 2 + 6_000 + 60 + 11 + 3 };
    const back = { messages: 13, bytes: 405_010 + 5_000 + 7 + 60 + 12 };
    expect(ours.messages).toEqual({ sent, received: back, consumed: back });
    expect(theirs.messages.received).toEqual(sent);
    expect(theirs.messages.sent).toEqual(back);
    // Requests of methods that are not served are not given to the application.
    expect(theirs.messages.consumed).toEqual({ messages: 19, bytes: sent.bytes - 3 });
    expect([ours.untakenBytes, theirs.untakenBytes]).toEqual([0, 0]);
    await until(() => pair.near.stats().frames.received === pair.far.stats().frames.sent);
    await until(() => pair.far.stats().frames.received === pair.near.stats().frames.sent);
  });

  it('count a method once it is served, with what came before', async () => {
    await using pair = await openPair();
    const early = pair.near.client(Store).same(of(50));
    await until(() => pair.far.stats().waits.serve === 1);
    serve(pair.far);
    await early;
    const [same] = countsOf(pair.far).served;
    expect(same).toMatchObject({ method: 'Store.same', started: 1, succeeded: 1 });
    expect(same).toMatchObject({ received: { messages: 1, bytes: 50 } });
    const { serve: waited } = pair.far.stats().waited;
    expect(waited.count).toBe(1);
    expect(waited.ms).toBeGreaterThan(0);
  });

  it('tell the ends by the caller from the status aborted', async () => {
    await using pair = await openPair();
    pair.far.serve(Store, {
      ...{ refuse: refuse, hang: refuse, note: () => undefined, drip: endless, exchange: endless },
      ...{ same: refuse, pour: () => of(0) },
    });
    const store = pair.near.client(Store);
    await expect(store.same(of(1))).rejects.toThrow('not now');
    const reason = new Error('enough');
    const aborted = store.drip(of(1), { signal: AbortSignal.abort(reason) });
    await expect(collect(aborted)).rejects.toBe(reason);
    const cancelled = store.drip(of(1));
    await cancelled.next();
    cancelled.cancel(reason);
    await expect(collect(cancelled)).rejects.toBe(reason);
    const bare = store.drip(of(1));
    await bare.next();
    bare.cancel();
    expect(pair.near.stats().ends.called).toEqual({
      aborted: 1,
      'by-caller': 2,
      ERR_SIDECALL_CANCELLED: 1,
    });
    const { served } = pair.far.stats().ends;
    expect(served.aborted).toBe(1);
    expect(served).not.toHaveProperty('by-caller');
  });

  it('name each wait with its time', async () => {
    await using pair = await openPair();
    const accepted = pair.far.channels(bytes, { name: 'talk' });
    const channel = pair.near.openChannel(bytes, { name: 'talk', windowBytes: 1 });
    const { value: other } = await accepted.next();
    await other?.send(of(10));
    const waiting = other?.send(of(10));
    await until(() => pair.far.stats().waits['stream-window'] === 1);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const { waited } = pair.far.stats();
    expect(waited['stream-window'].count).toBe(1);
    expect(waited['stream-window'].ms).toBeGreaterThan(20);
    await channel.next();
    await waiting;
    const ended = pair.far.stats().waited['stream-window'].ms;
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(pair.far.stats().waited['stream-window']).toEqual({ count: 1, ms: ended });
  });

  it('name one reason for a call that waits and for the messages of its stream', async () => {
    const far = { streamWindowBytes: 16_384, receiveMaxBytes: 65_536, sessionWindowBytes: 163_840 };
    await using pair = await openPair({ far });
    serve(pair.far);
    const store = pair.near.client(Store);
    const stop = new AbortController();
    const { signal } = stop;
    const hanging = [1, 2, 3].map(() => store.hang(of(60_000), { signal })); // more than its window
    const pour = store.pour({ signal });
    const sent = pour.send(of(2_000));
    const { waits } = pair.near.stats();
    expect(waits).toMatchObject({ 'request-window': 2, slot: 0 });
    const waiting = pair.near.inspect().streams.filter(({ state }) => state === 'waiting');
    expect(waiting).toMatchObject([
      { method: 'Store.pour', waitsFor: 'request-window', sending: { waitsFor: 'request-window' } },
    ]);
    stop.abort(new Error('enough'));
    const ends = await Promise.allSettled([...hanging, sent, pour.end()]);
    expect(ends.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
    expect(pair.near.stats().waits).toMatchObject({ 'request-window': 0, slot: 0 });
  });
});
