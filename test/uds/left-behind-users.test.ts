// Directories of other users, which no listener of ours removes.
import { chownSync, existsSync, mkdirSync, utimesSync } from 'node:fs';
import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { removeLeftBehind } from '../../src/uds/left-behind.ts';
import { scratchDirectory } from '../support/programs.ts';
import { alice } from '../support/users.ts';

it('leaves the directory of another user alone', async () => {
  using base = scratchDirectory();
  const directory = base.file('sidecall-listener-eeeeee');
  mkdirSync(directory, { mode: 0o700 });
  const then = Date.now() / 1_000 - 120;
  chownSync(directory, alice, alice);
  utimesSync(directory, then, then);
  expect(await removeLeftBehind(requireNative('the test'), base.path)).toBe(0);
  expect(existsSync(directory)).toBe(true);
  // The directory is removed where it is ours, so that its owner is what has saved it.
  chownSync(directory, 0, 0);
  utimesSync(directory, then, then);
  expect(await removeLeftBehind(requireNative('the test'), base.path)).toBe(1);
});
