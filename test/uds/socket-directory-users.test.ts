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
  for (const mode of ['0600', '0660']) {
    await using listener = withoutProc('listener.mjs', JSON.stringify({ path, mode }));
    expect(await listener.next()).toMatchObject({ path });
    await using caller = withoutProc(
      'caller.mjs',
      path,
      JSON.stringify({ expect: { modes: [mode] } }),
    );
    expect(await caller.next()).toMatchObject({ server: { pid: listener.pid } });
    listener.child.kill('SIGKILL'); // what it leaves behind is replaced by the next one
    await listener.exited;
  }
});
