import { expect, it } from 'vitest';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { EndlessRun, World } from '../../../src/testing/simulation/world.ts';

const never = (): boolean => false;

function worldOf(seed: number): World {
  return new World(new SeededRandom(seed));
}

it('takes what is due in the order of time, and moves the time there', async () => {
  const world = worldOf(1);
  const seen: number[] = [];
  for (const ms of [30, 10, 20, 5, 25, 0]) world.plan(ms, () => seen.push(world.nowMs));
  await world.run(never, 100);
  expect(seen).toEqual([0, 5, 10, 20, 25, 30]);
  expect(world.steps).toBe(6);
});

it('takes what is due at one instant in the order in which it was planned', async () => {
  const world = worldOf(1);
  const seen: number[] = [];
  for (let n = 0; n < 20; n += 1) world.plan(1, () => seen.push(n));
  await world.run(never, 100);
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n));
});

it('has one fingerprint for a run, and another for another', async () => {
  const fingerprintOf = async (ms: number): Promise<string> => {
    const world = worldOf(1);
    world.plan(ms, () => undefined);
    await world.run(never, 10);
    return String(world.fingerprint);
  };
  expect(await fingerprintOf(1)).toBe(await fingerprintOf(1));
  expect(await fingerprintOf(1)).not.toBe(await fingerprintOf(2));
});

it('settles promises between two steps', async () => {
  const world = worldOf(1);
  const seen: string[] = [];
  world.plan(1, () => {
    seen.push('first');
    void Promise.resolve()
      .then(() => undefined)
      .then(() => seen.push('its promise'));
  });
  world.plan(2, () => seen.push('second'));
  await world.run(never, 100);
  expect(seen).toEqual(['first', 'its promise', 'second']);
});

it('drops what was cancelled, ends when asked to, and stops a run without rest', async () => {
  const world = worldOf(1);
  const seen: string[] = [];
  world.plan(1, () => seen.push('cancelled')).isCancelled = true;
  world.plan(2, () => seen.push('kept'));
  world.plan(3, () => seen.push('later'));
  await world.run(() => seen.length === 1, 100);
  expect(seen).toEqual(['kept']);
  const again = (): void => void world.plan(1, again);
  again();
  await expect(world.run(never, 50)).rejects.toBeInstanceOf(EndlessRun);
});
