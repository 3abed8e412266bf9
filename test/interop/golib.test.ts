// A Go program with the real golib, in both roles, against our adapter.
import { chownSync, statSync } from 'node:fs';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import {
  chunkStream,
  connectGolib,
  listenGolib,
  protoStream,
} from '../../src/adapters/golib/main.ts';
import { protobuf } from '../../src/adapters/protobuf.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { server } from '../../src/open/server.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { collect, until } from '../support/contract.ts';
import { goProgram } from '../support/go.ts';
import {
  type RunningProgram,
  requireRoot,
  scratchDirectory,
  startProgram,
} from '../support/programs.ts';
import { alice, openDirectory } from '../support/users.ts';

const uid = process.geteuid?.() as number;
const gid = process.getegid?.() as number;

function golib(
  role: 'serve' | 'call',
  kind: string,
  path: string,
  { modes = ['700'], as = uid, owner = uid, group = gid } = {},
): RunningProgram {
  const args = [role, kind, path, String(owner), String(group), ...modes];
  return startProgram('golib', args, { command: goProgram('golib'), uid: as, gid: as });
}

async function serving(
  kind: string,
): Promise<AsyncDisposable & { path: string; go: RunningProgram }> {
  const scratch = scratchDirectory();
  const path = scratch.file('go');
  const go = golib('serve', kind, path);
  await go.next();
  return {
    path,
    go,
    async [Symbol.asyncDispose]() {
      await go[Symbol.asyncDispose]();
      scratch[Symbol.dispose]();
    },
  };
}

const { root } = protobufjs.parse(
  'syntax = "proto3"; message BenchmarkReq { bytes data = 1; } message BenchmarkResp { bytes data = 1; }',
);
const Request = protobuf<{ data: Uint8Array }>(root.lookupType('BenchmarkReq') as never);
const Response = protobuf<{ data: Uint8Array }>(root.lookupType('BenchmarkResp') as never);

const Go = service('go', {
  sum: unary<{ Ints: number[] }, { Sum: number }>(),
  echo: unary({ request: bytes, response: bytes }),
  proto: unary({ request: Request, response: Response }),
  fail: unary({ request: bytes, response: bytes }),
  slow: unary({ request: bytes, response: bytes }),
  missing: unary({ request: bytes, response: bytes }),
  who: unary<string, { pid: number; uid: number }>(),
});
const methodName = (wireName: string): string =>
  wireName === 'go.sum' ? '/math/sum' : wireName.slice('go.'.length);
const x = Buffer.from('x');

