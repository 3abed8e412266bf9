import { chmodSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { removeLeftBehind } from '../../src/uds/left-behind.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const addon = requireNative('the test');

/** A listener without a path, in a process whose temporary directory is `base`. */
function startListener(base: string, identity = 'kernel') {
  const env = { TMPDIR: base, XDG_RUNTIME_DIR: '' };
  return startProgram('private-listener.mjs', [identity], { env });
}

/** Makes a directory, and all in `base`, two minutes old. */
function age(base: string): void {
  const then = Date.now() / 1_000 - 120;
  for (const name of readdirSync(base)) utimesSync(join(base, name), then, then);
}

it.each(['SIGTERM', 'SIGKILL'] as const)(
  'removes what %s has left of a listener',
  async (signal) => {
    using base = scratchDirectory();
    const killed = startListener(base.path);
    await killed.next();
    process.kill(killed.pid, signal);
    await killed.exited;
    expect(readdirSync(base.path)).toHaveLength(1);
    expect(await removeLeftBehind(addon, base.path)).toBe(0); // it may just be starting
    age(base.path);
    await using next = startListener(base.path);
    await next.next();
    await until(() => readdirSync(base.path).length === 1); // its own
  },
);

it.each(['kernel', 'path-permissions'])('leaves a live listener alone (%s)', async (identity) => {
  using base = scratchDirectory();
  await using running = startListener(base.path, identity);
  const { path } = (await running.next()) as { path: string };
  age(base.path);
  expect(await removeLeftBehind(addon, base.path)).toBe(0);
  const options = identity === 'kernel' ? {} : { identity: 'path-permissions' as const };
  await using session = await connect({ path, ...options });
  await session.ping();
});

it('leaves everything alone that is not a directory of a killed listener', async () => {
  using base = scratchDirectory();
  const make = (name: string, ...files: string[]) => {
    mkdirSync(base.file(name), { mode: 0o700 });
    for (const file of files) writeFileSync(join(base.file(name), file), '');
  };
  make('sidecall-listener-aaaaaa', 'notes.txt');
  make('sidecall-listener-bbbbbb', 'socket.lock', 'notes.txt');
  make('sidecall-listener-cccccc', 'socket', 'socket.lock'); // a file, not a socket
  make('sidecall-listener-dddddd');
  chmodSync(base.file('sidecall-listener-dddddd'), 0o755);
  make('sidecall-0');
  make('sidecall-200001'); // the directory of socketPath() of a user with this uid
  make('sidecall-backup');
  make('elsewhere');
  symlinkSync(base.file('elsewhere'), base.file('sidecall-listener-ffffff'));
  const before = readdirSync(base.path);
  age(base.path);
  expect(await removeLeftBehind(addon, base.path)).toBe(0);
  expect(readdirSync(base.path)).toEqual(before);
  expect(readdirSync(base.file('sidecall-listener-bbbbbb'))).toEqual(['notes.txt', 'socket.lock']);
  expect(readdirSync(base.file('sidecall-listener-cccccc'))).toContain('socket');
});

it('removes directories in which nothing was made, and looks at a bounded number', async () => {
  using base = scratchDirectory();
  for (let n = 0; n < 10_005; n += 1) {
    mkdirSync(base.file(`sidecall-listener-${String(n).padStart(6, '0')}`), { mode: 0o700 });
  }
  age(base.path);
  expect(await removeLeftBehind(addon, base.path)).toBe(10_000);
  expect(await removeLeftBehind(addon, base.path)).toBe(5);
});
