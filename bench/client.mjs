// The client process of one cell: opens the peer (which starts its server process), runs, prints a
// row.
import { readFileSync } from 'node:fs';
import { misplaced } from './placement.mjs';
import { cpuOf, cpuPartsOf, ownCpuParts, rssOf } from './processes.mjs';
import { scenarios } from './scenarios/index.mjs';

const {
  scenario,
  peer: name,
  lane,
  poll,
  serverPrefix,
  nodes,
  ...cell
} = JSON.parse(process.argv[2]);
const { open } = await import(`./peers/${name}.mjs`);
const peer = await open({
  lane,
  size: Math.max(cell.size, cell.limitBytes ?? 0),
  leases: cell.leases,
  workers: cell.workers,
  serverPrefix,
  ...(poll === 'off' && { pollBudgetUs: 0 }),
});
const serverPids = peer.serverPids ?? [peer.serverPid];
const ofServers = (measure) => serverPids.reduce((sum, pid) => sum + measure(pid), 0);
const row = await scenarios[scenario].run(
  {
    ...peer,
    cpu: () => ({ client: ownCpu(), server: ofServers(cpuOf) }),
    cpuParts: () => [ownCpuParts(), ...serverPids.map(cpuPartsOf)].reduce(sumOfParts),
    rss: () => ({ client: process.memoryUsage.rss(), server: ofServers(rssOf) }),
    blocks: () => {
      const counts = readFileSync(process.env.BENCH_BLOCKS);
      return { own: Number(counts.readBigUInt64LE(0)), server: Number(counts.readBigUInt64LE(8)) };
    },
  },
  cell,
);
const misplacement = nodes === undefined ? undefined : misplaced(process.pid, nodes);
if (misplacement !== undefined) {
  console.error(`${name}: ${misplacement}`);
  row.errors += 1;
}
await peer.close();
process.stdout.write(JSON.stringify({ scenario, peer: name, lane: peer.lane ?? null, ...row }));

function ownCpu() {
  const { user, system } = ownCpuParts();
  return user + system;
}

function sumOfParts(a, b) {
  return { user: a.user + b.user, system: a.system + b.system };
}
