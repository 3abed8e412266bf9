// vscode-jsonrpc over a session: its documented features on every lane, and a real language server
// both ways.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import {
  CancellationTokenSource,
  createMessageConnection,
  ErrorCodes,
  type MessageConnection,
  NotificationType,
  NotificationType2,
  ParameterStructures,
  ProgressType,
  RequestType,
  RequestType0,
  ResponseError,
  Trace,
} from 'vscode-jsonrpc/node';
import {
  type JsonRpcTransport,
  jsonrpcTransport,
  stdioTransport,
} from '../../src/adapters/jsonrpc.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { until } from '../support/contract.ts';
import { lanes, type Pair } from '../support/pairs.ts';
import { programPath } from '../support/programs.ts';

const require = createRequire(import.meta.url);

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

interface Ends {
  readonly pair: Pair;
  readonly client: MessageConnection;
  readonly server: MessageConnection;
}

function connectionOver({ reader, writer }: JsonRpcTransport): MessageConnection {
  return createMessageConnection(reader, writer);
}

async function withEnds(openPair: () => Promise<Pair>, run: (ends: Ends) => Promise<void>) {
  await using pair = await openPair();
  const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
  const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
  try {
    await run({ pair, client, server });
  } finally {
    client.dispose();
    server.dispose();
  }
}

const add = new RequestType<{ a: number; b: number }, number, { why: string }>('add');

