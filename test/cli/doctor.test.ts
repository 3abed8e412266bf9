// The command as a user runs it, and its self-test against a second process that answers wrongly.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { version } from '../../src/base/version.ts';
import { DoctorService, runSelfTest } from '../../src/cli/self-test.ts';
import type { Helper } from '../../src/helper/spawn-helper.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { scratchDirectory } from '../support/programs.ts';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');

function sidecall(
  args: string[],
  env: NodeJS.ProcessEnv = {},
): { stdout: string; stderr: string; status: number | null } {
  return spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
}

describe('sidecall doctor', () => {
  it('reports as JSON what it found out by doing it', () => {
    using scratch = scratchDirectory();
    const runtime = scratch.file('runtime');
    mkdirSync(runtime);
    chmodSync(runtime, 0o700);
    const { stdout, stderr, status } = sidecall(['doctor', '--json'], { XDG_RUNTIME_DIR: runtime });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      ok: true,
      sidecall: version,
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
      addon: { loaded: true, tried: [{ source: 'checkout' }] },
      features: {
        sealedMemory: { ok: true },
        peerPidfd: { ok: true },
        peerGroups: { ok: true },
        helpersDieWithParent: { ok: true },
      },
      limits: { socketPathMaxBytes: 107 },
      socketDirectory: { ok: true, mode: '0700', uid: process.geteuid?.() },
      lanes: {
        helper: { ok: true, lane: 'ring', origin: 'spawned' },
        path: { ok: true, lane: 'ring', origin: 'kernel' },
      },
      selfTest: { ok: true, streamed: 1_000 },
      advice: [],
    });
    expect(Number(report.limits.openFiles.soft)).toBeGreaterThan(0);
    expect(report.socketDirectory.path).toMatch(new RegExp(`^${join(runtime, 'sidecall-')}`));
    expect(existsSync(report.socketDirectory.path)).toBe(false); // nothing is left behind
    expect(report.selfTest.calls).toBeGreaterThan(10);
    expect(report.selfTest.megabytes).toBeGreaterThan(0);
    expect(report.selfTest.medianUs).toBeGreaterThan(0);
  });

  it('says the same in words, without colours where nobody sees them', () => {
    const { stdout, status } = sidecall(['doctor']);
    expect(status).toBe(0);
    expect(stdout).toContain('All is well.');
    expect(stdout).toMatch(/lane at a path {4}ok {3}ring/);
    expect(stdout).not.toContain('\u001b');
  });

  it('tells which lane the sessions get that the environment asks for', () => {
    const { stdout } = sidecall(['doctor', '--json'], { SIDECALL_LANE: 'socket' });
    expect(JSON.parse(stdout).lanes).toMatchObject({
      helper: { lane: 'socket' },
      path: { lane: 'socket' },
    });
  });

  it('without the addon says why, what still works, and what to do', () => {
    const { stdout, status } = sidecall(['doctor', '--json'], { SIDECALL_NATIVE: 'off' });
    expect(status).toBe(1);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      ok: false,
      addon: { loaded: false, reason: 'SIDECALL_NATIVE=off switches it off', tried: [] },
      features: { sealedMemory: { ok: false }, peerPidfd: { ok: false } },
      socketDirectory: { ok: false },
      lanes: { helper: { ok: true, lane: 'socket' }, path: { ok: false } },
      selfTest: { ok: true },
    });
    expect(report.advice.join()).toContain('SIDECALL_NATIVE');
  });

  it('names the files it tried', () => {
    const { stdout, status } = sidecall(['doctor'], { SIDECALL_NATIVE: '/nowhere/x.node' });
    expect(status).toBe(1);
    expect(stdout).toContain('/nowhere/x.node: there is no such file');
    expect(stdout).toContain('Something does not work.');
  });
});

describe('sidecall', () => {
  it('explains a command with its own options, and refuses those of others', () => {
    const { status, stdout } = sidecall(['top', '--help']);
    expect(status).toBe(0);
    expect(stdout).toContain('Usage: sidecall top PID|PATH');
    expect(stdout).toContain('--count N');
    expect(stdout).not.toContain('--framing');
    expect(stdout).not.toContain('sidecall doctor');
    const wrong = sidecall(['list', '/nowhere', '--count', '3']);
    expect(wrong).toMatchObject({ status: 2, stdout: '' });
    expect(wrong.stderr).toContain('list takes no --count: it is for top');
    expect(wrong.stderr).toContain('"sidecall list --help" explains more');
    const several = sidecall(['gen', 'a.proto', '--timeout', '3']);
    expect(several.stderr).toContain('it is for call, stop, inspect and top');
  });

  it('helps, and says its version', () => {
    expect(sidecall(['--help'])).toMatchObject({ status: 0, stderr: '' });
    expect(sidecall(['--help']).stdout).toContain('Usage: sidecall doctor [PATH] [options]');
    expect(sidecall(['-v']).stdout).toBe(`${version}\n`);
  });

  it.each([
    [[], 'which command?'],
    [['doctr'], "there is no command 'doctr'"],
    [['doctor', '/path', 'me'], "doctor takes no 'me'"],
    [['list'], 'list needs the PATH'],
    [['call', '/path'], 'call needs the PATH of a listener and a METHOD'],
    [['call', '/path', 'Demo.add', '{'], "the request '{' is no JSON"],
    [['call', '/path', 'Demo.add', '{}', '--timeout', 'soon'], '--timeout'],
    [['doctor', '--jsn'], '--jsn'],
  ])('refuses %j with status 2', (args, words) => {
    const { status, stderr, stdout } = sidecall(args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(words);
    expect(stderr).toContain('Usage:');
  });
});

describe('the self-test', () => {
  const right = {
    add: ({ a, b }: { a: number; b: number }) => ({ sum: a + b }),
    echo: (payload: Uint8Array) => payload,
    async *count({ to }: { to: number }) {
      for (let number = 0; number < to; number += 1) yield number;
    },
    hang: (_request: undefined, { signal }: { signal: AbortSignal }) =>
      new Promise<void>((done) => signal.addEventListener('abort', () => done())),
    connect: () => ({ lane: undefined, laneReason: undefined, origin: undefined }),
  };

  async function tested(wrong: object): Promise<{ ok: boolean; reason: string | undefined }> {
    const pair = createSessionPair();
    pair.far.serve(DoctorService, { ...right, ...wrong } as never);
    const helper = { client: pair.near.client.bind(pair.near), session: pair.near };
    try {
      return await runSelfTest(helper as unknown as Helper);
    } finally {
      await pair.close();
    }
  }

  it('passes where every answer is right', async () => {
    expect(await tested({})).toMatchObject({ ok: true, reason: undefined });
  });

  it('sees an answer to a cancelled call', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] }); // the cancel comes after the answer
    try {
      const { ok, reason } = await tested({ hang: () => undefined });
      expect({ ok, reason }).toMatchObject({ ok: false });
      expect(reason).toContain('a cancelled call was answered');
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ['a wrong sum', { add: () => ({ sum: -1 }) }, 'was answered by -1'],
    [
      'changed bytes',
      { echo: (all: Uint8Array) => all.map((byte) => byte ^ 1) },
      'came back changed',
    ],
    ['a stream out of order', { count: () => [1, 0] }, 'a stream gave 1 for 0'],
  ])('sees %s', async (_what, wrong, words) => {
    const { ok, reason } = await tested(wrong);
    expect(ok).toBe(false);
    expect(reason).toContain(words);
  });
});
