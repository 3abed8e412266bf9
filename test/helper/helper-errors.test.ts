// Reports of helpers that do not start, or start slowly.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { startError, tailOf } from '../../src/helper/helper-errors.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { notification, service } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const built = new URL('../../dist/index.js', import.meta.url).href;

const identity = (error: unknown): unknown => error;

/** A module in a folder of its own. */
function moduleOf(code: string): Disposable & { url: URL } {
  const scratch = scratchDirectory();
  writeFileSync(scratch.file('helper.mjs'), code);
  return {
    url: pathToFileURL(scratch.file('helper.mjs')),
    [Symbol.dispose]: () => scratch[Symbol.dispose](),
  };
}

function blockFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const lanes = ['ring', 'socket'] as const;

describe.each(lanes)('calls of a helper that ends, over the %s lane', (lane) => {
  const hanging = `
    import { notification, parent, service, unary } from '${built}';
    const session = await parent();
    session.serve(service('Store', {
      save: unary(),
      exit: notification(),
      close: notification(),
    }), {
      save: () => new Promise(() => undefined),
      exit: (code) => process.exit(code),
      close: () => {
        setInterval(() => undefined, 1_000);
        session.terminate();
      },
    });`;

  it.each([
    ['its exit code', 'exit', 7, 'ended with exit code 7'],
    ['its signal', 'kill', 'SIGKILL', 'ended with signal SIGKILL'],
  ] as const)('name the method, the process and %s', async (_, how, what, end) => {
    using module = moduleOf(hanging);
    await using helper = await spawnHelper(module.url, [], { lane });
    const { pid } = helper;
    const failures = Promise.all(
      Array.from({ length: 200 }, () => helper.session.call('Store.save').catch(identity)),
    );
    await helper.session.ping();
    if (how === 'exit') await helper.session.notify('Store.exit', what);
    else process.kill(pid, what);
    const texts = (await failures).map((error) => (error as Error).message);
    const [text, ...others] = new Set(texts);
    expect(others).toEqual([]);
    // The helper may be killed before it has taken a call.
    const doing = / (no call was|\d+ calls?) running(: Store\.save for .*)?$/;
    expect(text?.split(';')[0]).toBe(`Store.save: helper ${pid} ${end}`);
    expect(text).toMatch(doing);
    const late = (await helper.session.call('Store.save').catch(identity)) as Error;
    expect(late).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'no' });
    expect(late.message).toContain(end);
  });

  it('name its signal also where much that it had sent is still to be read', async () => {
    using module = moduleOf(`
      import { parent, service, notification, unary } from '${built}';
      const session = await parent();
      const Parent = service('Parent', { note: notification() });
      const Store = service('Store', { save: unary(), flood: unary() });
      session.serve(Store, {
        save: () => new Promise(() => undefined),
        flood: () => {
          const parent = session.client(Parent);
          for (let n = 0; n < 20_000; n += 1) parent.note(n).catch(() => undefined);
          setTimeout(() => process.kill(process.pid, 'SIGKILL'), 50);
        },
      });`);
    await using helper = await spawnHelper(module.url, [], { lane });
    let notes = 0;
    helper.session.serve(service('Parent', { note: notification() }), {
      note: () => void (notes += 1),
    });
    const pending = helper.session.call('Store.save').catch(identity);
    await helper.session.call('Store.flood').catch(identity);
    blockFor(600); // it is dead, and its frames wait
    const ended = `Store.save: helper ${helper.pid} ended with signal SIGKILL; 1 call running`;
    const text = expect.stringContaining(ended);
    expect(await pending).toMatchObject({ message: text });
    expect(notes).toBeGreaterThan(0);
  });

  it('that are made between the end of its socket and its exit were not delivered', async () => {
    using module = moduleOf(hanging);
    await using helper = await spawnHelper(module.url, [], { lane });
    const { session } = helper;
    const pending = session.call('Store.save').catch(identity);
    await session.ping();
    await session.notify('Store.close');
    await session.draining;
    expect(session.state).toBe('draining'); // its exit is waited for
    const late = session.call('Store.save').catch(identity);
    expect(await pending).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' });
    expect(await late).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'no' });
    // The process runs on: only its socket has ended.
    const { message } = (await late) as Error;
    expect(message).toBe(`Store.save: the peer's end closed (pid ${helper.pid})`);
  });
});

