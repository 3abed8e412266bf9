// Calls and sessions on diagnostics channels, on each lane.
import { AsyncLocalStorage } from 'node:async_hooks';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { RpcError } from '../../../src/base/errors.ts';
import type { TracedSession } from '../../../src/open/session-trace.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import { listen } from '../../../src/rendezvous/listen.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { bidi, notification, service, unary } from '../../../src/rpc/contract/service.ts';
import { type TracedCall, traceCall, traceHandler } from '../../../src/rpc/counting/call-trace.ts';
import type { Session } from '../../../src/rpc/session/session.ts';
import { collect, until } from '../../support/contract.ts';
import { lanes } from '../../support/pairs.ts';

const Store = service('Store', {
  same: unary({ request: bytes, response: bytes }),
  later: unary({ request: bytes, response: bytes }),
  refuse: unary({ request: bytes, response: bytes }),
  hang: unary({ request: bytes, response: bytes }),
  note: notification({ request: bytes }),
  exchange: bidi({ request: bytes, response: bytes }),
});
const of = (size: number): Uint8Array => new Uint8Array(size);
const refusal = new RpcError('not_found', 'on purpose');

function serve(session: Session): void {
  session.serve(Store, {
    same: (request) => request,
    later: async (request) => {
      await Promise.resolve();
      return request;
    },
    refuse: () => {
      throw refusal;
    },
    hang: () => new Promise(() => undefined),
    note: () => undefined,
    async *exchange(messages) {
      for await (const message of messages) yield message;
    },
  });
}

const events = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const;
const undo: (() => void)[] = [];
afterEach(() => {
  for (const each of undo.splice(0)) each();
});

/** The messages of a channel from now on: an event, and the call. */
function heard(name: 'call' | 'handler'): { said: string[]; calls: TracedCall[] } {
  const said: string[] = [];
  const calls: TracedCall[] = [];
  const traced = tracingChannel<unknown, TracedCall>(`sidecall:${name}`);
  const subscribers = Object.fromEntries(
    events.map((event) => [
      event,
      (call: TracedCall) => {
        said.push(`${call.method} ${event}`);
        if (event === 'asyncEnd') calls.push(call);
      },
    ]),
  ) as unknown as Parameters<typeof traced.subscribe>[0];
  traced.subscribe(subscribers);
  undo.push(() => traced.unsubscribe(subscribers));
  return { said, calls };
}

