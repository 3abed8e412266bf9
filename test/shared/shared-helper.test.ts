// One helper for all programs of a user, with real processes.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { sharedHelper } from '../../src/shared/shared-helper.ts';
import type { SharedHelperOptions } from '../../src/shared/shared-options.ts';
import { sharedPath, sharedPaths } from '../../src/shared/shared-path.ts';
import { until } from '../support/contract.ts';
import { isRunning } from '../support/helper.ts';
import { programPath, scratchDirectory, startProgram } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const Clock = service('Clock', {
  where: unary<void, { pid: number; manner: string; env: Record<string, string>; cwd: string }>(),
  block: unary<number, void>(),
  wait: unary<number, number>(),
});
const base = { version: '1.0.0', program: process.execPath, idleTimeoutMs: 300 };
let count = 0;
let pids: number[] = [];

/** A name that no other test uses. */
function fresh(): string {
  count += 1;
  return `test-${process.pid}-${count}`;
}

async function use(name: string, options: Partial<SharedHelperOptions> = {}, ...args: string[]) {
  const all = { ...base, name, args: [programPath('shared.mjs'), ...args], ...options };
  const helper = await sharedHelper(all);
  const clock = helper.client(Clock);
  const { pid, ...where } = await clock.where();
  pids.push(pid);
  return { helper, clock, pid, ...where };
}

