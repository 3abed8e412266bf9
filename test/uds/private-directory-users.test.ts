// The directory of `socketPath()` where another user has made it.
import { chownSync, mkdirSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { sharedRows, stopShared } from '../../src/cli/shared.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { sharedHelper } from '../../src/shared/shared-helper.ts';
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

it('says what helps where another user has made it, and never to trust that user', async () => {
  using runtime = scratchDirectory();
  process.env.XDG_RUNTIME_DIR = runtime.path;
  const path = socketPath('clock');
  const directory = runtime.file('sidecall');
  chownSync(directory, alice, alice);
  const options = { name: 'clock', version: '1.0.0', program: process.execPath };
  const attempts: readonly (() => Promise<unknown>)[] = [
    async () => socketPath('clock'),
    () => connect({ path }),
    () => listen({ path }),
    () => sharedHelper(options),
    () => sharedRows(),
    () => stopShared('clock', { key: undefined, force: false, waitMs: 1 }),
  ];
  for (const attempt of attempts) {
    const { code, message } = await attempt().then(
      () => undefined,
      (error) => error,
    );
    expect(code).toBe('ERR_SIDECALL_PATH_UNSAFE');
    expect(message).toContain(`uid ${alice}`);
    expect(message).toContain('set XDG_RUNTIME_DIR to a directory of your own with mode 0700');
    expect(message).not.toMatch(/expect|give a path/);
  }
});
