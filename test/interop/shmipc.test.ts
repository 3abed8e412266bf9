// A Go program with the real shmipc-go, in both roles, against our adapter.
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  connectShmipc,
  listenShmipc,
  type ShmipcListener,
  type ShmipcSession,
} from '../../src/shmipc/main.ts';
import { until } from '../support/contract.ts';
import { goProgram } from '../support/go.ts';
import { type RunningProgram, scratchDirectory, startProgram } from '../support/programs.ts';

const trusting = { trustsPeerMemory: true } as const;

function shmipc(role: string, path: string, kind: string, ...numbers: number[]): RunningProgram {
  const args = [role, path, kind, ...numbers.map(String)];
  return startProgram('shmipc', args, { command: goProgram('shmipc') });
}

const memoryFiles = (pid: number): string[] =>
  readdirSync('/dev/shm').filter((name) => name.startsWith(`sidecall_test_${pid}_`));

async function serving(
  kind: string,
): Promise<AsyncDisposable & { path: string; go: RunningProgram }> {
  const scratch = scratchDirectory();
  const path = scratch.file('go');
  const go = shmipc('serve', path, kind);
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

/** A listener that sends back what it receives. */
async function echoing(): Promise<
  AsyncDisposable & { listener: ShmipcListener; seen: ShmipcSession[] }
> {
  const listener = await listenShmipc(trusting);
  const seen: ShmipcSession[] = [];
  void (async () => {
    for await (const session of listener) {
      seen.push(session);
      void (async () => {
        for await (const stream of session) stream.on('error', () => undefined).pipe(stream);
      })();
    }
  })();
  return { listener, seen, [Symbol.asyncDispose]: () => listener.close() };
}

/** Sends a message on a new stream, and reads as much as it sent. */
async function roundTrip(session: ShmipcSession, message: Buffer): Promise<Buffer> {
  await using stream = session.open();
  stream.write(message);
  return await readBytes(stream, message.byteLength);
}

async function readBytes(stream: AsyncIterable<Buffer>, count: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes >= count) break;
  }
  return Buffer.concat(chunks);
}

function pattern(bytes: number, seed: number): Buffer {
  const message = Buffer.allocUnsafe(bytes);
  for (let at = 0; at < bytes; at += 1) message[at] = at * 7 + seed;
  return message;
}

describe('our server of Go clients', () => {
  it.each([
    ['file', 1, 100, 20, 100, 8_192],
    ['memfd', 1, 100, 20, 100, 8_192],
    ['file', 4, 200, 10, 4_000, 8_192],
    ['memfd', 4, 200, 10, 4_000, 8_192],
    ['memfd', 1, 16, 10, 200_000, 8_192],
    ['memfd', 1, 2, 2, 40_000_000, 8_192],
    ['memfd', 1, 64, 200, 1_000, 16],
    ['memfd', 1, 64, 50, 1_000, 1_000],
  ])(
    '%s, %d sessions, %d streams, %d rounds of %d bytes, a queue of %d',
    async (kind, sessions, streams, rounds, bytes, queue) => {
      await using server = await echoing();
      await using go = shmipc(
        'call',
        server.listener.path,
        kind,
        sessions,
        streams,
        rounds,
        bytes,
        queue,
      );
      expect(await go.next()).toEqual({ streams, rounds, bytes });
      expect(server.seen[0]?.peer.pid).toBe(go.child.pid);
      await until(() => server.listener.sessionCount === 0);
    },
  );

  it.each(['file', 'memfd'])('tells the death of a client with memory by %s', async (kind) => {
    await using listener = await listenShmipc(trusting);
    await using go = shmipc('hold', listener.path, kind);
    await go.next();
    expect(memoryFiles(go.pid)).toHaveLength(kind === 'file' ? 2 : 0);
    for await (const session of listener) {
      for await (const stream of session) {
        expect(String(await readBytes(stream.iterator({ destroyOnReturn: false }), 5))).toBe(
          'hello',
        );
        go.child.kill('SIGKILL');
        await expect(readBytes(stream, 1)).rejects.toMatchObject({
          code: 'ERR_SIDECALL_PEER_GONE',
        });
        break;
      }
      expect((await session.closed)?.code).toBe('ERR_SIDECALL_PEER_GONE');
      break;
    }
    // As a server in Go, ours removes the files of a client that cannot.
    await until(() => memoryFiles(go.pid).length === 0);
  });
});

describe.each(['sync', 'callback'])('our client of a Go server (%s)', (kind) => {
  it('echoes messages of all sizes', async () => {
    await using served = await serving(kind);
    await using session = await connectShmipc({ path: served.path, ...trusting });
    expect(session.peer.pid).toBe(served.go.child.pid);
    for (const bytes of [1, 63, 8_172, 8_173, 131_052, 131_053, 1_000_000, 5_000_000]) {
      const message = pattern(bytes, bytes);
      expect((await roundTrip(session, message)).equals(message)).toBe(true);
    }
  });

  it('runs a thousand streams at once, on a small queue', async () => {
    await using served = await serving(kind);
    await using session = await connectShmipc({
      path: served.path,
      ...trusting,
      queueCapacity: 16,
    });
    const messages = Array.from({ length: 1_000 }, (_, at) => pattern(1_000, at));
    const answers = await Promise.all(messages.map((message) => roundTrip(session, message)));
    expect(answers.every((answer, at) => answer.equals(messages[at] as Buffer))).toBe(true);
    await until(() => session.stats().streams === 0);
  });

  it('sends more than the memory holds', async () => {
    await using served = await serving(kind);
    const bufferBytes = 1024 * 1024;
    await using session = await connectShmipc({ path: served.path, ...trusting, bufferBytes });
    const message = pattern(40_000_000, 3);
    expect((await roundTrip(session, message)).equals(message)).toBe(true);
  });

  it('tells streams that the server was killed', async () => {
    await using served = await serving(kind);
    const session = await connectShmipc({ path: served.path, ...trusting });
    const stream = session.open();
    stream.write('hello');
    expect(String(await readBytes(stream.iterator({ destroyOnReturn: false }), 5))).toBe('hello');
    served.go.child.kill('SIGKILL');
    const gone = { code: 'ERR_SIDECALL_PEER_GONE' };
    await expect(readBytes(stream, 1)).rejects.toMatchObject(gone);
    expect(await session.closed).toMatchObject(gone);
    expect(() => session.open()).toThrow('was closed');
  });
});
