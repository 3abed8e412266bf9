// The directory of `socketPath()` where another user has made it.
import { chownSync, mkdirSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { socketPath } from '../../src/uds/private-directory.ts';
import { scratchDirectory } from '../support/programs.ts';
import { alice } from '../support/users.ts';

afterEach(() => void delete process.env.XDG_RUNTIME_DIR);

it('refuses a directory of another user', () => {
  using runtime = scratchDirectory();
  process.env.XDG_RUNTIME_DIR = runtime.path;
  const directory = runtime.file('sidecall');
  mkdirSync(directory, { mode: 0o700 });
  expect(socketPath('clock')).toContain('clock.sock');
  chownSync(directory, alice, alice);
  expect(() => socketPath('clock')).toThrow(
    expect.objectContaining({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
      message: expect.stringContaining(`uid ${alice}`) as string,
    }),
  );
});