describe('a helper that ends before its hello', () => {
  const noisy = `
    for (let line = 1; line <= 500; line += 1) console.error('line ' + line);
    console.error('Error: no such database');
    process.exitCode = 7;`;

  it('is named by its command line, with its end and the end of its standard error', async () => {
    using module = moduleOf(noisy);
    const error = await spawnHelper(module.url, ['--db', 'a b'], { stderr: 'pipe' }).catch(
      (reason: Error) => reason,
    );
    expect(error).toMatchObject({ code: 'ERR_SIDECALL_HELPER_FAILED', retryable: true });
    const { message } = error as Error;
    expect(message).toContain(`${process.execPath} `);
    expect(message).toMatch(/helper\.mjs --db "a b": process \d+ ended with exit code 7 before/);
    expect(message).toMatch(/standard error ends with:\n[\s\S]*line 500\nError: no such database$/);
    expect(message).not.toContain('line 1\n');
    expect(message.length).toBeLessThan(3_000);
  });

  it('is named without it where standard error goes elsewhere', async () => {
    using module = moduleOf('process.exit(3)');
    await expect(spawnHelper(module.url, [], { stderr: 'ignore' })).rejects.toThrow(
      /helper\.mjs: process \d+ ended with exit code 3 before its hello$/,
    );
  });

  it('and whose child holds its standard error is told all the same', async () => {
    using module = moduleOf(`
      import { spawn } from 'node:child_process';
      console.error('the last words');
      spawn('sleep', ['5'], { stdio: ['ignore', 'ignore', 'inherit'], detached: true }).unref();
      process.exit(1);`);
    await expect(spawnHelper(module.url, [], { stderr: 'pipe' })).rejects.toThrow('the last words');
  });
});

describe('a helper that says nothing', () => {
  const silent = 'setInterval(() => undefined, 1_000);';

  it('is told after 3 seconds, and at the end by name', async () => {
    using clock = new SteeredClock();
    using module = moduleOf(silent);
    const events: SidecallEvent[] = [];
    const options = {
      startTimeoutMs: 600_000,
      onEvent: (event: SidecallEvent) => events.push(event),
    };
    const failing = expect(spawnHelper(module.url, [], options)).rejects.toThrow(
      /helper\.mjs: it did not call parent\(\): .*not finished within 600000 ms/,
    );
    await until(() => events.length === 1);
    clock.advance(600_000);
    await failing;
    expect(events).toMatchObject([
      {
        type: 'helper-silent',
        waitedMs: expect.any(Number) as number,
        command: expect.stringContaining('helper.mjs') as string,
        error: { code: 'ERR_SIDECALL_HELPER_FAILED' },
      },
    ]);
    const [event] = events as [SidecallEvent & { readonly waitedMs: number }];
    expect(event.waitedMs).toBeGreaterThanOrEqual(3_000);
  });

  it('is a warning of the process where nobody takes events', async () => {
    using module = moduleOf(silent);
    const warned = once(process, 'warning');
    const stop = new AbortController();
    const starting = spawnHelper(module.url, [], { signal: stop.signal });
    const [warning] = (await warned) as [Error & { code: string }];
    expect(warning.code).toBe('SIDECALL_HELPER_SILENT');
    expect(warning.message).toMatch(/has not called parent\(\) for \d+ s: a helper in Node calls/);
    stop.abort(new Error('enough'));
    await expect(starting).rejects.toThrow('enough');
  });

  it('and is honest, and waits for something, starts as ever', async () => {
    using scratch = scratchDirectory();
    const told = scratch.file('told');
    using module = moduleOf(`
      import { existsSync } from 'node:fs';
      import { parent } from ${JSON.stringify(built)};
      while (!existsSync(${JSON.stringify(told)})) await new Promise((done) => setTimeout(done, 50));
      await parent();`);
    const types: string[] = [];
    const onEvent = ({ type }: SidecallEvent): void => {
      types.push(type);
      writeFileSync(told, '');
    };
    await using helper = await spawnHelper(module.url, [], { onEvent });
    expect(helper.session.state).toBe('open');
    expect(types).toEqual(['helper-silent']);
  });

  it('and is honest, and works, is not told of', async () => {
    using module = moduleOf(`
      import { parent } from ${JSON.stringify(built)};
      for (const end = performance.now() + 6_000; performance.now() < end; );
      await parent();`);
    const types: string[] = [];
    const options = { onEvent: ({ type }: SidecallEvent) => types.push(type) };
    await using helper = await spawnHelper(module.url, [], options);
    expect(helper.session.state).toBe('open');
    expect(types).toEqual([]);
  });

  it.each([true, false])(
    'and works for half a minute, is told of (by event: %s)',
    async (byEvent) => {
      using clock = new SteeredClock();
      using scratch = scratchDirectory();
      const begun = scratch.file('begun');
      using module = moduleOf(`import { existsSync, writeFileSync } from 'node:fs';
        writeFileSync(process.argv[2], '');
        for (;;);`);
      const stop = new AbortController();
      const warned = byEvent ? undefined : once(process, 'warning');
      const texts: string[] = [];
      const onEvent = ({ error }: SidecallEvent): unknown => texts.push(String(error?.message));
      const options = { startTimeoutMs: 600_000, signal: stop.signal };
      const own = byEvent ? { onEvent } : {};
      const starting = spawnHelper(module.url, [begun], { ...options, ...own });
      await until(() => existsSync(begun));
      await clock.pass(3_000);
      clock.advance(27_000);
      const [warning] = ((await warned) ?? []) as Error[];
      if (byEvent) await until(() => texts.length > 0);
      expect(warning?.message ?? texts[0]).toMatch(/for \d+ s: it is still starting; a helper/);
      stop.abort(new Error('enough'));
      await expect(starting).rejects.toThrow('enough');
    },
  );

  it.each([{ execArgv: ['--inspect-brk=0'] }, { env: { NODE_OPTIONS: '--inspect-brk=0' } }])(
    'has no time limit while it waits for a debugger (%j)',
    async ({ execArgv, env }) => {
      using module = moduleOf('');
      const stop = new AbortController();
      const starting = spawnHelper(module.url, [], {
        ...{ execArgv, env: { ...process.env, ...env }, signal: stop.signal },
        ...{ startTimeoutMs: 100, stderr: 'ignore' },
      });
      const outcome = Promise.race([
        starting.catch((error: Error) => error.message),
        new Promise((done) => setTimeout(done, 1_000, 'still waiting')),
      ]);
      expect(await outcome).toBe('still waiting');
      stop.abort(new Error('enough'));
      await expect(starting).rejects.toThrow('enough');
    },
  );
});

