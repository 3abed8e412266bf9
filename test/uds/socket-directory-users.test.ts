// Sockets in a mount namespace without /proc.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { programPath, requireRoot, scratchDirectory, startProgram } from '../support/programs.ts';

const run = promisify(execFile);
beforeAll(requireRoot);

const script = 'mount -t tmpfs none /proc && exec "$@"';

/** A program whose `/proc` is an empty folder. */
function withoutProc(name: string, ...args: string[]) {
  const program = [process.execPath, programPath(name), ...args];
  return startProgram(name, ['--mount', 'sh', '-c', script, 'sh', ...program], {
    command: 'unshare',
  });
}

it('are found and replaced by their names', async () => {
  using scratch = scratchDirectory();
  const path = scratch.file('s');
  for (let round = 0; round < 2; round += 1) {
    await using listener = withoutProc('listener.mjs', JSON.stringify({ path }));
    expect(await listener.next()).toMatchObject({ path });
    await using caller = withoutProc('caller.mjs', path);
    expect(await caller.next()).toMatchObject({ server: { pid: listener.pid } });
    listener.child.kill('SIGKILL'); // what it leaves behind is replaced by the next one
    await listener.exited;
  }
  await using wide = withoutProc('listener.mjs', JSON.stringify({ path, mode: '0660' }));
  expect(await wide.next()).toMatchObject({
    failed: 'ERR_SIDECALL_SYSTEM',
    message: expect.stringContaining('needs /proc'),
  });
});

it('and the doctor says so, and calls a helper', async () => {
  const doctor = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
  const program = [process.execPath, doctor, 'doctor', '--json'];
  const { stdout } = await run('unshare', ['--mount', 'sh', '-c', script, 'sh', ...program]);
  const { ok, advice } = JSON.parse(stdout) as { ok: boolean; advice: string[] };
  expect(ok).toBe(true);
  expect(advice).toEqual([expect.stringContaining('/proc is not mounted')]);
});
