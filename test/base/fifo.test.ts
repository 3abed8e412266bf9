// The queue against an array that does the same, over random steps of every kind.
import { describe, expect, it } from 'vitest';
import { Fifo } from '../../src/base/fifo.ts';
import { Random } from '../support/random.ts';

interface Item {
  readonly id: number;
}

describe('a queue', () => {
  it.each([1, 2, 3, 4, 5, 6])('does what an array does, whatever is taken out: seed %i', (seed) => {
    const random = new Random(seed);
    const fifo = new Fifo<Item>();
    let model: Item[] = [];
    let made = 0;
    for (let step = 0; step < 20_000; step += 1) {
      // Phases that grow and phases that shrink: both sides of each length that matters.
      const grows = Math.floor(step / 2_500) % 2 === 0;
      const act = random.next(grows ? 8 : 20);
      if (act < 5) {
        made += 1;
        const item = { id: made };
        fifo.push(item);
        model.push(item);
      } else if (act < 12) {
        const item = model[random.next(Math.max(1, model.length))] ?? { id: 0 };
        expect(fifo.remove(item)).toBe(model.includes(item));
        model = model.filter((each) => each !== item);
      } else if (act < 19) expect(fifo.shift()).toBe(model.shift());
      else {
        const digit = random.next(10);
        const is = ({ id }: Item): boolean => id % 100 === digit;
        expect(fifo.removeAll(is)).toEqual(model.filter(is));
        model = model.filter((each) => !is(each));
      }
      expect(fifo.length).toBe(model.length);
      expect(fifo.peek()).toBe(model[0]);
    }
    expect(fifo.items(3)).toEqual(model.slice(0, 3));
    expect(fifo.items()).toEqual(model);
    for (const item of model) expect(fifo.shift()).toBe(item);
    expect(fifo.shift()).toBeUndefined();
    fifo.push({ id: 0 });
    fifo.clear();
    expect([fifo.length, fifo.peek()]).toEqual([0, undefined]);
  });

  it('forgets what was taken out', () => {
    const fifo = new Fifo<Item>();
    const items = Array.from({ length: 5_000 }, (_, id) => ({ id }));
    for (const item of items) fifo.push(item);
    for (const item of items.slice(1_000, 4_000)) expect(fifo.remove(item)).toBe(true);
    for (const item of items.slice(1_000, 4_000)) expect(fifo.remove(item)).toBe(false);
    expect(fifo.items()).toEqual([...items.slice(0, 1_000), ...items.slice(4_000)]);
  });
});
