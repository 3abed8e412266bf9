// Peers that break golib's wire: their connection ends, with a typed event, and no other.
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../src/adapters/golib/chunk-framing.ts';
import {
  chunkStream,
  connectGolib,
  type ListenGolibOptions,
  listenGolib,
} from '../../../src/adapters/golib/main.ts';
import { decodePayload, encodePayload } from '../../../src/adapters/golib/payload.ts';
import type { SidecallEvent } from '../../../src/base/events.ts';
import { server as makeServer } from '../../../src/open/server.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import type { PlainListener } from '../../../src/rendezvous/plain-listener.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { clientStream, notification, service, unary } from '../../../src/rpc/contract/service.ts';
import { implement } from '../../../src/rpc/serving/implementation.ts';
import { until } from '../../support/contract.ts';

const Store = service('Store', {
  same: unary({ request: bytes, response: bytes }),
  wait: unary({ request: bytes, response: bytes }),
  note: notification({ request: bytes }),
  upload: clientStream({ request: bytes, response: bytes }),
});
const x = Buffer.from('x');
const later = (): bigint => BigInt(Date.now() + 60_000) * 1_000_000n;

interface Served extends AsyncDisposable {
  readonly listener: PlainListener;
  readonly events: SidecallEvent[];
  readonly noted: string[];
  started: number;
  release(): void;
}

async function served(options: Partial<ListenGolibOptions> = {}): Promise<Served> {
  const events: SidecallEvent[] = [];
  const noted: string[] = [];
  const waiting: (() => void)[] = [];
  const state = { started: 0 };
  const services = [
    implement(Store, {
      same: (message) => message,
      wait: (message) => {
        state.started += 1;
        return new Promise((resolve) => waiting.push(() => resolve(message)));
      },
      note: (message) => void noted.push(Buffer.from(message).toString()),
      upload: async () => x,
    }),
  ];
  const onEvent = (event: SidecallEvent): void => void events.push(event);
  const listener = await listenGolib({ services, onEvent, ...options });
  return {
    listener,
    events,
    noted,
    get started() {
      return state.started;
    },
    set started(count) {
      state.started = count;
    },
    release: () => {
      for (const resolve of waiting.splice(0)) resolve();
    },
    [Symbol.asyncDispose]: () => listener.close(),
  };
}

