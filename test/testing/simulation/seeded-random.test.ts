import { expect, it } from 'vitest';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';

const draws = (random: SeededRandom): number[] => Array.from({ length: 100 }, () => random.next());

it('repeats itself for a seed, and not for its neighbour', () => {
  expect(draws(new SeededRandom(7))).toEqual(draws(new SeededRandom(7)));
  const shared = draws(new SeededRandom(7)).filter((n) => draws(new SeededRandom(8)).includes(n));
  expect(shared).toEqual([]);
  // The numbers of a seed are the same for ever: a regression test is a seed.
  expect(new SeededRandom(1).next()).toBe(441_792_574);
});

it('draws each value of a range, and only those', () => {
  const random = new SeededRandom(3);
  const drawn = new Set(Array.from({ length: 1_000 }, () => random.below(7)));
  expect([...drawn].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  const hits = Array.from({ length: 10_000 }, () => random.chance(30)).filter(Boolean).length;
  expect(hits).toBeGreaterThan(2_700);
  expect(hits).toBeLessThan(3_300);
  expect(random.chance(0)).toBe(false);
  expect(random.chance(100)).toBe(true);
});

it('forks: what one part draws does not move what another draws', () => {
  const [first, second] = [new SeededRandom(5), new SeededRandom(5)];
  const fork = first.fork();
  second.fork();
  draws(fork);
  expect(draws(first)).toEqual(draws(second));
});