describe('our client of a Go server', () => {
  it('calls in bytes, JSON and protobuf, a thousand at once', async () => {
    await using served = await serving('rpc');
    await using target = await connectGolib({
      path: served.path,
      methodName,
      receiveMaxBytes: 2 ** 25,
    });
    expect(target.peer).toMatchObject({ origin: 'kernel', pid: served.go.pid, uid });
    const client = target.client(Go);
    const sums = Array.from({ length: 1_000 }, (_, at) => client.sum({ Ints: [at, 1, 2] }));
    const seen = (await Promise.all(sums)).map(({ Sum }) => Sum);
    expect(seen).toEqual(Array.from({ length: 1_000 }, (_, at) => at + 3));
    for (const size of [1, 63, 64, 8_191, 8_192, 2 ** 20, 2 ** 24]) {
      const message = Buffer.alloc(size, size % 251);
      expect(Buffer.from(await client.echo(message)).equals(message)).toBe(true);
    }
    expect(Buffer.from((await client.proto({ data: x })).data).toString()).toBe('x');
    expect(await client.who('x')).toEqual({ pid: process.pid, uid });
  });

  it('tells errors as golib means them, and keeps deadlines', async () => {
    await using served = await serving('rpc');
    // The server of golib leaves the id out of its errors: with one call each they belong for sure.
    const { path } = served;
    await using target = await connectGolib({ path, methodName, oneCallPerConnection: true });
    const client = target.client(Go);
    await expect(client.fail(x)).rejects.toMatchObject({ status: 'unknown' });
    await expect(client.fail(x)).rejects.toThrow('it failed on purpose');
    await expect(client.missing(x)).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(client.sum('none' as never)).rejects.toThrow('no numbers');
    // Ours or that of the Go server, whichever is first: both know the same deadline.
    await expect(client.slow(x, { timeoutMs: 200 })).rejects.toMatchObject({
      status: 'deadline_exceeded',
    });
    const { leftMs } = (await served.go.next()) as { leftMs: number };
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(201);
    const reason = new Error('no longer');
    await expect(client.slow(x, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(client.echo(x, { metadata: { a: 'b' } })).rejects.toThrow('carries no metadata');
  });

  it('finds the call of an error without an id where that is certain', async () => {
    await using served = await serving('rpc');
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): void => void events.push(event);
    await using target = await connectGolib({ path: served.path, methodName, onEvent });
    const client = target.client(Go);
    await expect(client.fail(x)).rejects.toThrow('it failed on purpose');
    const slow = client.slow(x, { timeoutMs: 1_000 });
    await expect(client.missing(x)).rejects.toMatchObject({ status: 'unimplemented' });
    // Two calls are pending now, and this error names neither.
    await expect(client.fail(x, { timeoutMs: 200 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    expect(events).toMatchObject([{ type: 'adapter-failed' }]);
    expect(events[0]?.error.message).toContain('it failed on purpose');
    await slow.catch(() => undefined);
    expect(Buffer.from(await client.echo(x)).toString()).toBe('x');
  });

  it('fails calls of a server that was killed, at once', async () => {
    await using served = await serving('rpc');
    const target = await connectGolib({ path: served.path, methodName });
    const calls = Array.from({ length: 100 }, () =>
      target
        .client(Go)
        .slow(x)
        .catch((e) => e),
    );
    for (let begun = 0; begun < 100; begun += 1) await served.go.next();
    served.go.child.kill('SIGKILL');
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' });
    }
    const next = target.client(Go).slow(x);
    await expect(next).rejects.toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER', delivered: 'no' });
    await target.close();
  });

  it('is told that a server which closes without an answer may have refused it', async () => {
    requireRoot();
    using directory = openDirectory();
    const path = directory.file('s');
    chownSync(directory.path, alice, alice);
    const theirs = { as: alice, owner: alice, group: alice, modes: ['777'] };
    const expected = { uid: alice, modes: ['0777'] };
    await using go = golib('serve', 'refusing', path, theirs);
    await go.next();
    await using target = await connectGolib({ path, methodName, expect: expected });
    const refused: unknown = await target
      .client(Go)
      .echo(x)
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect((refused as Error).message).toContain('its policy may have refused us');
    expect(await go.next()).toEqual({ refused: uid });
    const connection = await connect({ path, protocol: 'plain', expect: expected });
    const stream = chunkStream(connection);
    expect(await go.next()).toEqual({ refused: uid });
    expect(await collect(stream)).toEqual([]);
    await stream.end();
  });

  it('checks mode and user of the socket file, and who listens', async () => {
    await using served = await serving('rpc');
    const { path } = served;
    for (const expect_ of [{ uid, modes: ['0600'] }, { uid: uid + 1 }, { uid, gid: gid + 1 }]) {
      await expect(connectGolib({ path, expect: expect_ })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PATH_UNSAFE',
      });
    }
    await using target = await connectGolib({ path, methodName, expect: { modes: ['0700'] } });
    expect((await target.client(Go).sum({ Ints: [2, 2] })).Sum).toBe(4);
  });
});

const Ours = service('ours', {
  sum: unary<{ Ints: number[] }, { Sum: number }>(),
  echo: unary({ request: bytes, response: bytes }),
  proto: unary({ request: Request, response: Response }),
  fails: unary({ request: bytes, response: bytes }),
  unavailable: unary({ request: bytes, response: bytes }),
  bad: unary({ request: bytes, response: bytes }),
  hundred: unary({ request: bytes, response: bytes }),
  slow: unary({ request: bytes, response: bytes }),
});

function ours(): ReturnType<typeof server> {
  const app = server();
  app.serve(Ours, {
    sum: ({ Ints }) => {
      if (!Array.isArray(Ints)) throw new RpcError('invalid_argument', 'no numbers');
      return { Sum: Ints.reduce((sum, each) => sum + each, 0) };
    },
    echo: (message) => message,
    proto: ({ data }) => ({ data }),
    fails: () => {
      throw new Error('a secret of ours');
    },
    unavailable: () => {
      throw new RpcError('unavailable', 'try again');
    },
    bad: () => {
      throw new RpcError('invalid_argument', 'bad data');
    },
    hundred: () => {
      throw new RpcError('internal', '100 % of %s');
    },
    slow: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      }),
  });
  return app;
}

