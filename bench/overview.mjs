// The beginning of docs/performance.md: one sentence, one chart with every peer, and the rows in
// which a peer is faster.
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { overviewOf } from './charts.mjs';
import { rounded } from './plots.mjs';

const work = { scenario: 'echo', codec: 'bytes', size: 1024, inFlight: 16 };
const names = {
  net: 'net.Socket, no calls',
  messageport: 'MessagePort, one process',
  'child_process-json': 'child_process, JSON',
  'child_process-advanced': 'child_process',
};

const labelOf = ({ peer, lane }) =>
  peer === 'sidecall' ? `sidecall, ${lane}` : (names[peer] ?? peer);
const bySpeed = (a, b) => b.callsPerSecond - a.callsPerSecond;
const isDone = (row) => row.skipped === undefined && row.callsPerSecond > 0;

/** The lines of the page; writes the chart in two widths into `folder`. */
export function overviewLines(results, folder) {
  const rowsOf = ({ rows }) =>
    rows.filter((row) => isDone(row) && Object.keys(work).every((key) => row[key] === work[key]));
  // The run that has most peers.
  const [result] = [...results].sort((a, b) => rowsOf(b).length - rowsOf(a).length);
  const rows = rowsOf(result);
  const ours = rows.filter(({ peer }) => peer === 'sidecall').sort(bySpeed);
  const peers = rows.filter(({ peer }) => peer !== 'sidecall').sort(bySpeed);
  const shown = [...ours, ...peers];
  const alt = `Calls a second, each way 1,024 bytes, 16 at a time. ${shown
    .map((row) => `${labelOf(row)}: ${rounded(row.callsPerSecond)}`)
    .join('; ')}`;
  for (const [name, width] of [
    ['overview', 688],
    ['overview-narrow', 342],
  ]) {
    const svg = overviewOf(shown, { width, label: labelOf, alt });
    writeFileSync(join(folder, `${name}.svg`), `${svg}\n`);
  }
  return [
    sentence(ours, peers),
    '',
    '<picture>',
    '  <source media="(max-width: 640px)" srcset="./charts/overview-narrow.svg">',
    `  <img src="./charts/overview.svg" alt="${alt}">`,
    '</picture>',
    '',
    `From [${basename(result.file)}](../bench/results/${basename(result.file)}): commit ${result.commit.slice(0, 12)}, ${result.cpu}, ${result.cores} cores, Node ${result.node}, ${result.date.slice(0, 10)}. Both sides of each pair are on these cores.`,
    '',
    ...faster(result),
  ];
}

/** The first sentence: our best lane beside the peers that people choose between. */
function sentence([best], peers) {
  // Of two ways to use a peer the faster one counts: `peers` begins with the fastest.
  const times = (name) => {
    const row = peers.find(({ peer }) => peer.startsWith(name));
    return row === undefined ? [] : [`${ratioOf(best, row)} times ${name}`];
  };
  const beside = ['child_process', 'vscode-jsonrpc', 'zeromq', 'grpc-js'].flatMap(times);
  const last = beside.pop();
  return `**With messages of 1,024 bytes and 16 calls at a time sidecall answers ${rounded(best.callsPerSecond)} calls a second over its ${best.lane} lane: ${beside.join(', ')} and ${last}, in the same run.**`;
}

function ratioOf(a, b) {
  const ratio = a.callsPerSecond / b.callsPerSecond;
  return ratio >= 10 ? Math.round(ratio) : ratio.toFixed(1);
}

/** The rows of the same scenario in which a peer answers more calls than each of our lanes. */
function faster({ rows }) {
  const all = rows.filter((row) => row.scenario === work.scenario && isDone(row));
  const cells = [...new Set(all.map(cellOf))];
  const lines = cells.flatMap((cell) => {
    const inCell = all.filter((row) => cellOf(row) === cell);
    const [best] = inCell.filter(({ peer }) => peer === 'sidecall').sort(bySpeed);
    if (best === undefined) return [];
    const ahead = inCell.filter((row) => row.callsPerSecond > best.callsPerSecond).sort(bySpeed);
    if (ahead.length === 0) return [];
    const list = ahead.map((row) => `${labelOf(row)} ${rounded(row.callsPerSecond)}`).join(', ');
    return [`| ${cell} | ${rounded(best.callsPerSecond)} | ${list} |`];
  });
  if (lines.length === 0) return [];
  return [
    '## Where another program is faster',
    '',
    'Rows of the same run. `c-ring` is two programs in C that spin on a ring; shmipc-go is Go on both sides.',
    '',
    '| bytes, in flight | sidecall | faster |',
    '|---|---|---|',
    ...lines,
    '',
    'More of them are in the [tables](performance/tables.md), with the reasons in [the figures explained](performance/explained.md).',
    '',
  ];
}

const cellOf = ({ size, inFlight }) => `${size.toLocaleString('en')} B, ${inFlight}`;