describe.each(lanes)('vscode-jsonrpc over $lane', ({ openPair }) => {
  it('requests both ways, by position and by name', () =>
    withEnds(openPair, async ({ client, server }) => {
      server.onRequest(add, ({ a, b }) => a + b);
      server.onRequest('list', (...all: unknown[]) => all.slice(0, 2));
      server.onRequest('named', ({ x }: { x: number }) => x);
      client.onRequest('whoami', () => 'the client');
      client.listen();
      server.listen();
      expect(await client.sendRequest(add, { a: 1, b: 2 })).toBe(3);
      expect(await client.sendRequest('list', 1, 'two')).toEqual([1, 'two']);
      expect(await client.sendRequest('named', ParameterStructures.byName, { x: 1 })).toBe(1);
      expect(await server.sendRequest('whoami')).toBe('the client');
    }));

  it('errors with code and data, and a method that nobody handles', () =>
    withEnds(openPair, async ({ client, server }) => {
      server.onRequest(add, () => new ResponseError(-32099, 'cannot add', { why: 'tired' }));
      client.listen();
      server.listen();
      await expect(client.sendRequest(add, { a: 1, b: 2 })).rejects.toMatchObject({
        code: -32099,
        message: 'cannot add',
        data: { why: 'tired' },
      });
      await expect(client.sendRequest('unknown')).rejects.toMatchObject({
        code: ErrorCodes.MethodNotFound,
      });
    }));

  it('notifications in order, typed, by star, and unhandled', () =>
    withEnds(openPair, async ({ client, server }) => {
      const seen: unknown[] = [];
      const log = new NotificationType<string>('log');
      const pairOf = new NotificationType2<string, number>('pair');
      server.onNotification(log, (text) => void seen.push(text));
      server.onNotification(pairOf, (text, number) => void seen.push([text, number]));
      server.onUnhandledNotification(({ method }) => void seen.push(`unhandled ${method}`));
      client.listen();
      server.listen();
      for (let at = 0; at < 50; at += 1) await client.sendNotification(log, `line ${at}`);
      await client.sendNotification(pairOf, 'a', 1);
      await client.sendNotification('strange');
      await until(() => seen.length === 52);
      expect(seen.slice(0, 50)).toEqual(Array.from({ length: 50 }, (_, at) => `line ${at}`));
      expect(seen.slice(50)).toEqual([['a', 1], 'unhandled strange']);
    }));

  it('cancellation reaches the handler', () =>
    withEnds(openPair, async ({ client, server }) => {
      const cancelled = withResolvers<void>();
      server.onRequest('wait', (token) => {
        return new Promise((_resolve, reject) => {
          token.onCancellationRequested(() => {
            cancelled.resolve();
            reject(new ResponseError(ErrorCodes.InternalError, 'given up'));
          });
        });
      });
      client.listen();
      server.listen();
      const source = new CancellationTokenSource();
      const waiting = client.sendRequest('wait', source.token);
      source.cancel();
      await cancelled.promise;
      await expect(waiting).rejects.toMatchObject({ message: 'given up' });
    }));

  it('progress', () =>
    withEnds(openPair, async ({ client, server }) => {
      const type = new ProgressType<number>();
      const work = new RequestType0<string, void>('work');
      server.onRequest(work, async () => {
        for (const percent of [10, 50, 90]) await server.sendProgress(type, 'token', percent);
        return 'done';
      });
      const seen: number[] = [];
      client.onProgress(type, 'token', (percent) => void seen.push(percent));
      client.listen();
      server.listen();
      expect(await client.sendRequest(work)).toBe('done');
      expect(seen).toEqual([10, 50, 90]);
    }));

  it('tracing', () =>
    withEnds(openPair, async ({ client, server }) => {
      const traced: string[] = [];
      server.onRequest(add, ({ a, b }) => a + b);
      client.listen();
      server.listen();
      await client.trace(Trace.Verbose, { log: (text: unknown) => void traced.push(String(text)) });
      await client.sendRequest(add, { a: 1, b: 2 });
      await until(() => traced.length >= 2);
      expect(traced.join()).toContain("Sending request 'add");
    }));

  it('what one end writes before the other is there is not lost', async () => {
    await using pair = await openPair();
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    client.listen();
    const early = client.sendRequest(add, { a: 20, b: 22 });
    await new Promise((resolve) => setTimeout(resolve, 60)); // refused and tried again meanwhile
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    server.onRequest(add, ({ a, b }) => a + b);
    server.listen();
    expect(await early).toBe(42);
    client.dispose();
    server.dispose();
  });

  it('a message of megabytes, and deeper nesting than calls allow', () =>
    withEnds(openPair, async ({ client, server }) => {
      server.onRequest('echo', (value: unknown) => value);
      client.listen();
      server.listen();
      const long = { text: 'x'.repeat(3_000_000) };
      expect(await client.sendRequest('echo', long)).toEqual(long);
      let deep: object = {};
      for (let at = 0; at < 500; at += 1) deep = { parent: deep };
      expect(await client.sendRequest('echo', deep)).toEqual(deep);
    }));

  it('one that is too long rejects, and the connection lives', () =>
    withEnds(openPair, async ({ client, server }) => {
      server.onRequest(add, ({ a, b }) => a + b);
      const errors: unknown[] = [];
      client.onError(([error]) => void errors.push((error as { code?: string }).code));
      client.listen();
      server.listen();
      await expect(client.sendNotification('log', 'x'.repeat(5_000_000))).rejects.toThrow();
      expect(errors).toEqual(['ERR_SIDECALL_MESSAGE_TOO_LARGE']);
      expect(await client.sendRequest(add, { a: 1, b: 1 })).toBe(2);
    }));

  it('ends: end() and dispose() close the other connection, and the session goes on', async () => {
    await using pair = await openPair();
    for (let round = 0; round < 2; round += 1) {
      const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
      const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
      const closed = new Promise<void>((resolve) => server.onClose(resolve));
      server.onRequest(add, ({ a, b }) => a + b);
      client.listen();
      server.listen();
      expect(await client.sendRequest(add, { a: round, b: 1 })).toBe(round + 1);
      client.end();
      client.dispose();
      await closed;
      server.dispose();
    }
    expect(pair.near.state).toBe('open');
    await until(() => pair.near.stats().calls.open === 0);
  });

  it('the end of the session closes both, without waiting for its deadline', async () => {
    const pair = await openPair();
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    const closed = Promise.all(
      [client, server].map((end) => new Promise<void>((resolve) => end.onClose(resolve))),
    );
    client.listen();
    server.listen();
    await client.sendNotification('hello');
    await pair.near.close({ deadlineMs: 600_000 });
    await closed;
  });

  it('a peer that dies is an error and a close', async () => {
    const pair = await openPair();
    const client = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    const server = connectionOver(jsonrpcTransport(pair.far, { opens: false }));
    const codes: unknown[] = [];
    client.onError(([error]) => void codes.push((error as { code?: string }).code));
    const closed = new Promise<void>((resolve) => client.onClose(resolve));
    client.listen();
    server.listen();
    await client.sendNotification('hello');
    pair.cut();
    await closed;
    expect(codes).toContain('ERR_SIDECALL_PEER_GONE');
    expect(() => client.sendRequest('more')).toThrow('closed');
  });
});

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
    const { reader, writer } = jsonrpcTransport(pair.near, { opens: true, timeoutMs: 30 });
    const failed = new Promise<unknown>((resolve) => reader.onError(resolve));
    const closed = new Promise<void>((resolve) => reader.onClose(resolve));
    reader.listen(() => undefined);
    const writing = writer.write({ jsonrpc: '2.0' });
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
    for (let id = 1; id <= 200; id += 1) {
      void writer.write({ jsonrpc: '2.0', id, method: 'text' } as never);
    }
    await until(() => asked > 16);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const before = asked;
    expect(before).toBeLessThan(30); // 64 MiB of responses, and what was asked before the first of them waited
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(asked).toBe(before);
    const ids = new Set<unknown>();
    reader.listen((message) => void ids.add((message as { id?: unknown }).id));
    await until(() => ids.size === 200);
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
    for (let id = 1; id <= 300; id += 1) {
      void writer.write({ jsonrpc: '2.0', id, method: 'text' } as never);
    }
    await until(() => asked >= 16);
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(asked).toBeLessThan(64);
    const ids = new Set<unknown>();
    reader.listen((message) => void ids.add((message as { id?: unknown }).id));
    await until(() => ids.size === 300);
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
    expect(() => stdioTransport({ stdin: null, stdout: null })).toThrow("stdio: ['pipe', 'pipe'");
    const { reader } = jsonrpcTransport(near, { opens: true });
    reader.listen(() => undefined);
    expect(() => reader.listen(() => undefined)).toThrow(TypeError);
    await close();
  });
});

