// Every example, run by the commands of its README.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { until } from '../support/contract.ts';

const examples = resolve(import.meta.dirname, '..', '..', 'examples');

/** The commands of an example, as the table of `examples/README.md` has them. */
function commandsOf(example: string): string[] {
  const readme = readFileSync(join(examples, 'README.md'), 'utf8');
  const row = readme.split('\n').find((line) => line.startsWith(`| [${example}](`));
  return [...(row?.split('|').at(-2) ?? '').matchAll(/`(node [^`]+)`/g)].map(
    ([, line]) => `${line}`,
  );
}

/** The output that `examples/README.md` shows for the client of an example, moments as one. */
function shownOutput(example: string): string {
  const readme = readFileSync(join(examples, 'README.md'), 'utf8');
  const [, shown = ''] = readme.split(`The ${example} `)[1]?.split('```text\n') ?? [];
  return withoutMoments(shown.split('```')[0] ?? '');
}

function withoutMoments(output: string): string {
  return output.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'MOMENT');
}

interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Resolves once the output holds these words. */
  readonly shows: (words: string) => Promise<void>;
  /** Resolves to all of its output when it has ended by itself. */
  readonly ended: () => Promise<string>;
}

/** Types a command of the README in the folder of its example; `words` stand for its capitals. */
function type(
  folder: string,
  command: string | undefined,
  runtime: string,
  words: Record<string, string> = {},
): Started {
  const line = (command ?? 'exit 99').replaceAll(/\b[A-Z]+\b/g, (word) =>
    // A random name of a folder can be of capitals alone.
    words[word] === undefined ? word : `'${words[word]}'`,
  );
  const path = `${dirname(process.execPath)}:${process.env.PATH}`;
  const child = spawn('sh', ['-c', `exec ${line}`], {
    cwd: join(examples, folder),
    env: { ...process.env, PATH: path, XDG_RUNTIME_DIR: runtime },
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
    shows: (words) => {
      const shown = new Promise<void>((done) => {
        look = () => {
          if (output.includes(words)) done();
        };
        look();
      });
      const ended = exited.then(([code]) => {
        if (!output.includes(words)) throw new Error(`${line}: exit code ${code}, ${output}`);
      });
      return Promise.race([shown, ended]);
    },
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

describe('examples, by the commands of their README', () => {
  it.each([true, false])('time-ticker (in a runtime directory: %s)', async (hasRuntime) => {
    using folder = scratch();
    const runtime = hasRuntime ? folder.path('.') : '';
    const [server, client] = commandsOf('time-ticker');
    await using serving = type('time-ticker', server, runtime);
    await serving.shows('listening');
    const ticks = await type('time-ticker', client, runtime).ended();
    expect(withoutMoments(ticks)).toBe(shownOutput('time-ticker'));
  });

  it('time-ticker ends cleanly, whichever side is stopped first', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [server, client] = commandsOf('time-ticker');
    await using serving = type('time-ticker', server, runtime);
    await serving.shows('listening');
    await using stopped = type('time-ticker', client, runtime);
    await stopped.shows('Z\n');
    stopped.child.kill('SIGKILL');
    const second = type('time-ticker', client, runtime);
    await second.shows('Z\n');
    serving.child.kill('SIGTERM');
    // The stream ends, and both programs with exit code 0.
    expect(withoutMoments(await second.ended())).toMatch(/^(MOMENT\n){1,5}$/);
    await serving.ended();
  });

  it('word-stream', async () => {
    using folder = scratch();
    const [server, client] = commandsOf('word-stream');
    await using serving = type('word-stream', server, folder.path('.'));
    await serving.shows('listening');
    const words = await type('word-stream', client, folder.path('.')).ended();
    expect(words).toBe(shownOutput('word-stream'));
  });

  it('word-stream ends in order where its server is stopped, and serves on where its client is', async () => {
    using folder = scratch();
    const path = folder.path('s');
    await using serving = type('word-stream', `node server.mjs ${path}`, '');
    await serving.shows('listening');
    const meet = async () => {
      const session = await connect({ path });
      const channel = session.openChannel(json<unknown>(), { name: 'words' });
      await channel.send({ word: 'one' });
      expect((await channel.next()).value).toEqual({ words: ['one'] });
      return { session, channel };
    };
    const stopped = await meet();
    stopped.session.terminate(new SidecallError('ERR_SIDECALL_CLOSED')); // without a word to the server
    const { session, channel } = await meet();
    serving.child.kill('SIGTERM');
    expect((await channel.next()).done).toBe(true); // an end, not a failure
    await channel.end();
    expect(await session.closed).toBeUndefined();
    await serving.ended();
  });

  it('quote-of-the-day', async () => {
    const [main] = commandsOf('quote-of-the-day');
    expect(await type('quote-of-the-day', main, '').ended()).toBe(shownOutput('quote-of-the-day'));
  });

  it.each(['main', 'helper'])(
    'quote-of-the-day leaves no process behind where its %s is stopped first',
    async (first) => {
      const [main = ''] = commandsOf('quote-of-the-day');
      const cwd = join(examples, 'quote-of-the-day');
      const child = spawn('sh', ['-c', `exec ${main}`], { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
      let said = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk) => {
          said += chunk;
        });
      }
      const exited = once(child, 'exit');
      const closed = once(child, 'close'); // the helper has the same standard error
      const helperOf = (): number =>
        Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'));
      await until(() => helperOf() > 0);
      const helper = helperOf();
      process.kill(helper, 'SIGSTOP'); // so that the program has not ended by itself
      if (first === 'main') child.kill('SIGTERM');
      else process.kill(helper, 'SIGKILL');
      const [code, signal] = await exited;
      if (first === 'main') process.kill(helper, 'SIGCONT');
      await until(() => !existsSync(`/proc/${helper}`));
      await closed;
      if (first === 'main') expect(signal).toBe('SIGTERM');
      else {
        expect(code).toBe(1);
        expect(said).toContain('ERR_SIDECALL_HELPER_FAILED');
      }
    },
  );

  it('time-ticker ends in order where the reader of its output has ended', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [server, client = ''] = commandsOf('time-ticker');
    await using serving = type('time-ticker', server, runtime);
    await serving.shows('listening');
    const two = type('time-ticker', `bash -o pipefail -c '${client} | head -n 2'`, runtime);
    expect(withoutMoments(await two.ended())).toBe('MOMENT\nMOMENT\n');
  });

  it('file-copy', async () => {
    using folder = scratch();
    const bytes = randomBytes(5_000_000);
    writeFileSync(folder.path('from'), bytes);
    const [main] = commandsOf('file-copy');
    const places = { FROM: folder.path('from'), TO: folder.path('to') };
    expect(await type('file-copy', main, '', places).ended()).toBe('5000000 bytes, the same\n');
    expect(readFileSync(folder.path('to')).equals(bytes)).toBe(true);
  });

  it('hash-folder', async () => {
    using folder = scratch();
    const files = Object.fromEntries(
      ['a', 'b', 'c', 'd'].map((name) => [name, randomBytes(name === 'c' ? 3_000_000 : 1_000)]),
    );
    for (const [name, bytes] of Object.entries(files)) writeFileSync(folder.path(name), bytes);
    const [main] = commandsOf('hash-folder');
    const printed = await type('hash-folder', main, '', { FOLDER: folder.path('.') }).ended();
    const lines = Object.entries(files).map(
      ([name, bytes]) => `${createHash('sha256').update(bytes).digest('hex')}  ${name}\n`,
    );
    expect(printed).toBe(lines.join(''));
  });

  it('hand-over', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [server, client, next] = commandsOf('hand-over');
    await using first = type('hand-over', server, runtime, { VERSION: '1' });
    await first.shows('version 1 listens');
    await using calling = type('hand-over', client, runtime);
    await calling.shows('hello you, from 1');
    await using second = type('hand-over', next, runtime, { NEXT: '2' });
    await calling.shows('hello you, from 2');
    expect(await first.ended()).toContain('version 1 ends: 1 sessions moved to the next');
    calling.child.kill('SIGINT');
    expect(await calling.ended()).toMatch(/\d+ calls/);
    second.child.kill('SIGINT');
    expect(await second.ended()).toContain('version 2 ends');
  });

  it('warm-daemon', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [cli] = commandsOf('warm-daemon');
    const sidecall = `node ${resolve(examples, '..', 'dist', 'cli', 'main.js')}`;
    const daemonOf = async (): Promise<number> => {
      expect(await type('warm-daemon', cli, runtime, { TEXT: 'ba' }).ended()).toContain(
        'of 500000 words',
      );
      const [row] = JSON.parse(await type('.', `${sidecall} ps --json`, runtime).ended());
      return row.pid;
    };
    const first = await daemonOf();
    expect(await daemonOf()).toBe(first);
    const stopping = type('.', `${sidecall} stop warm-daemon-example`, runtime);
    expect(await stopping.ended()).toContain('has ended');
  });

  it('structs', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [server, client] = commandsOf('structs');
    await using serving = type('structs', server, runtime);
    await serving.shows('listening');
    const lines = (await type('structs', client, runtime).ended()).trim().split('\n');
    expect(lines.map((line) => line.replace(/[\d,]+/, 'N'))).toEqual([
      'ring: N calls a second',
      'ring: N messages a second',
      'socket: N calls a second',
      'socket: N messages a second',
    ]);
  });

  it('structs answers the call that runs at SIGTERM, removes its path, and exits with 0', async () => {
    using folder = scratch();
    const path = folder.path('s');
    await using serving = type('structs', `node server.mjs ${path}`, '');
    await serving.shows('listening');
    const client = type('structs', `node client.mjs ${path} settle`, '');
    await Promise.race([serving.shows('settling 1'), client.shows('settled')]);
    serving.child.kill('SIGTERM');
    expect(await client.ended()).toBe('settled at 101\n');
    await serving.ended();
    expect(existsSync(path)).toBe(false);
  });

  it.each(['chat', 'time-ticker', 'word-stream', 'redis-like', 'structs'])(
    '%s ends at SIGTERM: its path is gone, exit code 0',
    async (example) => {
      using folder = scratch();
      const path = folder.path('s');
      await using serving = type(example, `node server.mjs ${path}`, '');
      await serving.shows('listening');
      expect(existsSync(path)).toBe(true);
      serving.child.kill('SIGTERM');
      await serving.ended();
      expect(existsSync(path)).toBe(false);
    },
  );

  it('a second SIGTERM ends a server at once, with a call under way', async () => {
    using folder = scratch();
    const path = folder.path('s');
    await using serving = type('structs', `node server.mjs ${path} 600000`, '');
    await serving.shows('listening');
    await using _client = type('structs', `node client.mjs ${path} settle`, '');
    await serving.shows('settling 1');
    serving.child.kill('SIGTERM');
    await until(() => !existsSync(path)); // the first one was heard
    serving.child.kill('SIGTERM');
    const [code, signal] = await once(serving.child, 'close');
    expect({ code, signal }).toEqual({ code: null, signal: 'SIGTERM' });
  });

  it('redis-like', async () => {
    using folder = scratch();
    const [server] = commandsOf('redis-like');
    await using serving = type('redis-like', server, folder.path('.'), { PATH: folder.path('s') });
    await serving.shows('listening');
    const socket = createConnection(folder.path('s'));
    let said = '';
    socket.setEncoding('utf8').on('data', (text) => {
      said += text;
    });
    const incr = '*2\r\n$4\r\nincr\r\n$3\r\nfoo\r\n';
    for (const byte of incr) socket.write(byte); // cut at every byte
    socket.write(incr + incr);
    socket.write('*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nä\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n');
    socket.write(
      '*2\r\n$3\r\nGET\r\n$1\r\nx\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$3\r\nGET\r\n',
    );
    await until(() => said.includes('wrong number'));
    expect(said).toBe(
      ":1\r\n:2\r\n:3\r\n+OK\r\n$2\r\nä\r\n$-1\r\n-ERR value is not an integer or out of range\r\n-ERR wrong number of arguments for 'get' command\r\n",
    );
    said = '';
    socket.write('*1\r\n$99999999\r\n');
    await once(socket, 'close');
    expect(said).toBe("-ERR Protocol error: invalid length '$99999999'\r\n");
  });

  it('python-helper', async () => {
    const [main] = commandsOf('python-helper');
    const said = await type('python-helper', main, '', { TEXT: 'two words' }).ended();
    expect(said).toBe('2 words, over the socket lane\ntwo: 3\nwords: 5\n');
  });

  it('chat', async () => {
    using folder = scratch();
    const runtime = folder.path('.');
    const [server, client] = commandsOf('chat');
    await using serving = type('chat', server, runtime);
    await serving.shows('listening');
    await using ada = type('chat', client, runtime, { NAME: 'ada' });
    await ada.shows('joined');
    await using bob = type('chat', client, runtime, { NAME: 'bob' });
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
