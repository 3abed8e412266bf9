// Waits for bytes of hellos: looked at together, each process in its turn.
import { describe, expect, it } from 'vitest';
import { setImmediate } from '../../src/clock.ts';
import { ReadableWaits } from '../../src/uds/readable.ts';

/** Waits over descriptors that a set says are readable; notes how many each look asked for. */
function waitsOver(readable: ReadonlySet<number>): { waits: ReadableWaits; looks: number[] } {
  const looks: number[] = [];
  const markReadable = (descriptors: Int32Array, count: number): void => {
    looks.push(count);
    for (let at = 0; at < count; at += 1) {
      descriptors[at] = readable.has(descriptors[at] as number) ? 1 : 0;
    }
  };
  return { waits: new ReadableWaits({ markReadable }), looks };
}

/** A wait as a promise. */
function whenReadable(
  waits: ReadableWaits,
  fd: number,
  owner: number,
  endAt = Infinity,
): Promise<void> {
  return new Promise((resolve) => waits.wait(fd, owner, endAt, resolve));
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('waits for bytes of hellos', () => {
  it('end in the next turn where bytes are there', async () => {
    const { waits, looks } = waitsOver(new Set([7]));
    await whenReadable(waits, 7, 1);
    expect(looks).toEqual([1]);
  });

  it('of one process that has a thousand do not hold up the one of another', async () => {
    const all = Array.from({ length: 1000 }, (_, fd) => fd);
    const { waits } = waitsOver(new Set([...all, 2000]));
    const ended: number[] = [];
    for (const fd of all) void whenReadable(waits, fd, 1).then(() => ended.push(fd));
    void whenReadable(waits, 2000, 2).then(() => ended.push(2000));
    await turn();
    await turn();
    expect(ended).toContain(2000);
    expect(ended.length).toBeLessThan(100);
    // Those of the first come, too, in their order.
    while (ended.length < 1001) await turn();
    expect(ended.filter((fd) => fd !== 2000)).toEqual(all);
  });

  it('are looked at less often the longer nothing comes', async () => {
    const readable = new Set<number>();
    const { waits, looks } = waitsOver(readable);
    const begun = performance.now();
    const done = whenReadable(waits, 7, 1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const quiet = looks.length;
    await new Promise((resolve) => setTimeout(resolve, 320));
    expect(looks.length - quiet).toBeLessThanOrEqual((performance.now() - begun) / 32);
    readable.add(7);
    await done;
  });

  it('end early, and leave nothing to look at', async () => {
    const { waits, looks } = waitsOver(new Set());
    let ends = 0;
    const wait = waits.wait(7, 1, Infinity, () => (ends += 1));
    waits.end(wait);
    waits.end(wait);
    expect(ends).toBe(1);
    await turn();
    await turn();
    const count = looks.length;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(looks.length).toBe(count);
  });

  it('end at their time', async () => {
    const { waits } = waitsOver(new Set());
    const endAt = performance.now() + 30;
    await whenReadable(waits, 7, 1, endAt);
    expect(performance.now()).toBeGreaterThanOrEqual(endAt);
  });

  it('end where the system cannot look: the receive finds out', async () => {
    const waits = new ReadableWaits({
      markReadable: () => {
        throw new Error('ENOMEM');
      },
    });
    await whenReadable(waits, 7, 1);
  });
});