describe('stdioTransport()', () => {
  it('outlives a pipe that breaks', async () => {
    const stdin = new PassThrough();
    const stdout = new PassThrough();
    const { reader } = stdioTransport({ stdin, stdout });
    const closed = new Promise<void>((resolve) => reader.onClose(resolve));
    reader.listen(() => undefined);
    stdin.destroy(new Error('EPIPE'));
    stdout.destroy(new Error('gone'));
    await closed;
  });
});

describe('a real language server', () => {
  const schema = {
    type: 'object',
    properties: { colour: { enum: ['red', 'green'] }, size: { type: 'number' } },
  };

  /** Opens a document with a mistake in it; asks for completions, and waits for the diagnostics. */
  async function useServer(connection: MessageConnection): Promise<void> {
    const found = withResolvers<{ uri: string; diagnostics: { message: string }[] }>();
    connection.onNotification('textDocument/publishDiagnostics', (params) => {
      if (params.diagnostics.length > 0) found.resolve(params);
    });
    connection.onRequest('client/registerCapability', () => null);
    connection.onRequest('workspace/configuration', () => [null]);
    connection.listen();
    const { capabilities } = await connection.sendRequest<{ capabilities: object }>('initialize', {
      processId: process.pid,
      rootUri: null,
      capabilities: {
        textDocument: { completion: { completionItem: { snippetSupport: true } } },
        workspace: { didChangeConfiguration: { dynamicRegistration: true } },
      },
    });
    expect(capabilities).toHaveProperty('completionProvider');
    await connection.sendNotification('initialized', {});
    await connection.sendNotification('workspace/didChangeConfiguration', {
      settings: {
        json: { validate: { enable: true }, schemas: [{ fileMatch: ['*.json'], schema }] },
      },
    });
    const uri = 'file:///paint.json';
    await connection.sendNotification('textDocument/didOpen', {
      textDocument: { uri, languageId: 'json', version: 1, text: '{ "colour": "blue", "" }' },
    });
    const { diagnostics } = await found.promise;
    expect(diagnostics.map(({ message }) => message).join()).toContain('"red", "green"');
    const completions = await connection.sendRequest<{ items: { label: string }[] }>(
      'textDocument/completion',
      { textDocument: { uri }, position: { line: 0, character: 21 } },
    );
    expect(completions.items.map(({ label }) => label)).toContain('size');
    await connection.sendRequest('shutdown');
    await connection.sendNotification('exit');
  }

  it('unmodified, over stdio', async () => {
    const server = require.resolve('vscode-json-languageserver');
    const child = spawn(process.execPath, [server, '--stdio'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    const connection = connectionOver(stdioTransport(child));
    const closed = new Promise<void>((resolve) => connection.onClose(resolve));
    await useServer(connection);
    expect(await exited).toEqual([0, null]);
    await closed;
    connection.dispose();
  });

  it('with its transport swapped, over a session with the kernel-checked helper', async () => {
    const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
    const helper = await spawnHelper(process.execPath, [programPath('json-language-server.mjs')], {
      limits,
    });
    expect(helper.session.lane).toBe('ring');
    const connection = connectionOver(jsonrpcTransport(helper.session));
    await useServer(connection);
    expect(await helper.exited).toEqual({ code: 0, signal: null });
    connection.dispose();
    await helper.close();
  });
});
