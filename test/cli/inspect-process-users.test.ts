// `sidecall inspect PID` of processes of other users and in other namespaces.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { inspect, startInspected } from '../support/inspected.ts';
import {
  programPath,
  type RunningProgram,
  scratchDirectory,
  startProgram,
} from '../support/programs.ts';
import { alice, openDirectory } from '../support/users.ts';

describe('sidecall inspect PID', () => {
  it('refuses a process of another user in words, from both sides', async () => {
    using runtime = scratchDirectory();
    using open = openDirectory();
    await using ours = await startInspected(runtime.path);
    const byAlice = await inspect(open.path, [String(ours.pid)], alice);
    expect(byAlice).toMatchObject({ stdout: '', status: 1 });
    expect(byAlice.stderr).toMatch(
      /belongs to uid 0, and only that user may look into it \(EPERM\)/,
    );
    await using asleep = startSleep();
    const byRoot = await inspect(runtime.path, [String(asleep.pid)]);
    expect(byRoot.stderr).toContain(`process ${asleep.pid} belongs to uid ${alice}`);
    expect(byRoot.status).toBe(1);
  });

  it('says that a process runs in another pid namespace', async () => {
    using runtime = scratchDirectory();
    const told = JSON.stringify({ path: runtime.file('s') });
    const args = ['--pid', '--fork', process.execPath, programPath('inspected.mjs'), told];
    await using outer = startProgram('unshare', args, {
      command: 'unshare',
      env: { XDG_RUNTIME_DIR: runtime.path, SIDECALL_INSPECT: '1' },
    });
    await outer.next();
    const children = readFileSync(`/proc/${outer.pid}/task/${outer.pid}/children`, 'latin1');
    const pid = children.trim();
    const { stderr } = await inspect(runtime.path, [pid]);
    process.kill(Number(pid), 'SIGKILL');
    expect(stderr).toContain(`process ${pid} runs in another pid namespace, where it is 1`);
  });
});

/** A process of another user, which is not ours to look into. */
function startSleep(): RunningProgram {
  return startProgram('60', ['60'], { command: 'sleep', uid: alice, gid: alice });
}
