// The copy of a ring on a file system of its own, which only root can mount.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openRingPair } from '../../support/pairs.ts';
import { scratchDirectory } from '../../support/programs.ts';

it('leaves no file where there is no room for all of it', async () => {
  using scratch = scratchDirectory();
  mkdirSync(scratch.file('small'));
  const mounted = spawnSync('mount', [
    '-t',
    'tmpfs',
    '-o',
    'size=1m',
    'tmpfs',
    scratch.file('small'),
  ]);
  expect(mounted.stderr.toString()).toBe('');
  try {
    await using pair = await openRingPair({}, {});
    await expect(pair.near.inspect().ring?.save(scratch.file('small/copy'))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_SYSTEM',
      message: expect.stringContaining('ENOSPC'),
    });
    expect(readdirSync(scratch.file('small'))).toEqual([]);
  } finally {
    spawnSync('umount', [scratch.file('small')]);
  }
});
