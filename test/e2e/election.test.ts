// Many programs that ask for one shared helper at once; `npm run test:election` has more rounds.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { rounds } from '../support/rounds.ts';

it('many programs, killed at random instants, never have two helpers, and always get one', () => {
  const script = resolve(import.meta.dirname, '../../scripts/test-election.mjs');
  const [count, starters] = [rounds(12, 6), rounds(32, 12)];
  const args = [script, '--rounds', `${count}`, '--starters', `${starters}`, '--json'];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stderr).toBe('');
  const { faults, answered, killedStarters, killedHelpers, helpers } = JSON.parse(stdout);
  expect(faults).toEqual([]);
  expect(answered).toBeGreaterThan((count * starters) / 2);
  expect(killedStarters).toBeGreaterThan(0);
  expect(killedHelpers).toBeGreaterThan(0);
  expect(helpers).toBeGreaterThan(1);
});