const wireName = (name: string): string => (name === '/math/sum' ? 'ours.sum' : `ours.${name}`);
const forGo = { mode: '0700', wireName, receiveMaxBytes: 2 ** 25, onEvent: () => undefined };

describe('a Go client of our server', () => {
  it('calls in bytes at all sizes, and is told errors by their ids', async () => {
    using scratch = scratchDirectory();
    await using app = ours();
    const { path } = await listenGolib({ ...forGo, path: scratch.file('s'), services: app });
    await using go = golib('call', 'rpc-bytes', path);
    for (let sizes = 0; sizes < 8; sizes += 1) {
      expect(await go.next()).toMatchObject({ same: true, error: null });
    }
    const errors: Record<string, unknown> = {};
    for (let round = 0; round < 6; round += 1) {
      const { method, error } = (await go.next()) as {
        method: string;
        error: { type: string; text: string; retryable: boolean };
      };
      errors[method] = [error.type, error.text, error.retryable];
    }
    expect(errors).toMatchObject({
      missing: ['rpc.ErrMethodNotFound', expect.stringContaining('method(missing)'), false],
      fails: ['rpc.ErrServer', expect.any(String), false],
      unavailable: ['rpc.ErrServer', expect.stringContaining('try again'), false],
      bad: ['rpc.ErrBadData', expect.stringContaining('bad data'), false],
      hundred: ['rpc.ErrServer', expect.stringContaining('100 % of %s'), false],
      slow: ['rpc.ErrDeadlineExceeded', expect.any(String), true],
    });
    expect(JSON.stringify(errors.fails)).not.toContain('secret');
    expect(await go.exited).toMatchObject({ code: 0 });
  });

  it('calls in JSON, a thousand at once, and in protobuf', async () => {
    using scratch = scratchDirectory();
    await using app = ours();
    const { path } = await listenGolib({ ...forGo, path: scratch.file('s'), services: app });
    await using inJson = golib('call', 'rpc-json', path);
    expect(await inJson.next()).toEqual({ wrong: [] });
    expect(await inJson.next()).toMatchObject({ bad: { type: 'rpc.ErrBadData' } });
    await using inProto = golib('call', 'rpc-proto', path);
    expect(await inProto.next()).toEqual({ data: 'payload', error: null });
  });

  it('is refused by our policy, and by its own checks of mode and user', async () => {
    requireRoot();
    using directory = openDirectory();
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): void => void events.push(event);
    await using app = ours();
    const path = directory.file('s');
    await listenGolib({ ...forGo, path, mode: '0777', onEvent, services: app });
    const stranger = { as: alice, modes: ['777'] };
    await using refused = golib('call', 'rpc-json', path, stranger);
    await until(() => events.length > 0);
    expect(events[0]).toMatchObject({ type: 'refused', peer: { uid: alice } });
    await using mode = golib('call', 'rpc-json', path, { modes: ['700'] });
    expect((await mode.next()).failed).toBeDefined();
    await using owner = golib('call', 'rpc-json', path, { modes: ['777'], owner: uid + 1 });
    expect((await owner.next()).failed).toBeDefined();
    const given = directory.file('given');
    await listenGolib({
      ...forGo,
      path: given,
      owner: alice,
      gid: alice,
      authorize: { uid: alice },
      services: app,
    });
    expect(statSync(given)).toMatchObject({ uid: alice, gid: alice });
    const theirs = { as: alice, owner: alice, group: alice };
    await using accepted = golib('call', 'rpc-proto', given, theirs);
    expect(await accepted.next()).toEqual({ data: 'payload', error: null });
    refused.child.kill('SIGKILL');
  });
});

