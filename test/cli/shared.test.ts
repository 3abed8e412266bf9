// sidecall ps and stop, with real shared helpers.
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { sharedHelper } from '../../src/shared/shared-helper.ts';
import { sharedPath } from '../../src/shared/shared-path.ts';
import { logOf } from '../../src/shared/start-shared.ts';
import { until } from '../support/contract.ts';
import { isRunning } from '../support/helper.ts';
import { programPath } from '../support/programs.ts';

const Clock = service('Clock', { wait: unary<number, number>() });
const command = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

const name = `cli-${process.pid}`;
const start = (key?: string, ...manner: string[]) =>
  sharedHelper({
    name,
    key,
    version: '1.2.3',
    program: process.execPath,
    args: [programPath('shared.mjs'), ...manner],
  });

describe('sidecall ps and stop', () => {
  it('list helpers by name, version, process, users and time, and end them', async () => {
    const helper = await start();
    const keyed = await start('/a/project');
    const { pid } = helper.peer;
    const listed = await run('ps');
    const rows = listed.stdout.split('\n').filter((line) => line.startsWith(name));
    expect(rows).toHaveLength(2);
    expect(rows.join('\n')).toMatch(new RegExp(`${name} +1\\.2\\.3 +${pid} +1 +\\d+ s`));
    expect(rows.join('\n')).toContain('/a/project');
    const json = JSON.parse((await run('ps', '--json')).stdout);
    const row = json.find(({ info }: { info?: { pid: number } }) => info?.pid === pid);
    expect(row.info).toMatchObject({ name, version: '1.2.3', idleTimeoutMs: 60_000, clients: 2 });
    await keyed.close();
    expect((await run('stop', name, '--key', '/a/project')).code).toBe(0);
    expect(isRunning(pid as number)).toBe(true);
    await helper.close();
    const stopped = await run('stop', name);
    expect(stopped).toMatchObject({ code: 0, stdout: `${name}: process ${pid} has ended\n` });
    await until(() => !isRunning(pid as number));
    expect(await run('stop', name)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`no shared helper ${name} runs`),
    });
  });

  it('end one that programs are connected to: it is started again by a call, not before', async () => {
    const helper = await start();
    const other = await start();
    const pid = helper.peer.pid as number;
    expect((await run('stop', name)).code).toBe(0);
    await until(() => helper.state.state === 'ended' && other.state.state === 'ended');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await run('ps')).stdout).not.toContain(name);
    expect(await other.client(Clock).wait(0)).not.toBe(pid);
    expect(other.state.state).toBe('connected');
    expect(helper.state.state).toBe('ended'); // it has called nothing
    expect(await helper.client(Clock).wait(0)).toBe(other.peer.pid);
    await Promise.all([helper.close(), other.close()]);
    expect((await run('stop', name)).code).toBe(0);
  });

  it('reach one that takes no further session', async () => {
    const helper = await start(undefined, 'full');
    const { pid } = helper.peer;
    expect((await run('ps')).stdout).toMatch(new RegExp(`${name} +1\\.2\\.3 +${pid} `));
    expect(await run('stop', name)).toMatchObject({ code: 0 });
    await helper.close();
  });

  it('end one that does not answer by force only', async () => {
    const helper = await start('/a/project');
    const other = await start('/b/project');
    const pid = helper.peer.pid as number;
    await helper.close();
    process.kill(pid, 'SIGSTOP');
    expect((await run('ps')).stdout).toContain('was stopped');
    expect(await run('stop', name, '--key', '/a/project')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--force'),
    });
    expect(await run('stop', name, '--key', '/a/project', '--timeout', '300')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/\b300 ms\b/),
    });
    expect((await run('stop', name, '--key', '/a/project', '--force')).code).toBe(0);
    await until(() => !isRunning(pid));
    expect(isRunning(other.peer.pid as number)).toBe(true); // that of another key
    await other.close();
    expect((await run('stop', name)).code).toBe(0);
    rmSync(sharedPath(name, '/a/project'), { force: true });
    for (const key of [undefined, '/a/project', '/b/project'])
      rmSync(logOf(sharedPath(name, key)), { force: true });
  });
});
