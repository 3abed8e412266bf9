// Locks and logs under every umask, as a user for whom the bits of a file count.
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scratchDirectory } from '../support/programs.ts';

const dist = new URL('../../dist/index.js', import.meta.url);
const user = 61_001;

describe.each([0o777, 0o277, 0o577, 0o077, 0])('with the umask %o', (umask) => {
  it('a listener follows another one, and only one listens', () => {
    using scratch = scratchDirectory();
    chmodSync(scratch.path, 0o700);
    if (process.geteuid?.() === 0) chownSync(scratch.path, user, user);
    const source = `
      import { listen } from '${dist}';
      if (process.geteuid() === 0) { process.setgroups([]); process.setgid(${user}); process.setuid(${user}); }
      process.umask(${umask});
      const path = '${scratch.file('s')}';
      const first = await listen({ path });
      const { code } = await listen({ path }).catch((error) => error);
      await first.close();
      const second = await listen({ path });
      await second.close();
      console.log(code);`;
    const args = ['--input-type=module', '-e', source];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: 'ERR_SIDECALL_PATH_IN_USE\n', stderr: '' });
  });
});
