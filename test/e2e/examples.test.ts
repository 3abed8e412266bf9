// Every example, run by the commands of its README.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const examples = resolve(import.meta.dirname, '..', '..', 'examples');

interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Resolves once the output holds these words. */
  readonly shows: (words: string) => Promise<void>;
  /** Resolves to all of its output when it has ended by itself. */
  readonly ended: () => Promise<string>;
}

function start(folder: string, program: string, ...args: string[]): Started {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: join(examples, folder),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  let look: () => void = () => undefined;
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk;
    look();
  });
  const exited = once(child, 'close');
  return {
    child,
    shows: (words) =>
      new Promise((done) => {
        look = () => {
          if (output.includes(words)) done();
        };
        look();
      }),
    ended: async () => {
      const [code] = await exited;
      expect(code, output).toBe(0);
      return output;
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGINT');
      await exited;
    },
  };
}

function scratch(): { path: (name: string) => string } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'example-'));
  return {
    path: (name) => join(folder, name),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
}

describe('examples', () => {
  it('time-ticker', async () => {
    using folder = scratch();
    await using server = start('time-ticker', 'server.mjs', folder.path('s'));
    await server.shows('listening');
    const ticks = (await start('time-ticker', 'client.mjs', folder.path('s')).ended())
      .trim()
      .split('\n');
    expect(ticks.length).toBeGreaterThanOrEqual(5);
    for (const tick of ticks) expect(Number.isNaN(Date.parse(tick))).toBe(false);
  });

  it('word-stream', async () => {
    using folder = scratch();
    await using server = start('word-stream', 'server.mjs', folder.path('s'));
    await server.shows('listening');
    const words = await start('word-stream', 'client.mjs', folder.path('s')).ended();
    expect(words).toBe('brown fox jumps over the lazy dog and runs away\n');
  });

  it('quote-of-the-day', async () => {
    const lines = (await start('quote-of-the-day', 'main.mjs').ended()).split('\n');
    expect(lines[0]).toContain('Dijkstra');
    expect(lines[1]).toContain('Knuth');
    expect(lines[2]).toBe('Doomsday: not_found');
  });

  it('file-copy', async () => {
    using folder = scratch();
    const bytes = randomBytes(5_000_000);
    writeFileSync(folder.path('from'), bytes);
    const said = await start(
      'file-copy',
      'main.mjs',
      folder.path('from'),
      folder.path('to'),
    ).ended();
    expect(said).toBe('5000000 bytes, the same\n');
    expect(readFileSync(folder.path('to')).equals(bytes)).toBe(true);
  });

  it('python-helper', async () => {
    const said = await start('python-helper', 'main.mjs', 'two words').ended();
    expect(said).toBe('2 words, over the socket lane\ntwo: 3\nwords: 5\n');
  });

  it('chat', async () => {
    using folder = scratch();
    await using server = start('chat', 'server.mjs', folder.path('s'));
    await server.shows('listening');
    await using ada = start('chat', 'client.mjs', folder.path('s'), 'ada');
    await ada.shows('joined');
    await using bob = start('chat', 'client.mjs', folder.path('s'), 'bob');
    await ada.shows('bob: joined as uid');
    ada.child.stdin?.write('hello bob\n');
    await bob.shows('ada: hello bob');
    bob.child.stdin?.end('bye\n');
    await ada.shows('bob: bye');
    await ada.shows('bob: left');
    ada.child.stdin?.end();
    expect(await ada.ended()).toContain('bob: bye');
    expect(await bob.ended()).toContain('ada: hello bob');
  });
});
