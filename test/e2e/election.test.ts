// Many programs that ask for one shared helper at once; `npm run test:election` has more rounds.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

it('32 programs, killed at random instants, never have two helpers, and always get one', () => {
  const script = resolve(import.meta.dirname, '../../scripts/test-election.mjs');
  const args = [script, '--rounds', '12', '--starters', '32', '--json'];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stderr).toBe('');
  const { faults, answered, killedStarters, killedHelpers, helpers } = JSON.parse(stdout);
  expect(faults).toEqual([]);
  expect(answered).toBeGreaterThan(12 * 16);
  expect(killedStarters).toBeGreaterThan(0);
  expect(killedHelpers).toBeGreaterThan(0);
  expect(helpers).toBeGreaterThan(1);
});
