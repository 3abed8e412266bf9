// The same seeds give the same simulated runs on each Node.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './lib.mjs';
import { bundleSimulation } from './simulation-bundle.mjs';

const workloads = ['calls', 'streams', 'channels', 'leases', 'crashes', 'restarts'];
const seeds = 50;

/** Returns a status, what was seen, and what went wrong. */
export async function testSimulation(binaries) {
  const program = await bundleSimulation(root, join(root, 'build', 'simulation'));
  const args = workloads.flatMap((name) => ['--workload', name]).concat(['--to', String(seeds)]);
  const runs = binaries.map(([major, node]) => {
    const { stdout } = spawnSync(node, [program, ...args], { encoding: 'utf8' });
    const reports = stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    const failed = reports.flatMap(({ failures }) => failures).length;
    return { major, failed, sum: reports.map(({ fingerprint }) => fingerprint).join() };
  });
  const [first] = runs;
  const odd = runs.filter(({ failed, sum }) => failed > 0 || sum !== first.sum || sum === '');
  const said = `${runs.length} versions of Node, ${workloads.length * seeds} runs each: ${first.sum}`;
  return [odd.length === 0 ? 0 : 1, said, JSON.stringify(odd), 'versions of Node'];
}
