// The NUMA nodes of the processes of a cell, set by numactl.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/**
 * `{ client, server }`: the numactl words before their commands; or `{ why }` it is impossible.
 */
export function placementOf(numa) {
  if (numa === 'default') return { client: [], server: [] };
  const nodes = readNodes();
  if (nodes < 2) return { why: `not available: ${nodes} node` };
  if (spawnSync('numactl', ['--hardware']).error) return { why: 'numactl is not installed' };
  const on = (node) => ['numactl', `--cpunodebind=${node}`, `--membind=${node}`];
  const serverNode = numa === 'same' ? 1 : 0;
  return { client: on(1), server: on(serverNode), nodes: [...new Set([serverNode, 1])] };
}

/**
 * Pages of the rings of a process on each node, from `/proc/PID/numa_maps`. The outbox of each side
 * lies where its writer ran, because it writes to a page first.
 */
export function ringPages(numaMaps) {
  const pages = new Map();
  for (const line of numaMaps.split('\n')) {
    if (!line.includes('file=/memfd:')) continue;
    for (const [, node, count] of line.matchAll(/\bN(\d+)=(\d+)/g)) {
      pages.set(Number(node), (pages.get(Number(node)) ?? 0) + Number(count));
    }
  }
  return pages;
}

/** Why the rings of a process do not lie on these nodes and no others; undefined: they do. */
export function misplaced(pid, nodes) {
  const pages = ringPages(readFileSync(`/proc/${pid}/numa_maps`, 'utf8'));
  const found = [...pages.keys()].sort();
  if (found.length === 0) return undefined; // the socket lane has no rings
  if (found.join() === [...nodes].sort().join()) return undefined;
  return `rings lie on the nodes ${found.join(', ')}, expected ${nodes.join(', ')}`;
}

/** NUMA nodes of this machine. */
export function readNodes() {
  try {
    const names = readdirSync('/sys/devices/system/node');
    return names.filter((name) => /^node\d+$/.test(name)).length;
  } catch {
    return 1;
  }
}
