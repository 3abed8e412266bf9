// Resources of our code that the process holds: descriptors, handles, mappings, files.
import { readdirSync, readFileSync, readlinkSync, watch } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';

interface Holdings {
  readonly descriptors: Record<string, number>;
  readonly handles: Record<string, number>;
  /** Mappings of shared memory. */
  readonly maps: number;
  readonly directories: readonly string[];
  readonly exitListeners: number;
}

// Handles that this package makes. Timers are not among them: vitest keeps its own.
const handleKinds = ['PipeWrap', 'PipeServerWrap', 'ProcessWrap', 'FSEventWrap', 'Immediate'];

let isWarm = false;

/** Counts resources; the returned function waits until the counts are the same again. */
export async function watchLeaks(): Promise<() => Promise<void>> {
  await warmUp();
  const before = takeStock();
  return async () => {
    // Ends are asynchronous, so the counts are polled for up to a minute.
    for (let round = 0; round < 2_400; round += 1) {
      if (same(before, takeStock())) return;
      // Views of a block area keep it mapped until they are collected.
      if (round % 8 === 1 && before.maps !== takeStock().maps) globalThis.gc?.();
      await sleep(25);
    }
    expect(takeStock(), 'descriptors, handles and files after the test').toEqual(before);
  };
}

/** Open descriptors of this process, or of another one. */
export function countDescriptors(pid: number | 'self' = 'self'): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Mappings of shared memory of this process, or of another one. */
export function countMaps(pid: number | 'self' = 'self'): number {
  return readFileSync(`/proc/${pid}/maps`, 'latin1').split('/memfd:').length - 1;
}

function takeStock(): Holdings {
  return {
    descriptors: descriptorsByKind(),
    handles: handlesByKind(),
    maps: countMaps(),
    directories: readdirSync(tmpdir()).filter((name) => name.startsWith(`sidecall-`)),
    exitListeners: process.listenerCount('exit'),
  };
}

function descriptorsByKind(): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const fd of readdirSync('/proc/self/fd')) {
    let target: string;
    try {
      target = readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      continue; // the listing's own descriptor
    }
    const kind = target.replace(/\[?\d+\]?$/, '');
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  return sorted(kinds);
}

function sorted(kinds: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(kinds).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function handlesByKind(): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) {
    if (handleKinds.includes(kind)) kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  return sorted(kinds);
}

function same(before: Holdings, after: Holdings): boolean {
  return JSON.stringify(before) === JSON.stringify(after);
}

/** Makes Node open the resources that it keeps: inotify, the thread pool, sockets' handles. */
async function warmUp(): Promise<void> {
  if (isWarm) return;
  isWarm = true;
  watch(tmpdir(), { persistent: false }).close();
  const server = createServer((socket) => socket.end());
  await new Promise<void>((done) => server.listen(`${tmpdir()}/warm-${process.pid}`, done));
  const socket = createConnection(`${tmpdir()}/warm-${process.pid}`).resume();
  await new Promise((done) => socket.once('close', done));
  await new Promise((done) => server.close(done));
  await sleep(20);
}
