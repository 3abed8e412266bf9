// The client process of one cell: opens the peer (which starts its server process), runs, prints a
// row.
import { readFileSync } from 'node:fs';
import { cpuOf, rssOf } from './processes.mjs';
import { scenarios } from './scenarios/index.mjs';

const { scenario, peer: name, lane, poll, serverPrefix, ...cell } = JSON.parse(process.argv[2]);
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
    rss: () => ({ client: process.memoryUsage.rss(), server: ofServers(rssOf) }),
    blocks: () => Number(readFileSync(process.env.BENCH_BLOCKS).readBigUInt64LE(0)),
  },
  cell,
);
await peer.close();
process.stdout.write(JSON.stringify({ scenario, peer: name, lane: peer.lane ?? null, ...row }));

function ownCpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
