// The example redis-like, and clients of redis: redis-cli and ioredis.
import { once } from 'node:events';
import { resolve } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { listen } from '../../src/rendezvous/listen.ts';
import { run } from '../support/go.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const server = resolve(import.meta.dirname, '../../examples/redis-like/server.mjs');

async function serving(): Promise<AsyncDisposable & { path: string }> {
  const scratch = scratchDirectory();
  const path = scratch.file('s');
  const program = startProgram('redis-like', [server, path], { command: 'node' });
  await once(program.child.stdout as NodeJS.ReadableStream, 'data');
  return {
    path,
    async [Symbol.asyncDispose]() {
      await program[Symbol.asyncDispose]();
      scratch[Symbol.dispose]();
    },
  };
}

describe('examples/redis-like', () => {
  it('answers redis-cli', async () => {
    await using served = await serving();
    const cli = async (...args: string[]): Promise<string> =>
      (await run('redis-cli', ['-s', served.path, ...args])).stdout.trim();
    expect(await cli('PING')).toBe('PONG');
    expect(await cli('SET', 'key', 'a value')).toBe('OK');
    expect(await cli('GET', 'key')).toBe('a value');
    for (let count = 1; count <= 3; count += 1) expect(await cli('INCR', 'n')).toBe(String(count));
    expect(await cli('INCR', 'key')).toContain('not an integer');
    expect(await cli('FLUSHALL')).toContain("unknown command 'FLUSHALL'");
    const many = Array.from({ length: 1_000 }, () => 'INCR m').join('\n');
    const piped = await run('redis-cli', ['-s', served.path], many);
    expect(piped.stdout.trim().split('\n')).toHaveLength(1_000);
    expect(await cli('GET', 'm')).toBe('1000');
  });

  it('answers a client in C, whose requests are the same bytes each time', async () => {
    using scratch = scratchDirectory();
    const client = scratch.file('connect');
    const source = resolve(import.meta.dirname, '../../bench/peers/c/connect.c');
    await run('cc', ['-O2', '-o', client, source]);
    await using served = await serving();
    const counted = JSON.parse((await run(client, ['unix', served.path, '4', '2500'])).stdout);
    expect(counted).toMatchObject({ calls: 10_000, errors: 0, counter: 10_000 });
    const kept = JSON.parse((await run(client, ['unix', served.path, '1', '1000', 'kept'])).stdout);
    expect(kept).toMatchObject({ errors: 0, counter: 11_000 });
    await using listener = await listen({ protocol: 'plain' });
    const requests: string[] = [];
    void (async () => {
      for await (const connection of listener) {
        connection.on('data', (bytes) => {
          requests.push(String(bytes));
          connection.end(':1\r\n');
        });
      }
    })();
    await run(client, ['unix', listener.path, '1', '100']);
    const request = '*2\r\n$4\r\nincr\r\n$3\r\nfoo\r\n';
    expect(requests).toEqual(Array.from({ length: 100 }, () => request));
  });

  it('answers ioredis', async () => {
    await using served = await serving();
    const redis = new Redis(served.path);
    expect(await redis.set('key', 'ä value')).toBe('OK');
    expect(await redis.get('key')).toBe('ä value');
    const counts = await Promise.all(Array.from({ length: 1_000 }, () => redis.incr('n')));
    expect(counts).toEqual(Array.from({ length: 1_000 }, (_, at) => at + 1));
    await redis.quit().catch(() => undefined);
    redis.disconnect();
  });
});
