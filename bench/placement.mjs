// The NUMA nodes of the processes of a cell, set by numactl.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

/**
 * `{ client, server }`: the numactl words before their commands; or `{ why }` it is impossible.
 */
export function placementOf(numa) {
  if (numa === 'default') return { client: [], server: [] };
  const nodes = readNodes();
  if (nodes < 2) return { why: `not available: ${nodes} node` };
  if (spawnSync('numactl', ['--hardware']).error) return { why: 'numactl is not installed' };
  const on = (node) => ['numactl', `--cpunodebind=${node}`, `--membind=${node}`];
  return { client: on(1), server: on(numa === 'same' ? 1 : 0) };
}

function readNodes() {
  try {
    const names = readdirSync('/sys/devices/system/node');
    return names.filter((name) => /^node\d+$/.test(name)).length;
  } catch {
    return 1;
  }
}
