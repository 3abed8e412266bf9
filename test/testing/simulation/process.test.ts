import { expect, it } from 'vitest';
import { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { World } from '../../../src/testing/simulation/world.ts';

const never = (): boolean => false;

function start(): { world: World; process: SimulatedProcess; seen: string[] } {
  const world = new World(new SeededRandom(1));
  return { world, process: new SimulatedProcess('a', world), seen: [] };
}

it('has timers, immediates and ticks of virtual time', async () => {
  const { world, process, seen } = start();
  process.plan(0, () => {
    process.setTimeout((text) => seen.push(text), 50, 'timer');
    const cancelled = process.setTimeout(() => seen.push('cancelled'), 10);
    process.clearTimeout(cancelled);
    process.setImmediate((text) => seen.push(text), 'immediate');
    process.nextTick((text) => seen.push(text), 'tick');
  });
  await world.run(never, 100);
  expect(seen).toEqual(['tick', 'immediate', 'timer']);
  expect(Math.floor(world.nowMs)).toBe(50); // timers of a process are a little late
  expect(process.machineMs()).toBe(1_000_050);
});

it('does nothing while it is stopped, and all of it afterwards, in order', async () => {
  const { world, process, seen } = start();
  for (const ms of [1, 2, 3]) process.setTimeout(() => seen.push(`${ms}`), ms);
  process.stop();
  world.plan(100, () => {
    expect(seen).toEqual([]);
    process.resume();
  });
  await world.run(never, 100);
  expect(seen).toEqual(['1', '2', '3']);
});

it('does nothing while its event loop is blocked', async () => {
  const { world, process, seen } = start();
  process.setTimeout(() => seen.push(`${world.nowMs}`), 5);
  process.block(40);
  await world.run(never, 100);
  expect(seen).toEqual(['40']);
});

it('runs immediates and timers of one duration in the order in which they were set', async () => {
  const { world, process, seen } = start();
  const order = Array.from({ length: 20 }, (_, at) => `${at}`);
  process.plan(0, () => {
    for (const text of order) process.setImmediate((said) => seen.push(said), text);
    for (const text of order) process.setTimeout((said) => seen.push(said), 5, text);
  });
  process.block(2);
  await world.run(never, 200);
  expect(seen).toEqual([...order, ...order]);
});

it('ends at the point that was chosen, and passes none afterwards', () => {
  const { process } = start();
  process.diesAtPoint = 3;
  expect([process.point(), process.point(), process.point(), process.point()]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(process.isDead).toBe(true);
});

it('lets a timer that was cleared while it waited for the process not fire', async () => {
  const { world, process, seen } = start();
  const timer = process.setTimeout(() => seen.push('timer'), 5);
  process.stop();
  world.plan(50, () => {
    process.clearTimeout(timer);
    process.resume();
  });
  await world.run(never, 100);
  expect(seen).toEqual([]);
});

it('does nothing once it is dead, and what it held is given back once', async () => {
  const { world, process, seen } = start();
  process.setTimeout(() => seen.push('late'), 5);
  process.nextTick(() => seen.push('tick'));
  process.whenDead(() => seen.push('closed'));
  process.kill();
  process.kill();
  await world.run(never, 100);
  expect(seen).toEqual(['closed']);
  expect(process.isDead).toBe(true);
});
