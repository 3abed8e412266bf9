// Sockets in a mount namespace without /proc.
import { beforeAll, expect, it } from 'vitest';
import { programPath, requireRoot, scratchDirectory, startProgram } from '../support/programs.ts';

beforeAll(requireRoot);

/** A program whose `/proc` is an empty folder. */
function withoutProc(name: string, ...args: string[]) {
  const script = 'mount -t tmpfs none /proc && exec "$@"';
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