it('a program that is not there stays so, and is named', () => {
  const cause = Object.assign(new Error('spawn /absent ENOENT'), { syscall: 'spawn /absent' });
  const started = { command: '/absent', args: ['x'.repeat(1_000)], cwd: '/tmp', env: {} };
  const { message, retryable } = startError(started, cause);
  expect(message).toMatch(
    /^helper \/absent x+… \(in \/tmp\): it did not start: spawn \/absent ENOENT$/,
  );
  expect(message.length).toBeLessThan(500);
  expect(retryable).toBe(false);
});

it.each(['x.mjs', './x.mjs', 'x.js', 'x.ts', 'x.cts'])(
  'a module that is given as a program says what it is given by: %s',
  async (name) => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file(name), '');
    const starting = spawnHelper(name, [], { cwd: scratch.path });
    await expect(starting).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining(
        `a module is given by its URL: new URL('${name.replace('./', '')}', import.meta.url)`,
      ),
      retryable: false,
    });
  },
);

it('nothing is taken from a pipe that is being read', async () => {
  const child = spawn('echo', ['words'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let read = '';
  child.stdout.on('data', (chunk: Buffer) => {
    read += chunk;
  });
  expect(await tailOf(child.stdout)).toBe('');
  await once(child, 'close');
  expect(read).toBe('words\n');
  expect(await tailOf(null)).toBe('');
});

describe('a start that is given up before Node tells that it has failed', () => {
  // A table of moments: a few turns of promises lie between the start and its 'error'.
  it.each([0, 1, 2, 3, 4, 8])(
    'ends no other process, after %i turns of promises',
    async (count) => {
      const code = `
      import { spawnHelper } from ${JSON.stringify(built)};
      const stop = new AbortController();
      const starting = spawnHelper('/nowhere/program', [], { signal: stop.signal });
      const failed = starting.catch((error) => console.log(error.name));
      for (let turn = 0; turn < ${count}; turn += 1) await undefined;
      stop.abort();
      await failed;`;
      const args = ['--input-type=module', '-e', code];
      const stdio = ['ignore', 'pipe', 'inherit'] as const;
      // In a process group of its own, with nothing else.
      const child = spawn(process.execPath, args, { stdio: [...stdio], detached: true });
      const [said, [status, signal]] = await Promise.all([
        text(child.stdout as Readable),
        once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>,
      ]);
      expect({ said, status, signal }).toEqual({ said: 'AbortError\n', status: 0, signal: null });
    },
  );
});
