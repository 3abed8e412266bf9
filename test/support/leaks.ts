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

/** Counts resources; the returned function waits until nothing is held that was not before. */
export async function watchLeaks(): Promise<() => Promise<void>> {
  await warmUp();
  const before = takeStock();
  return async () => {
    // Ends are asynchronous, so the counts are polled for up to a minute.
    for (let round = 0; round < 2_400; round += 1) {
      const left = heldBeyond(before, takeStock());
      if (left.length === 0) return;
      // Views of a block area keep it mapped until they are collected.
      if (round % 8 === 1 && left.some((line) => line.startsWith('maps'))) globalThis.gc?.();
      await sleep(25);
    }
    const left = heldBeyond(before, takeStock());
    expect(left, 'descriptors, handles and files that the test has left').toEqual([]);
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

/**
 * Resources that are held now and were not before. A smaller count is no leak: an earlier test was
 * still reading a directory at its end.
 */
function heldBeyond(before: Holdings, after: Holdings): string[] {
  const more = (kind: string, was: number, is: number): string[] =>
    is > was ? [`${kind}: ${is} instead of ${was}`] : [];
  const ofKinds = (was: Record<string, number>, is: Record<string, number>): string[] =>
    Object.entries(is).flatMap(([kind, count]) => more(kind, was[kind] ?? 0, count));
  return [
    ...ofKinds(before.descriptors, after.descriptors),
    ...ofKinds(before.handles, after.handles),
    ...more('maps', before.maps, after.maps),
    ...more('exit listeners', before.exitListeners, after.exitListeners),
    ...after.directories.filter((name) => !before.directories.includes(name)),
  ];
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
