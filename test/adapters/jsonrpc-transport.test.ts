import { describe, expect, it } from 'vitest';
import { jsonrpcTransport } from '../../src/adapters/jsonrpc.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { turns, until } from '../support/contract.ts';
import { add, connectionOver, withResolvers } from '../support/jsonrpc.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe('jsonrpcTransport()', () => {
  it('paces what comes by what the connection takes', async () => {
    const pair = createSessionPair({ far: { limits: { streamWindowBytes: 16_384 } } });
    const client = jsonrpcTransport(pair.near, { opens: true });
    const { reader } = jsonrpcTransport(pair.far, { opens: false });
    let admitted = 0;
    const note = { jsonrpc: '2.0', method: 'note', params: ['x'.repeat(1_000)] };
    for (let at = 0; at < 2_000; at += 1) {
      void client.writer.write(note).then(() => {
        admitted += 1;
      });
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(admitted).toBeLessThan(100); // nobody reads: the window is all that is taken
    let heard = 0;
    reader.listen(() => {
      heard += 1;
    });
    await until(() => heard === 2_000);
    expect(admitted).toBe(2_000);
    pair.cut();
  });

  it('gives up where the other end never accepts', async () => {
    const pair = createSessionPair();
    using clock = new SteeredClock();
    const { reader, writer } = jsonrpcTransport(pair.near, { opens: true, timeoutMs: 10_000 });
    let isOver = false;
    const failed = new Promise<unknown>((resolve) => reader.onError(resolve));
    void failed.then(() => (isOver = true));
    const closed = new Promise<void>((resolve) => reader.onClose(resolve));
    reader.listen(() => undefined);
    const writing = writer.write({ jsonrpc: '2.0' });
    writing.catch(() => undefined);
    for (; !isOver; await turns(10)) await clock.pass(100); // each try is refused at once
    expect(await failed).toMatchObject({ status: 'unimplemented' });
    await closed;
    await expect(writing).rejects.toMatchObject({ status: 'unimplemented' });
    await pair.close();
  });

  it('gives up where the other end accepts and never says that it is ready', async () => {
    const pair = createSessionPair();
    const accepted = pair.far.channels(json(), { name: 'vscode-jsonrpc' });
    const { reader } = jsonrpcTransport(pair.near, { opens: true, timeoutMs: 30 });
    const failed = new Promise<unknown>((resolve) => reader.onError(resolve));
    reader.listen(() => undefined);
    expect(await failed).toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    await until(() => pair.near.stats().calls.open === 0);
    await accepted.return?.();
    await pair.close();
  });

  it('ends without an end that does not follow', async () => {
    const pair = createSessionPair();
    const accepted = pair.far.channels(json(), { name: 'vscode-jsonrpc' });
    const { reader, writer } = jsonrpcTransport(pair.near, { opens: true });
    reader.listen(() => undefined);
    const { value: channel } = await accepted.next();
    await channel?.send({ jsonrpc: '2.0', method: '$/sidecall/ready' });
    await writer.write({ jsonrpc: '2.0' });
    reader.dispose();
    writer.dispose();
    // It goes on sending and never ends: what it says is dropped, and then the channel is given up.
    const sending = (async () => {
      for (;;) await channel?.send({ jsonrpc: '2.0', method: 'more' });
    })();
    await expect(sending).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    await accepted.return?.();
    await pair.close();
  });

  it('keeps no connection that was disposed of', async () => {
    const pair = createSessionPair();
    const refs: WeakRef<object>[] = [];
    for (let round = 0; round < 20; round += 1) {
      const client = jsonrpcTransport(pair.near, { opens: true });
      const server = jsonrpcTransport(pair.far, { opens: false });
      await client.writer.write({ jsonrpc: '2.0' });
      for (const { reader, writer } of [client, server]) {
        refs.push(new WeakRef(reader));
        reader.dispose();
        writer.dispose();
      }
      await until(() => pair.near.stats().calls.open === 0);
    }
    await until(async () => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      globalThis.gc?.();
      return refs.filter((ref) => ref.deref() !== undefined).length < 4;
    });
    await pair.close();
  });

  it('reads no more requests of a peer that does not read its responses', async () => {
    const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
    const pair = createSessionPair({ near: { limits }, far: { limits } });
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    let asked = 0;
    server.onRequest('text', () => {
      asked += 1;
      return 'x'.repeat(4_000_000);
    });
    server.listen();
    const { reader, writer } = jsonrpcTransport(pair.near, { opens: true });
    for (let id = 1; id <= 50; id += 1) {
      void writer.write({ jsonrpc: '2.0', id, method: 'text' } as never);
    }
    await until(() => asked > 16);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(asked).toBeLessThan(30); // 64 MiB of responses, and what was asked before the first of them waited
    const ids = new Set<unknown>();
    reader.listen((message) => void ids.add((message as { id?: unknown }).id));
    await until(() => ids.size === 50);
    pair.cut();
    server.dispose();
  });

  it('has few requests answered at once by slow handlers whose responses are long', async () => {
    const pair = createSessionPair();
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    let asked = 0;
    server.onRequest('text', async () => {
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return 'x'.repeat(3_000_000);
    });
    server.listen();
    const { reader, writer } = jsonrpcTransport(pair.near, { opens: true });
    for (let id = 1; id <= 80; id += 1) {
      void writer.write({ jsonrpc: '2.0', id, method: 'text' } as never);
    }
    await until(() => asked >= 16);
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(asked).toBeLessThan(64);
    const ids = new Set<unknown>();
    reader.listen((message) => void ids.add((message as { id?: unknown }).id));
    await until(() => ids.size === 80);
    pair.cut();
    server.dispose();
  });

  it('hands out responses that came behind requests that wait for room', async () => {
    const pair = createSessionPair({ far: { limits: { receiveMaxBytes: 8_000_000 } } });
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    client.onRequest('more', () => 'more');
    // Each handler asks back before it answers; more of them than may be under way.
    server.onRequest('text', async () => {
      await server.sendRequest('more');
      return 'x'.repeat(3_900_000);
    });
    client.listen();
    server.listen();
    const answers = Array.from({ length: 60 }, () => client.sendRequest<string>('text'));
    for (const answer of await Promise.all(answers)) expect(answer).toHaveLength(3_900_000);
    client.dispose();
    server.dispose();
    await pair.close();
  });

  it('hands out what is no message, too', async () => {
    const pair = createSessionPair();
    const client = jsonrpcTransport(pair.near, { opens: true });
    const server = jsonrpcTransport(pair.far, { opens: false });
    const heard: unknown[] = [];
    server.reader.listen((message) => void heard.push(message));
    for (const odd of [null, 1, 'x', []]) await client.writer.write(odd as never);
    await until(() => heard.length === 4);
    expect(heard).toEqual([null, 1, 'x', []]);
    await pair.close();
  });

  it('loses a message that is no JSON, says so, and hands out those behind it', async () => {
    const pair = createSessionPair();
    const accepted = pair.far.channels(bytes, { name: 'vscode-jsonrpc' });
    const { reader } = jsonrpcTransport(pair.near, { opens: true });
    const errors: unknown[] = [];
    const heard: unknown[] = [];
    reader.onError((error) => void errors.push(error));
    reader.listen((message) => void heard.push(message));
    const { value: channel } = await accepted.next();
    for (const text of [
      '{"jsonrpc":"2.0","method":"$/sidecall/ready"}',
      '{"a":1} took 3 ms',
      '{"b":2}',
    ]) {
      await channel?.send(Buffer.from(text));
    }
    await until(() => heard.length > 0);
    expect(heard).toEqual([{ b: 2 }]);
    expect(errors).toEqual([expect.objectContaining({ code: 'ERR_SIDECALL_DECODE' })]);
    await accepted.return?.();
    await pair.close();
  });

  it('loses no response behind any number of notifications that nobody awaits', async () => {
    const pair = createSessionPair();
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    let heard = 0;
    client.onNotification('note', () => {
      heard += 1;
    });
    server.onRequest('flood', () => {
      for (let at = 0; at < 70_000; at += 1) void server.sendNotification('note', at);
      return 'done';
    });
    client.listen();
    server.listen();
    expect(await client.sendRequest('flood')).toBe('done');
    await until(() => heard === 70_000);
    client.dispose();
    server.dispose();
    await pair.close();
  });

  it('a response that is too long is an error for whoever asked', async () => {
    const pair = createSessionPair();
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    server.onError(() => undefined);
    server.onRequest('text', () => 'x'.repeat(5_000_000));
    client.listen();
    server.listen();
    await expect(client.sendRequest('text')).rejects.toThrow('receiveMaxBytes');
    client.dispose();
    server.dispose();
    await pair.close();
  });

  it('a relay that returns what it waits for holds the channel back', async () => {
    const pair = createSessionPair({ far: { limits: { streamWindowBytes: 16_384 } } });
    const client = jsonrpcTransport(pair.near, { opens: true });
    const { reader } = jsonrpcTransport(pair.far, { opens: false });
    const gate = withResolvers<void>();
    let relayed = 0;
    reader.listen((async () => {
      relayed += 1;
      await gate.promise;
    }) as (message: unknown) => void);
    let admitted = 0;
    const note = { jsonrpc: '2.0', method: 'note', params: ['x'.repeat(1_000)] };
    for (let at = 0; at < 1_000; at += 1) {
      void client.writer.write(note).then(() => {
        admitted += 1;
      });
    }
    await until(() => relayed === 1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(relayed).toBe(1);
    expect(admitted).toBeLessThan(100);
    gate.resolve();
    await until(() => relayed === 1_000);
    pair.cut();
  });

  it('what was written before dispose() arrives, however long the other end is busy', async () => {
    const pair = createSessionPair({ far: { limits: { streamWindowBytes: 16_384 } } });
    const client = jsonrpcTransport(pair.near, { opens: true });
    const server = jsonrpcTransport(pair.far, { opens: false });
    const heard: unknown[] = [];
    for (let at = 0; at < 100; at += 1) {
      const params = [at, 'x'.repeat(1_000)];
      void client.writer.write({ jsonrpc: '2.0', method: 'note', params } as never);
    }
    void client.writer.write({ jsonrpc: '2.0', method: 'exit' } as never);
    client.reader.dispose();
    client.writer.dispose();
    await new Promise((resolve) => setTimeout(resolve, 1_500)); // the other end is busy
    const closed = new Promise<void>((resolve) => server.reader.onClose(resolve));
    server.reader.listen((message) => void heard.push((message as { method?: unknown }).method));
    await closed;
    expect(heard).toHaveLength(101);
    expect(heard.at(-1)).toBe('exit');
    server.reader.dispose();
    server.writer.dispose();
    await pair.close();
  });

  it('a message that the connection stumbles over costs that message', async () => {
    const pair = createSessionPair();
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    const errors: unknown[] = [];
    server.onError(([error]) => void errors.push(error));
    server.onRequest(add, ({ a, b }) => a + b);
    server.listen();
    const { writer } = jsonrpcTransport(pair.near, { opens: true });
    await writer.write({ jsonrpc: '2.0', method: '$/cancelRequest' } as never);
    await writer.write({ jsonrpc: '2.0', id: 1, method: 'add', params: { a: 1, b: 1 } } as never);
    await until(() => errors.length === 1);
    expect(pair.far.state).toBe('open');
    server.dispose();
    pair.cut();
  });

  it('refuses an end that does not begin as it should', async () => {
    const pair = createSessionPair();
    const accepted = pair.far.channels(json(), { name: 'vscode-jsonrpc' });
    const { reader } = jsonrpcTransport(pair.near, { opens: true });
    const failed = new Promise<unknown>((resolve) => reader.onError(resolve));
    reader.listen(() => undefined);
    const { value: channel } = await accepted.next();
    await channel?.send({ jsonrpc: '2.0', method: 'hello' });
    expect(await failed).toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    await accepted.return?.();
    await pair.close();
  });

  it('disposed of before the other end comes, it leaves nothing', async () => {
    const pair = createSessionPair();
    for (const opens of [true, false]) {
      const { reader, writer } = jsonrpcTransport(pair.near, { opens });
      reader.dispose();
      writer.dispose();
      writer.dispose(); // twice is once
    }
    const again = jsonrpcTransport(pair.near, { opens: false }); // the name is free
    again.reader.dispose();
    again.writer.dispose();
    await pair.close();
  });

  it('several connections over one session, by name; a name is used once', async () => {
    const pair = createSessionPair();
    const ends = ['one', 'two'].map((name) => {
      const client = connectionOver(jsonrpcTransport(pair.near, { opens: true, name }));
      const server = connectionOver(jsonrpcTransport(pair.far, { opens: false, name }));
      server.onRequest('name', () => name);
      client.listen();
      server.listen();
      return { client, server, name };
    });
    for (const { client, name } of ends) expect(await client.sendRequest('name')).toBe(name);
    jsonrpcTransport(pair.far, { opens: false, name: 'three' });
    expect(() => jsonrpcTransport(pair.far, { opens: false, name: 'three' })).toThrow(TypeError);
    await pair.close();
  });

  it('refuses misuse', async () => {
    const { near, close } = createSessionPair();
    expect(() => jsonrpcTransport(near)).toThrow('opens: true');
    for (const name of ['', 'x'.repeat(257), 7 as never]) {
      expect(() => jsonrpcTransport(near, { opens: true, name })).toThrow(TypeError);
    }
    expect(() => jsonrpcTransport(undefined as never)).toThrow('needs a session');
    expect(() => jsonrpcTransport(near, { opens: 'yes' as never })).toThrow('true or false');
    expect(() => jsonrpcTransport(near, { open: true } as never)).toThrow(TypeError);
    expect(() => jsonrpcTransport(near, { opens: true, timeoutMs: 1 })).toThrow(RangeError);
    const { reader } = jsonrpcTransport(near, { opens: true });
    reader.listen(() => undefined);
    expect(() => reader.listen(() => undefined)).toThrow(TypeError);
    await close();
  });
});