describe('listenGolib()', () => {
  it('answers notifications with nothing, and refuses methods with streams', async () => {
    await using server = await served();
    await using target = await connectGolib({ path: server.listener.path });
    const client = target.client(service('Store', { note: notification({ request: bytes }) }));
    await client.note(Buffer.from('a word'));
    expect(server.noted).toEqual(['a word']);
    const Upload = service('Store', { upload: unary({ request: bytes, response: bytes }) });
    await expect(target.client(Upload).upload(x)).rejects.toThrow('has streams');
    expect(() => target.client(Store)).toThrow('unary');
  });

  it.each<[string, Buffer]>([
    ['a negative length', Buffer.from([1])],
    ['a frame that is too large', Buffer.from('fe ff ff ff 0f'.replaceAll(' ', ''), 'hex')],
    ['a message that is no Payload', encodeFrame(Buffer.from([0x22, 0xff]))],
    [
      'an id that is in use',
      Buffer.concat(
        [1, 1].map((id) =>
          encodeFrame(encodePayload({ id, method: 'Store.wait', data: x, deadlineNanos: later() })),
        ),
      ),
    ],
  ])('closes the connection of a peer that sends %s, and no other', async (_, sent) => {
    await using server = await served();
    await using target = await connectGolib({ path: server.listener.path });
    const bad = await connect({ path: server.listener.path, protocol: 'plain' });
    bad.resume().write(sent);
    await once(bad, 'close');
    await until(() => server.events.length === 1);
    expect(server.events[0]).toMatchObject({ type: 'adapter-failed', peer: { pid: process.pid } });
    expect(Buffer.from(await target.client(Same).same(x)).toString()).toBe('x');
    server.release();
  });

  it('ends the connection of a peer whose frame does not become whole', async () => {
    await using server = await served({ frameTimeoutMs: 50 });
    const slow = await connect({ path: server.listener.path, protocol: 'plain' });
    slow.resume().write(Buffer.from([20, 1, 2]));
    await once(slow, 'close');
    await until(() => server.events.length === 1);
    expect(server.events[0]?.error.code).toBe('ERR_SIDECALL_PEER_UNRESPONSIVE');
    await using target = await connectGolib({ path: server.listener.path });
    await new Promise((resolve) => setTimeout(resolve, 100)); // an idle connection is none of these
    expect(Buffer.from(await target.client(Same).same(x)).toString()).toBe('x');
  });

  it('does not run a call whose deadline has passed, and drops one without an id', async () => {
    await using server = await served();
    const peer = await connect({ path: server.listener.path, protocol: 'plain' });
    const stream = chunkStream(peer);
    const call = { method: 'Store.wait', data: x };
    await stream.send(encodePayload({ ...call, id: 0, deadlineNanos: later() }));
    await stream.send(encodePayload({ ...call, id: 7 }));
    const answers = stream[Symbol.asyncIterator]();
    const answer = decodePayload((await answers.next()).value);
    expect(answer).toMatchObject({ id: 7, errorKind: 2 });
    expect(server.started).toBe(0);
    expect(server.events).toMatchObject([{ type: 'adapter-failed' }]);
    stream.destroy();
  });

  it('reads no further call of a connection that has enough at work', async () => {
    await using server = await served({ callsPerConnection: 4 });
    const peer = await connect({ path: server.listener.path, protocol: 'plain' });
    const stream = chunkStream(peer);
    for (let id = 1; id <= 10; id += 1) {
      await stream.send(
        encodePayload({ id, method: 'Store.wait', data: x, deadlineNanos: later() }),
      );
    }
    await until(() => server.started === 4);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(server.started).toBe(4);
    const seen: number[] = [];
    const reading = (async () => {
      for await (const frame of stream) {
        seen.push(decodePayload(frame).id);
        if (seen.length === 10) return;
      }
    })();
    const releasing = setInterval(() => server.release(), 5);
    await reading;
    clearInterval(releasing);
    expect(seen.sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    stream.destroy();
  });

  it('holds few large requests in memory, and answers all of them', async () => {
    await using server = await served();
    const stream = chunkStream(await connect({ path: server.listener.path, protocol: 'plain' }));
    const data = Buffer.alloc(3_000_000);
    const ids = Array.from({ length: 40 }, (_, at) => at + 1);
    const sending = (async () => {
      for (const id of ids) {
        const call = { id, method: 'Store.wait', data, deadlineNanos: later() };
        await stream.send(encodePayload(call));
      }
    })();
    await until(() => server.started > 16);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(server.started).toBeLessThanOrEqual(23); // 64 MiB, and one more
    const releasing = setInterval(() => server.release(), 5);
    const seen: number[] = [];
    for await (const frame of stream) {
      seen.push(decodePayload(frame).id);
      if (seen.length === ids.length) break;
    }
    clearInterval(releasing);
    await sending;
    expect(seen.sort((a, b) => a - b)).toEqual(ids);
    stream.destroy();
  });

  it('takes ten thousand calls at once from an honest program', async () => {
    await using server = await served();
    await using target = await connectGolib({ path: server.listener.path });
    const { same } = target.client(Same);
    const answers = await Promise.all(
      Array.from({ length: 10_000 }, (_, at) => same(Buffer.from(String(at)))),
    );
    expect(answers.map((each) => Buffer.from(each).toString())).toEqual(
      Array.from({ length: 10_000 }, (_, at) => String(at)),
    );
  });

  it('tells a call whose answer is longer than the program takes', async () => {
    await using server = await served({ answerMaxBytes: 1_000 });
    await using target = await connectGolib({ path: server.listener.path });
    const { same } = target.client(Same);
    await expect(same(Buffer.alloc(1_001))).rejects.toThrow('exceeds answerMaxBytes 1000');
    expect(await same(Buffer.alloc(1_000))).toHaveLength(1_000);
  });

  it('starts few handlers for a program that does not read, and answers all once it does', async () => {
    const large = Buffer.alloc(2_000_000);
    let started = 0;
    const Big = service('Big', { get: unary({ request: bytes, response: bytes }) });
    const get = async (): Promise<Uint8Array> => {
      started += 1;
      return large;
    };
    await using listener = await listenGolib({ services: [implement(Big, { get })] });
    const peer = await connect({ path: listener.path, protocol: 'plain' });
    const stream = chunkStream(peer, bytes, { receiveMaxBytes: 8_000_000 });
    const calls = 150;
    for (let id = 1; id <= calls; id += 1) {
      await stream.send(encodePayload({ id, method: 'Big.get', data: x, deadlineNanos: later() }));
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(started).toBeGreaterThan(0);
    expect(started).toBeLessThan(100);
    let answered = 0;
    for await (const frame of stream) {
      expect(decodePayload(frame).data).toHaveLength(large.byteLength);
      answered += 1;
      if (answered === calls) break;
    }
    stream.destroy();
  });

  it('a wireName that throws is told, and ends neither the server nor the connection', async () => {
    const wireName = (name: string): string => {
      if (name === 'Store.same') return name;
      throw new Error('no such name');
    };
    await using server = await served({ wireName });
    await using target = await connectGolib({ path: server.listener.path });
    const Other = service('Other', { same: unary({ request: bytes, response: bytes }) });
    const call = target.client(Other).same(x);
    await expect(call).rejects.toMatchObject({ status: 'unimplemented' });
    expect(server.events).toMatchObject([{ type: 'adapter-failed' }]);
    expect(server.events[0]?.error.message).toContain('no such name');
    expect(Buffer.from(await target.client(Same).same(x)).toString()).toBe('x');
  });

  it('a close lets calls under way finish', async () => {
    const server = await served();
    await using target = await connectGolib({ path: server.listener.path });
    const Wait = service('Store', { wait: unary({ request: bytes, response: bytes }) });
    const answer = target.client(Wait).wait(x);
    await until(() => server.started === 1);
    const closed = server.listener.close();
    await new Promise((resolve) => setTimeout(resolve, 50));
    server.release();
    expect(Buffer.from(await answer).toString()).toBe('x');
    await closed;
  });

  it('the limits of the server are those of its golib listeners', async () => {
    await using app = makeServer({ limits: { receiveMaxBytes: 8_000_000, streamsMax: 1 } });
    let most = 0;
    let now = 0;
    app.serve(Same, {
      same: async (message) => {
        now += 1;
        most = Math.max(most, now);
        await new Promise((resolve) => setTimeout(resolve, 5));
        now -= 1;
        return message;
      },
    });
    const listener = await listenGolib({ services: app });
    await using target = await connectGolib({ path: listener.path, receiveMaxBytes: 8_000_000 });
    const { same } = target.client(Same);
    expect(await same(Buffer.alloc(6_000_000))).toHaveLength(6_000_000);
    await Promise.all([same(x), same(x), same(x)]);
    expect(most).toBe(1);
  });

  it('calls of a server that came back go over a new connection', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'golib-')), 'socket');
    const first = await served({ path });
    await using target = await connectGolib({ path });
    const { same } = target.client(Same);
    await same(x);
    await first.listener.close();
    const none = { code: 'ERR_SIDECALL_NO_LISTENER', delivered: 'no' };
    await expect(same(x)).rejects.toMatchObject(none);
    await using _second = await served({ path });
    expect(Buffer.from(await same(x)).toString()).toBe('x');
  });

  it('refuses misuse', async () => {
    await expect(listenGolib({ services: [], receiveMaxBytes: 5 })).rejects.toThrow(RangeError);
    await expect(listenGolib({ services: [], frameTimeoutMs: 1 })).rejects.toThrow(RangeError);
    const place = { path: '/tmp/nothing/socket' };
    await expect(connectGolib({ ...place, receiveMaxBytes: 5 })).rejects.toThrow(RangeError);
    await expect(listenGolib({} as never)).rejects.toThrow('services');
    await expect(listenGolib({ services: [], wireName: 1 as never })).rejects.toThrow(TypeError);
    await expect(listenGolib({ services: [], callsPerConnection: 0 })).rejects.toThrow(RangeError);
    await expect(listenGolib({ services: [], lane: 'ring' } as never)).rejects.toThrow(TypeError);
    await expect(connectGolib(undefined as never)).rejects.toThrow(TypeError);
  });
});

const Same = service('Store', { same: unary({ request: bytes, response: bytes }) });
