// vscode-jsonrpc over a session: its documented features on every lane, and a real language server
// in both directions.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import {
  CancellationTokenSource,
  ErrorCodes,
  type MessageConnection,
  NotificationType,
  NotificationType2,
  ParameterStructures,
  ProgressType,
  RequestType0,
  ResponseError,
  Trace,
} from 'vscode-jsonrpc/node';
import { jsonrpcTransport, stdioTransport } from '../../src/adapters/jsonrpc.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { until } from '../support/contract.ts';
import { add, connectionOver, withResolvers } from '../support/jsonrpc.ts';
import { lanes, type Pair } from '../support/pairs.ts';
import { programPath } from '../support/programs.ts';

const require = createRequire(import.meta.url);

interface Ends {
  readonly pair: Pair;
  readonly client: MessageConnection;
  readonly server: MessageConnection;
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

  it('a peer that dies is a close, and no error, which would stop a client for good', async () => {
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
    expect(codes).toEqual([]);
    expect((await pair.near.closed)?.code).toBe('ERR_SIDECALL_PEER_GONE');
    expect(() => client.sendRequest('more')).toThrow('closed');
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