/** A process that holds the lock of a file. */
async function holdLock(file: string): Promise<ChildProcess> {
  const script = `import fcntl, sys, time
file = open(sys.argv[1], 'w')
fcntl.flock(file, fcntl.LOCK_EX)
print('held', flush=True)
time.sleep(600)`;
  const child = spawn('python3', ['-c', script, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return child;
}

afterEach(async () => {
  for (const pid of pids) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  await until(() => !pids.some(isRunning));
  pids = [];
  const directory = dirname(sharedPath('any', undefined));
  const mine = new RegExp(`^shared-test-${process.pid}-`);
  for (const file of readdirSync(directory)) if (mine.test(file)) rmSync(`${directory}/${file}`);
});

describe('sharedHelper()', () => {
  it('is one for all that ask, outlives them, and ends when nobody uses it', async () => {
    const name = fresh();
    const uses = await Promise.all(Array.from({ length: 20 }, () => use(name)));
    expect(new Set(uses.map(({ pid }) => pid)).size).toBe(1);
    const [{ pid } = { pid: 0 }] = uses;
    await using program = startProgram('shared-user.mjs', [name, '1.0.0']);
    expect(await program.next()).toEqual({ pid });
    await program.exited;
    for (const { helper } of uses.slice(1)) await helper.close();
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(await uses[0]?.clock.wait(0)).toBe(pid); // it is used: it does not end
    await uses[0]?.helper.close();
    await until(() => !isRunning(pid));
    expect(sharedPaths()).not.toContain(sharedPath(name, undefined));
  });

  it('takes nothing from the program that starts it but a few variables', async () => {
    process.env.OF_THE_STARTER = 'secret';
    const name = fresh();
    const { helper, env, cwd } = await use(name, { env: { MINE: 'yes' } });
    delete process.env.OF_THE_STARTER;
    expect(env).toMatchObject({ MINE: 'yes', PATH: process.env.PATH });
    expect(env).not.toHaveProperty('OF_THE_STARTER');
    expect(env).not.toHaveProperty('SIDECALL_SHARED');
    expect(cwd).toBe('/');
    await helper.close();
  });

  it('names the program that has begun to start it, and does not come on', async () => {
    const name = fresh();
    const path = sharedPath(name, undefined);
    const held = await holdLock(`${path}.start`);
    const { code, message } = await use(name, { startTimeoutMs: 100 }).catch((error) => error);
    held.kill('SIGKILL');
    expect(code).toBe('ERR_SIDECALL_HELPER_FAILED');
    expect(message).toContain(`process ${held.pid} starts it, and holds ${path}.start`);
  });

  it('has another helper for each key', async () => {
    const name = fresh();
    const one = await use(name, { key: '/home/a/project' });
    const other = await use(name, { key: '../../etc' });
    const again = await use(name, { key: '/home/a/project' });
    expect(other.pid).not.toBe(one.pid);
    expect(again.pid).toBe(one.pid);
    for (const { helper } of [one, other, again]) await helper.close();
  });

  it('is started again when it dies, and calls that it had not begun are made there', async () => {
    const name = fresh();
    const { helper, clock, pid } = await use(name);
    process.kill(pid, 'SIGKILL');
    await helper.session.closed;
    const next = await clock.wait(0);
    pids.push(next);
    expect(next).not.toBe(pid);
    await helper.close();
  });

  it('is followed by a newer version, which finishes nothing twice; never by an older', async () => {
    const name = fresh();
    const old = await use(name);
    const slow = old.clock.wait(1_500);
    await old.clock.where();
    const newer = await use(name, { version: '1.10.0' }, 'newer');
    expect(newer.pid).not.toBe(old.pid);
    expect(newer.manner).toBe('newer');
    expect(await slow).toBe(old.pid); // it finishes its calls
    await until(() => !isRunning(old.pid));
    expect(await old.clock.wait(0)).toBe(newer.pid); // its users have moved
    const older = await use(name, { version: '1.9.9' });
    expect(older.pid).toBe(newer.pid);
    const used = await use(name, { version: '2.0.0', onOlder: 'use' });
    expect(used.pid).toBe(newer.pid);
    await expect(use(name, { version: '2.0.0', onOlder: 'fail' })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_VERSION_MISMATCH',
      message: expect.stringContaining('1.10.0'),
    });
    await expect(use(name, { version: '1.0.0', onNewer: 'fail' })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_VERSION_MISMATCH',
    });
    for (const { helper } of [old, newer, older, used]) await helper.close();
  });

  it('stays as it is where the version that takes over crashes, and names its exit', async () => {
    const name = fresh();
    const old = await use(name);
    await expect(use(name, { version: '3.0.0' }, 'crashes')).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringMatching(/exit code 9[\s\S]*no such database/),
    });
    expect(await old.clock.wait(0)).toBe(old.pid);
    await old.helper.close();
  });

  it('tells one that is busy from one that hangs', async () => {
    const name = fresh();
    const { helper, clock, pid } = await use(name);
    const blocked = clock.block(7_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const busy = await use(name); // waits until it has time
    expect(busy.pid).toBe(pid);
    await blocked;
    process.kill(pid, 'SIGSTOP');
    await expect(use(name)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_UNRESPONSIVE',
      message: expect.stringContaining('was stopped'),
    });
    process.kill(pid, 'SIGCONT');
    await helper.close();
    await busy.helper.close();
  });

  it('waits for one that loads what it needs without working, and so do others', async () => {
    const name = fresh();
    const first = use(name, {}, 'loads', '7000');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const [one, other] = await Promise.all([first, use(name, {}, 'loads', '7000')]);
    expect(one.pid).toBe(other.pid);
    await one.helper.close();
    await other.helper.close();
  });

  it('finishes its calls when it is told to end', async () => {
    const name = fresh();
    const { helper, clock, pid } = await use(name);
    const slow = clock.wait(6_500);
    await clock.where();
    process.kill(pid, 'SIGTERM');
    expect(await slow).toBe(pid);
    await helper.close();
  });

  it('tells an error of `ready` as the failure that it is', async () => {
    await expect(use(fresh(), {}, 'fails')).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('another path is taken'),
    });
  });

  it('ends a process that does not come to its path in time, and says so', async () => {
    using clock = new SteeredClock();
    using folder = scratchDirectory();
    const name = fresh();
    const program = new URL('../e2e/programs/never-listens.mjs', import.meta.url);
    const starting = sharedHelper({
      name,
      version: '1.0.0',
      program,
      args: [folder.file('runs')],
      startTimeoutMs: 600_000,
    }).then(
      () => new Error('it has started'),
      (reason) => reason,
    );
    await until(() => existsSync(folder.file('runs')));
    clock.advance(600_000);
    const error: Error = await starting;
    expect(error).toMatchObject({ code: 'ERR_SIDECALL_HELPER_FAILED' });
    const [, pid] = /process (\d+) took more than 600000 ms/.exec(error.message) ?? [];
    expect(error.message).toContain('waits for a lock that is not given');
    await until(() => !isRunning(Number(pid)));
  });

  it('is replaced by a newer version also where it takes no further session', async () => {
    const name = fresh();
    const old = await use(name, {}, 'full');
    await expect(use(name, { version: '0.9.0' })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_LIMIT_CONNECTIONS',
    });
    const newer = await use(name, { version: '2.0.0' });
    expect(newer.pid).not.toBe(old.pid);
    expect(await old.clock.wait(0)).toBe(newer.pid);
    await old.helper.close();
    await newer.helper.close();
  });

  it('is not started again by a program that calls nothing, however it has ended', async () => {
    const name = fresh();
    const { helper, pid, clock } = await use(name);
    process.kill(pid, 'SIGKILL');
    await until(() => helper.state.state === 'ended');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(helper.state.state).toBe('ended');
    const next = await clock.wait(0);
    pids.push(next);
    expect(next).not.toBe(pid);
    await helper.close();
  });

  it('fails where the helper does not start, and says why', async () => {
    const name = fresh();
    await expect(use(name, {}, 'crashes')).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringMatching(/exit code 9[\s\S]*no such database/),
    });
    await expect(use(name, { program: '/no/such/program', args: [] })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('ENOENT'),
    });
    const silent = { args: ['-e', 'setTimeout(() => {}, 3000)'], startTimeoutMs: 500 };
    await expect(use(name, silent)).rejects.toMatchObject({
      message: expect.stringContaining('startTimeoutMs'),
    });
  });

  it.each([
    [{ name: 'a/b' }, TypeError],
    [{ name: '..' }, TypeError],
    [{ name: 'a..b' }, TypeError],
    [{ name: 'x'.repeat(33) }, TypeError],
    [{ key: '' }, TypeError],
    [{ key: 'a\u001b[2J' }, TypeError],
    [{ version: '1.0' }, TypeError],
    [{ version: 'v1.0.0' }, TypeError],
    [{ version: '01.0.0' }, TypeError],
    [{ idleTimeoutMs: 1 }, RangeError],
    [{ onOlder: 'maybe' }, TypeError],
    [{ command: 'node' }, TypeError],
    [{ program: undefined }, TypeError],
    [{ args: 'x' }, TypeError],
  ])('rejects %j, which is misuse', async (options, kind) => {
    await expect(sharedHelper({ name: 'x', ...base, ...options } as never)).rejects.toThrow(kind);
  });
});
