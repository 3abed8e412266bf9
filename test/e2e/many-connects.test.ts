// Honest programs that connect at once, many more than the backlog holds, or than there are
// descriptors for.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { countDescriptors } from '../support/leaks.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

/** Hundredths of a second that a process has computed. */
function ticksOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

/** Descriptors come back one by one as connections are dropped. */
async function connectEventually(path: string): Promise<Session> {
  for (;;) {
    try {
      return await connect({ path });
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      await new Promise((done) => setTimeout(done, 20));
    }
  }
}

describe('a listener that many connect to at once', () => {
  it('serves thousands of connects of five processes, with a backlog of 16', async () => {
    const each = rounds(1_000, 100);
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const options = {
      path,
      backlog: 16,
      hellosMax: 16_384,
      sessionsMax: 8_192,
      sessionsPerUidMax: 8_192,
      helloTimeoutMs: 60_000,
    };
    await using listener = startProgram('listener.mjs', [JSON.stringify(options)]);
    await listener.next();
    const programs = Array.from({ length: 5 }, () =>
      startProgram('many-connects.mjs', [path, String(each)]),
    );
    for (const program of programs) {
      expect(await program.next()).toEqual({ sessions: each, right: each });
      expect(await program.exited).toEqual({ code: 0, signal: null });
    }
  });

  it('has room at once for a connect, while thousands wait elsewhere', async () => {
    using scratch = scratchDirectory();
    const [hung, well] = [scratch.file('hung'), scratch.file('well')];
    await using stopped = startProgram('listener.mjs', [
      JSON.stringify({ path: hung, backlog: 1 }),
    ]);
    await stopped.next();
    process.kill(stopped.pid, 'SIGSTOP');
    const giveUp = new AbortController();
    const waiting = Array.from({ length: 1_000 }, () =>
      connect({ path: hung, timeoutMs: 60_000, signal: giveUp.signal }),
    );
    const all = Promise.allSettled(waiting);
    await using listener = startProgram('listener.mjs', [
      JSON.stringify({ path: well, backlog: 1 }),
    ]);
    await listener.next();
    process.kill(listener.pid, 'SIGSTOP');
    const some = Array.from({ length: 20 }, () => connect({ path: well, timeoutMs: 60_000 }));
    await new Promise((done) => setTimeout(done, 100));
    process.kill(listener.pid, 'SIGCONT');
    for (const session of await Promise.all(some)) await session.close();
    giveUp.abort(new Error('enough'));
    const reasons = (await all).map((one) => (one as PromiseRejectedResult).reason?.message);
    expect(new Set(reasons)).toEqual(new Set(['enough']));
    process.kill(stopped.pid, 'SIGCONT');
  });

  it('sleeps while it has no descriptors, keeps its sessions, and recovers', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
    const { pid } = (await program.next()) as { pid: number };
    await using session = await connect({ path });
    const limit = `import resource; resource.prlimit(${pid}, resource.RLIMIT_NOFILE, (64, 64))`;
    expect(spawnSync('python3', ['-c', limit]).status).toBe(0);
    const held = Array.from({ length: 200 }, () => createConnection(path));
    for (const socket of held) socket.on('error', () => undefined).resume();
    while ((await program.next()).code !== 'ERR_SIDECALL_LIMIT_DESCRIPTORS');
    expect(countDescriptors(pid)).toBeGreaterThan(60);
    const before = ticksOf(pid);
    await new Promise((done) => setTimeout(done, 1_000));
    // A listener that tried again and again would compute for all of the second.
    expect(ticksOf(pid) - before).toBeLessThan(50);
    expect(await session.call('Demo.add', { a: 1, b: 1 })).toEqual({ sum: 2 });
    for (const socket of held) socket.destroy();
    const again = await connectEventually(path);
    expect(await again.call('Demo.add', { a: 2, b: 2 })).toEqual({ sum: 4 });
    await again.close();
  });
});