describe.each(lanes)('calls on the lane $lane', ({ openPair }) => {
  it('are described from their start to their end, with their bytes', async () => {
    await using pair = await openPair();
    serve(pair.far);
    const store = pair.near.client(Store);
    const called = heard('call');
    const handled = heard('handler');
    await store.same(of(100));
    await store.note(of(3));
    await expect(store.refuse(of(10))).rejects.toMatchObject({ status: 'not_found' });
    expect((await collect(store.exchange([of(1), of(2)]))).map(({ length }) => length)).toEqual([
      1, 2,
    ]);
    await until(() => handled.calls.length === 4);
    const plain = ({ method, kind, lane, sentBytes, receivedBytes, delivered }: TracedCall) => [
      method,
      kind,
      lane,
      sentBytes,
      receivedBytes,
      delivered,
    ];
    const { lane } = pair.near;
    expect(called.calls.map(plain)).toEqual([
      ['Store.same', 'unary', lane, 100, 100, 'yes'],
      ['Store.note', 'notification', lane, 3, 0, 'unknown'],
      ['Store.refuse', 'unary', lane, 10, 0, 'yes'],
      ['Store.exchange', 'bidi', lane, 3, 3, 'yes'],
    ]);
    expect(handled.calls.map(plain).sort()).toEqual([
      ['Store.exchange', 'bidi', lane, 3, 3, undefined],
      ['Store.note', 'notification', lane, 0, 3, undefined],
      ['Store.refuse', 'unary', lane, 0, 10, undefined],
      ['Store.same', 'unary', lane, 100, 100, undefined],
    ]);
    for (const { said } of [called, handled]) {
      const refused = said.filter((each) => each.startsWith('Store.refuse'));
      expect(refused.filter((each) => each.endsWith('error'))).toHaveLength(1);
      const same = said.filter((each) => each.startsWith('Store.same'));
      expect(same).toEqual(
        ['start', 'end', 'asyncStart', 'asyncEnd'].map((event) => `Store.same ${event}`),
      );
    }
    expect(handled.calls.find(({ method }) => method === 'Store.refuse')?.error).toBe(refusal);
    expect(called.calls[0]?.peer).toBe(pair.near.peer);
  });

  it('that fail before or after they are sent say so, once', async () => {
    await using pair = await openPair();
    serve(pair.far);
    const store = pair.near.client(Store);
    const called = heard('call');
    const handled = heard('handler');
    const reason = new Error('no longer');
    const controller = new AbortController();
    const hanging = store.hang(of(1), { signal: controller.signal });
    await until(() => handled.said.includes('Store.hang start'));
    controller.abort(reason);
    await expect(hanging).rejects.toBe(reason);
    await expect(store.hang(of(1), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(called.calls.map(({ error, delivered }) => [error, delivered])).toEqual([
      [reason, 'unknown'],
      [reason, 'no'],
    ]);
    const first = ['start', 'end', 'error', 'asyncStart', 'asyncEnd'];
    const second = ['start', 'error', 'end', 'asyncStart', 'asyncEnd'];
    expect(called.said).toEqual([...first, ...second].map((event) => `Store.hang ${event}`));
    await until(() => handled.calls.length === 1);
    expect(handled.calls[0]?.error).toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
  });

  it('run in the stores that a subscriber has bound to their start', async () => {
    await using pair = await openPair();
    const stores = new AsyncLocalStorage<string>();
    for (const side of ['call', 'handler']) {
      const start = channel(`tracing:sidecall:${side}:start`);
      start.bindStore(stores, (call) => `${side} of ${(call as TracedCall).method}`);
      undo.push(() => start.unbindStore(stores));
    }
    const seen: unknown[] = [];
    pair.far.serve(Store, {
      same: (request) => request,
      later: async (request) => {
        await Promise.resolve();
        seen.push(stores.getStore());
        return request;
      },
      refuse: (request) => request,
      hang: (request) => request,
      note: () => undefined,
      async *exchange() {},
    });
    await pair.near.client(Store).later(of(1), { timeoutMs: 60_000 });
    await pair.near.client(Store).later(of(1));
    expect(seen).toEqual(['handler of Store.later', 'handler of Store.later']);
    expect(stores.getStore()).toBeUndefined();
  });
});

it('a call is not described while its channel has no subscriber', () => {
  const transport = { lane: 'ring' as const };
  const link = { id: 1, transport, peer: {} as never, clock: systemClock, isSampled: true };
  expect(traceCall(link, 'A.a', 1)).toBeUndefined();
  expect(traceHandler(link, 'A.a', 1)).toBeUndefined();
  heard('call');
  expect(traceCall(link, 'A.a', 1)?.method).toBe('A.a');
  expect(traceHandler(link, 'A.a', 1)).toBeUndefined();
});

it('sessions tell that they begin and end, with the reason of a failure', async () => {
  const told: TracedSession[] = [];
  const onMessage = (message: unknown): void => void told.push(message as TracedSession);
  channel('sidecall:session').subscribe(onMessage);
  undo.push(() => channel('sidecall:session').unsubscribe(onMessage));
  await using listener = await listen();
  const session = await connect({ path: listener.path });
  await until(() => told.length === 2);
  expect(told.map(({ type }) => type)).toEqual(['opened', 'opened']);
  expect(told.some((each) => each.session === session)).toBe(true);
  await session.close();
  await until(() => told.length === 4);
  expect(told.slice(2).map(({ type, error }) => [type, error])).toEqual([
    ['closed', undefined],
    ['closed', undefined],
  ]);
});
