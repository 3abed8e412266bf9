// Waits for bytes of hellos: polled together, each process in its turn.

import { setImmediate } from 'node:timers';
import { describe, expect, it } from 'vitest';
import { newPace, type ReadableWait, ReadableWaits } from '../../src/uds/readable-waits.ts';

/** Stalls over descriptors that a set says are readable; notes how many each look asked for. */
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

interface Begin {
  readonly fd: number;
  readonly owner: number;
  readonly endAt?: number;
  readonly isFresh?: boolean;
}

function begin(waits: ReadableWaits, options: Begin, onEnd: () => void): ReadableWait {
  const standard = { pace: newPace(), endAt: Number.POSITIVE_INFINITY, isFresh: true };
  return waits.wait({ ...standard, ...options, onEnd });
}

/** A wait as a promise. */
function whenReadable(waits: ReadableWaits, options: Begin): Promise<void> {
  return new Promise((resolve) => begin(waits, options, resolve));
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('waits for bytes of hellos', () => {
  it('end in the next turn where bytes are there', async () => {
    const { waits, looks } = waitsOver(new Set([7]));
    await whenReadable(waits, { fd: 7, owner: 1 });
    expect(looks).toEqual([1]);
  });

  it('of processes that have hundreds do not hold up the one of another', async () => {
    const readable = new Set(Array.from({ length: 3000 }, (_, fd) => fd));
    const { waits } = waitsOver(readable);
    const ended: number[] = [];
    const all: number[] = [];
    for (let owner = 1; owner <= 8; owner += 1) {
      for (let at = 0; at < 100; at += 1) {
        const fd = owner * 100 + at;
        all.push(fd);
        void whenReadable(waits, { fd, owner }).then(() => ended.push(fd));
      }
    }
    void whenReadable(waits, { fd: 2000, owner: 9 }).then(() => ended.push(2000));
    while (!ended.includes(2000)) await turn();
    expect(ended.indexOf(2000)).toBeLessThanOrEqual(8); // behind one of each
    while (ended.length < 801) await turn();
    // Of each process the first came first.
    for (let owner = 1; owner <= 8; owner += 1) {
      const isOfOwner = (fd: number): boolean => Math.floor(fd / 100) === owner;
      expect(ended.filter(isOfOwner)).toEqual(all.filter(isOfOwner));
    }
  });

  it('of hellos that are under way end before those that have not begun', async () => {
    const { waits } = waitsOver(new Set([1, 2, 3]));
    const ended: number[] = [];
    begin(waits, { fd: 1, owner: 1 }, () => ended.push(1));
    begin(waits, { fd: 2, owner: 1 }, () => ended.push(2));
    begin(waits, { fd: 3, owner: 1, isFresh: false }, () => ended.push(3));
    await turn();
    await turn();
    expect(ended).toEqual([3, 1, 2]);
  });

  it('end faster where turns of the loop are long', async () => {
    const readable = new Set(Array.from({ length: 400 }, (_, fd) => fd));
    const { waits } = waitsOver(readable);
    let ended = 0;
    for (const fd of readable) {
      begin(waits, { fd, owner: 1 }, () => {
        ended += 1;
      });
    }
    let count = 0;
    for (; ended < 400; count += 1) {
      const until = performance.now() + 20;
      while (performance.now() < until);
      await turn();
    }
    expect(count).toBeLessThan(20); // 80 in one of 20 ms; with four in each it would be a hundred
  });

  it('are looked at less often the longer nothing comes', async () => {
    const readable = new Set<number>();
    const { waits, looks } = waitsOver(readable);
    const begun = performance.now();
    const done = whenReadable(waits, { fd: 7, owner: 1 });
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
    const wait = begin(waits, { fd: 7, owner: 1 }, () => {
      ends += 1;
    });
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
    await whenReadable(waits, { fd: 7, owner: 1, endAt });
    expect(performance.now()).toBeGreaterThanOrEqual(endAt);
  });

  it('end where the system cannot look: the receive finds out', async () => {
    const waits = new ReadableWaits({
      markReadable: () => {
        throw new Error('ENOMEM');
      },
    });
    await whenReadable(waits, { fd: 7, owner: 1 });
  });
});
