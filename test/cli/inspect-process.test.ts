// `sidecall inspect PID` as a user runs it.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { inspectProcess, type ThreadReport } from '../../src/cli/inspect-process.ts';
import { until } from '../support/contract.ts';
import { command, inspect, socketsIn, startInspected, threadsOf } from '../support/inspected.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

/** Sockets of a path: its listener, and each connection that was made to it. */
function socketsAt(path: string): number {
  const lines = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return lines.filter((line) => line.endsWith(` ${path}`)).length;
}

describe('sidecall inspect PID', () => {
  it('shows sessions, calls and their waits, without payload', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path);
    const { stdout, stderr, status } = await inspect(runtime.path, [String(program.pid)]);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toMatch(new RegExp(`^process ${program.pid}: Node v\\d+\\.`));
    expect(stdout.match(/^session \d+: open, lane ring/gm)).toHaveLength(2);
    expect(stdout).toMatch(
      /^ {2}our call \d+\.\d+ Work\.hang: unary, open for [\d.]+ m?s; its deadline is in 9 min/m,
    );
    expect(stdout).toMatch(
      /the peer's call \S+ Work\.flow: serverStream, .*\n {4}.*waiting for stream-window/,
    );
    expect(stdout.match(/The shared memory is intact/g)).toHaveLength(2);
    expect(stdout).not.toContain('secret-of');
    const report = JSON.stringify(await threadsOf(runtime.path, String(program.pid)));
    expect(report).not.toContain('secret-of');
  });

  it.each([
    ['the environment', {}, { SIDECALL_INSPECT: 'payload' }],
    ['configure()', { inspection: 'payload' }, {}],
  ])('shows payloads that are asked for, where %s allows it', async (_by, options, env) => {
    using runtime = scratchDirectory();
    const all = { SIDECALL_INSPECT: '', XDG_RUNTIME_DIR: runtime.path, ...env };
    await using program = startProgram('unread-call.mjs', [JSON.stringify(options)], { env: all });
    const pid = String((await program.next()).pid);
    const shown = await inspect(runtime.path, [pid, '--payload']);
    expect(shown).toMatchObject({ stderr: '', status: 0 });
    expect(shown.stdout).toMatch(/frame, \d+ bytes: open .*\n.*"b":"secret-of-the-call"/);
    expect((await inspect(runtime.path, [pid])).stdout).not.toContain('secret-of');
    expect((await inspect(runtime.path, [pid, '--json'])).stdout).not.toContain('"payload"');
  });

  it('refuses payloads that the process does not show, and has those of a saved ring', async () => {
    using runtime = scratchDirectory();
    const env = { SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: runtime.path };
    const file = runtime.file('ring');
    await using program = startProgram('unread-call.mjs', ['{}', file], { env });
    const pid = String((await program.next()).pid);
    const { stdout, stderr, status } = await inspect(runtime.path, [pid, '--payload']);
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toContain('permission_denied: ');
    expect(stderr).toContain(
      'this process shows no payload: start it with SIDECALL_INSPECT=payload',
    );
    expect((await inspect(runtime.path, [file])).stdout).not.toContain('secret-of');
    expect((await inspect(runtime.path, [file, '--payload'])).stdout).toContain(
      'secret-of-the-call',
    );
  });

  it('takes the path of a listener, and says the same', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path);
    const [byPath] = await threadsOf(runtime.path, join(runtime.path, 's'));
    const [byPid] = await threadsOf(runtime.path, String(program.pid));
    const callsOf = (report: ThreadReport | undefined) =>
      report?.sessions.map(({ id, streams }) => [id, streams.map(({ method }) => method)]);
    expect(byPath?.thread?.pid).toBe(program.pid);
    expect(callsOf(byPath)).toEqual(callsOf(byPid));
    expect(callsOf(byPid)?.[0]?.[1]).toContain('Work.hang');
  });

  it('shows each thread of a process', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path, { hasWorker: true });
    const threads = await threadsOf(runtime.path, String(program.pid));
    expect(threads.map(({ thread, sessions }) => [thread?.pid, sessions.length])).toEqual([
      [program.pid, 3],
      [program.pid, 1],
    ]);
    expect(threads[0]?.threadId).toBe(0);
    expect(threads[1]?.threadId).toBeGreaterThan(0);
  });

  it('shows the other threads where one was terminated, which leaves no socket', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path, { hasWorker: true });
    program.tell('terminate');
    expect(await program.next()).toEqual({ terminated: true });
    expect(socketsIn(runtime.path)).toHaveLength(1);
    const threads = await threadsOf(runtime.path, String(program.pid));
    expect(threads.map(({ threadId }) => threadId)).toEqual([0]);
  });

  it('works where configure() allows it, and not where it forbids what the environment allows', async () => {
    using runtime = scratchDirectory();
    await using allows = await startInspected(runtime.path, { inspection: true }, {});
    expect(await threadsOf(runtime.path, String(allows.pid))).toHaveLength(1);
    using other = scratchDirectory();
    await using forbids = await startInspected(other.path, { inspection: false });
    expect(socketsIn(other.path)).toEqual([]);
    expect(await inspect(other.path, [String(forbids.pid)])).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/does not allow it: start it with SIDECALL_INSPECT=1/),
    });
  });

  it('finds the socket of a process that has another XDG_RUNTIME_DIR', async () => {
    using runtime = scratchDirectory();
    using other = scratchDirectory();
    await using program = await startInspected(runtime.path);
    expect(await threadsOf(other.path, String(program.pid))).toHaveLength(1);
  });

  it('says that there is no such process, or that it allows nothing', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path, {}, { SIDECALL_INSPECT: '0' });
    expect(socketsIn(runtime.path)).toEqual([]);
    const gone = startProgram('inspected.mjs', ['{}']);
    process.kill(gone.pid, 'SIGKILL');
    await gone.exited;
    const none = await inspect(runtime.path, [String(gone.pid)]);
    expect(none.stderr).toContain(`there is no process ${gone.pid}`);
    const silent = await inspect(runtime.path, [String(program.pid), '--json']);
    const { error } = JSON.parse(silent.stderr);
    expect(error).toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER' });
    expect(error.message).toContain('start it with SIDECALL_INSPECT=1 in its environment');
    expect([none.status, silent.status]).toEqual([1, 1]);
  });

  it('says what a process does that does not answer', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path);
    const look = () => inspect(runtime.path, [String(program.pid), '--timeout', '1000']);
    process.kill(program.pid, 'SIGSTOP');
    expect((await look()).stderr).toMatch(/has not answered for 1000 ms: it was stopped/);
    process.kill(program.pid, 'SIGCONT');
    program.tell('block');
    const { stderr, status } = await look();
    expect(stderr).toMatch(/has not answered for 1000 ms: it is busy; wait longer with --timeout/);
    expect(status).toBe(1);
  });

  it('says that the process ended meanwhile', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path);
    const opened = join(runtime.path, 'sidecall', `inspect-${program.pid}.sock`);
    await until(() => existsSync(opened));
    process.kill(program.pid, 'SIGSTOP'); // so that the command waits for an answer
    const looking = inspect(runtime.path, [String(program.pid)]);
    await until(() => socketsAt(opened) === 2); // the listener, and the connection of the command
    process.kill(program.pid, 'SIGKILL');
    const { stdout, stderr, status } = await looking;
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toMatch(/process \d+ ended while it was looked into/);
  });

  it('says so, too, where the process ended before its socket was reached', async () => {
    const gone = Object.assign(new Error('kill ESRCH'), { code: 'ESRCH' });
    using kill = vi.spyOn(process, 'kill');
    kill.mockReturnValueOnce(true).mockImplementation(() => {
      throw gone;
    });
    await expect(inspectProcess(process.pid, { timeoutMs: 1_000 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      message: `process ${process.pid} ended while it was looked into`,
    });
  });

  it('shows many sessions to two that look at once, while the process makes its calls', async () => {
    const pairs = rounds(500, 50);
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path, { sessions: pairs });
    const looking = [1, 2].map(() => threadsOf(runtime.path, String(program.pid)));
    program.tell('work');
    expect(await program.next()).toEqual({ calls: 20_000 });
    for (const [report] of await Promise.all(looking)) {
      expect(report?.thread?.sessions).toBe(2 * pairs);
      const ids = report?.sessions.map(({ id }) => id);
      expect(new Set(ids).size).toBe(2 * pairs);
    }
  });

  it('lists 1,000 calls of a session and counts the others, those that wait to begin included', async () => {
    using runtime = scratchDirectory();
    await using program = await startInspected(runtime.path);
    program.tell('crowd');
    await program.next();
    const [report] = await threadsOf(runtime.path, String(program.pid));
    const caller = report?.sessions.find(({ stats }) => stats.calls.open > 0);
    const { open, waiting } = caller?.stats.calls ?? { open: 0, waiting: 0 };
    expect(waiting).toBeGreaterThan(1_500);
    expect(open + waiting).toBe(6_002); // a call and a stream were open before
    expect(caller?.streams).toHaveLength(1_000);
    expect(caller?.moreStreams).toBe(5_002);
    const named = caller?.streams.filter(({ state }) => state === 'waiting') ?? [];
    expect(named).toHaveLength(100);
    for (const { method, waitsFor } of named) {
      expect([method, waitsFor]).toEqual(['Work.hang', 'slot']);
    }
  });

  it('does not keep the process alive where the one that looks was stopped', async () => {
    using runtime = scratchDirectory();
    const program = await startInspected(runtime.path, { sessions: 200 });
    const env = { ...process.env, XDG_RUNTIME_DIR: runtime.path };
    const args = [command, 'inspect', String(program.pid)];
    const looking = Array.from({ length: 3 }, () => spawn(process.execPath, args, { env }));
    await new Promise((done) => setTimeout(done, 700));
    for (const one of looking) one.kill('SIGSTOP');
    program.tell('leave');
    expect(await program.next()).toEqual({ closed: true });
    expect(await program.exited).toEqual({ code: 0, signal: null });
    const ended = looking.map((one) => new Promise((done) => one.once('close', done)));
    for (const one of looking) one.kill('SIGKILL');
    await Promise.all(ended);
  });

  it('takes no wait that is too short or too long, and no interval', async () => {
    using runtime = scratchDirectory();
    for (const wrong of ['5', '600001', 'soon']) {
      const { stderr, status } = await inspect(runtime.path, ['1', '--timeout', wrong]);
      expect(stderr).toContain('--timeout must be');
      expect(status).toBe(2);
    }
    const { stderr, status } = await inspect(runtime.path, ['1', '--interval', '200']);
    expect(stderr).toContain('inspect looks once: --interval is for inspect --web and for top');
    expect(status).toBe(2);
  });

  it('does not keep the process alive, and takes its socket away with it', async () => {
    using runtime = scratchDirectory();
    const program = await startInspected(runtime.path, { isLeaving: true });
    expect(await program.exited).toEqual({ code: 0, signal: null });
    expect(socketsIn(runtime.path)).toEqual([]);
  });

  it('removes the sockets of killed processes, and no other file', async () => {
    using runtime = scratchDirectory();
    const killed = await startInspected(runtime.path);
    process.kill(killed.pid, 'SIGKILL');
    await killed.exited;
    const directory = join(runtime.path, 'sidecall');
    const left = `inspect-${killed.pid}.sock`;
    writeFileSync(join(directory, 'inspect-1.sock'), 'no socket');
    await using alive = await startInspected(runtime.path);
    const then = Date.now() / 1_000 - 120;
    for (const name of readdirSync(directory)) utimesSync(join(directory, name), then, then);
    await using next = await startInspected(runtime.path, { path: join(runtime.path, 'next') });
    await until(() => !socketsIn(runtime.path).includes(left));
    const names = [alive, next].map(({ pid }) => `inspect-${pid}.sock`);
    expect([...socketsIn(runtime.path)].sort()).toEqual(['inspect-1.sock', ...names].sort());
    expect(await threadsOf(runtime.path, String(alive.pid))).toHaveLength(1);
  });
});
