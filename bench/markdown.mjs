// Writes the rows of a result into docs/performance.md: figures are generated, never typed.
// node bench/markdown.mjs bench/results/NAME.json
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const file = process.argv[2];
const result = JSON.parse(readFileSync(file, 'utf8'));
const document = join(dirname(fileURLToPath(import.meta.url)), '..', 'docs', 'performance.md');
const begin = '<!-- begin of generated -->';
const end = '<!-- end of generated -->';

const number = (value) => Math.round(value).toLocaleString('en');
const header =
  '| peer | lane | bytes | in flight | calls/s | rounds | p50 µs | p99 µs | CPU µs/call |';
const rows = result.rows.map((row) => {
  const cpu = ((row.cpuClientSeconds + row.cpuServerSeconds) * 1e6) / row.calls;
  const rounds = [...row.rounds].sort((a, b) => a - b);
  const cells = [
    row.peer,
    row.lane ?? '–',
    number(row.size),
    row.inFlight,
    number(row.callsPerSecond),
    `${number(rounds[0])} – ${number(rounds.at(-1))}`,
    row.p50Us.toFixed(1),
    row.p99Us.toFixed(1),
    cpu.toFixed(1),
  ];
  return `| ${cells.join(' | ')} |`;
});
const generated = [
  begin,
  '',
  `From [results/${basename(file)}](../bench/results/${basename(file)}): commit ${result.commit.slice(0, 12)}${result.dirty ? ' (with changes)' : ''}, ${result.cpu}, ${result.cores} cores, Linux ${result.kernel}, Node ${result.node}, ${result.date.slice(0, 10)}.`,
  '',
  header,
  `|${'---|'.repeat(9)}`,
  ...rows,
  '',
  end,
].join('\n');

const text = readFileSync(document, 'utf8');
const before = text.slice(0, text.indexOf(begin));
const after = text.slice(text.indexOf(end) + end.length);
writeFileSync(document, before + generated + after);
