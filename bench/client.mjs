// The client process of one cell: opens the peer (which starts its server process), runs, prints a row.
import { readFileSync } from 'node:fs';
import { scenarios } from './scenarios/index.mjs';

const { scenario, peer: name, lane, ...cell } = JSON.parse(process.argv[2]);
const { open } = await import(`./peers/${name}.mjs`);
const peer = await open({ lane, size: Math.max(cell.size, cell.limitBytes ?? 0) });
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

/** Of another process, from /proc: in hundredths of a second. 0 where there is no /proc. */
function cpuOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return 0;
  }
}

function rssOf(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
  } catch {
    return 0;
  }
}
