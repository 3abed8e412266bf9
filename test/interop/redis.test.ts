// The example redis-like, and clients of redis: redis-cli and ioredis.
import { once } from 'node:events';
import { resolve } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
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