describe('streams with a Go program', () => {
  it('chunks and JSON, which we open', async () => {
    for (const kind of ['chunk', 'json'] as const) {
      await using served = await serving(kind);
      const connection = await connect({ path: served.path, protocol: 'plain' });
      const codec = kind === 'json' ? json<{ Text: string }>() : bytes;
      await using stream = chunkStream(connection, codec as never) as ReturnType<
        typeof chunkStream<unknown, unknown>
      >;
      const sent = ['one', '<two>', 'ä€'].map((Text) =>
        kind === 'json' ? { Text } : Buffer.from(Text),
      );
      for (const each of sent) await stream.send(each);
      const seen: unknown[] = [];
      for await (const each of stream) {
        seen.push(each);
        if (seen.length === 3) await stream.end();
      }
      expect(seen).toEqual(sent);
      expect(await stream.closed).toBeUndefined();
      expect(await served.go.next()).toEqual({ ended: '', uid });
    }
  });

  it('chunks and JSON, which it opens', async () => {
    for (const kind of ['chunk', 'json'] as const) {
      await using listener = await listen({ protocol: 'plain', mode: '0700' });
      await using go = golib('call', kind, listener.path);
      for await (const connection of listener) {
        const codec = kind === 'json' ? json<{ Text: string }>() : bytes;
        const stream = chunkStream(connection, codec as never);
        for await (const message of stream) await stream.send(message as never);
        break;
      }
      const { seen } = (await go.next()) as { seen: string[] };
      expect(seen.map((each) => each.slice(-1))).toEqual(['0', '1', '2']);
      if (kind === 'json') expect(seen[0]).toBe('<message> 0');
    }
  });

  it('protobuf, 10,000 messages in order, each direction closed by itself', async () => {
    await using listener = await listen({ protocol: 'plain', mode: '0700' });
    await using go = golib('call', 'proto', listener.path);
    for await (const connection of listener) {
      const stream = protoStream(connection, Request, { closeLast: true });
      for await (const message of stream) await stream.send(message);
      await stream.end();
      expect(await stream.closed).toBeUndefined();
      break;
    }
    const said = [await go.next(), await go.next()];
    expect(said).toContainEqual({ received: 10_000 });
    expect(said).toContainEqual({ closed: true });
    expect(await go.exited).toMatchObject({ code: 0 });
  });

  it('protobuf, where we open and end first', async () => {
    await using served = await serving('proto');
    const connection = await connect({ path: served.path, protocol: 'plain' });
    const stream = protoStream(connection, Request);
    for (let at = 0; at < 100; at += 1) await stream.send({ data: Buffer.from(String(at)) });
    const [seen] = await Promise.all([collect(stream), stream.end()]);
    const texts = seen.map(({ data }) => Buffer.from(data).toString());
    expect(texts).toEqual(Array.from({ length: 100 }, (_, at) => String(at)));
    expect(await stream.closed).toBeUndefined();
    expect(await served.go.next()).toEqual({ ended: '', uid });
  });

  it('protobuf, whose Go program is killed: what it had sent, and no clean end', async () => {
    await using served = await serving('proto');
    const connection = await connect({ path: served.path, protocol: 'plain' });
    const stream = protoStream(connection, Request);
    await stream.send({ data: x });
    const messages = stream[Symbol.asyncIterator]();
    expect(Buffer.from((await messages.next()).value.data).toString()).toBe('x');
    served.go.child.kill('SIGKILL');
    await expect(messages.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await expect(stream.end()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });
});
