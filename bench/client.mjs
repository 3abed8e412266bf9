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
  serverPrefix,
  ...(poll === 'off' && { pollBudgetUs: 0 }),
});
const row = await scenarios[scenario].run(
  {
    ...peer,
    cpu: () => ({ client: ownCpu(), server: cpuOf(peer.serverPid) }),
    rss: () => ({ client: process.memoryUsage.rss(), server: rssOf(peer.serverPid) }),
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
