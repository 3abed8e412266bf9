// Writes the rows of a result into docs/performance.md: figures are generated, never typed.
// node bench/markdown.mjs bench/results/NAME.json
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { goalsOf } from './goals.mjs';
import { cpuPerCall, more } from './report.mjs';
import { scenarios } from './scenarios/index.mjs';

const file = process.argv[2];
const result = JSON.parse(readFileSync(file, 'utf8'));
const document = join(dirname(fileURLToPath(import.meta.url)), '..', 'docs', 'performance.md');
const begin = '<!-- begin of generated -->';
const end = '<!-- end of generated -->';

const number = (value) => Math.round(value).toLocaleString('en');
const header = [
  'peer',
  'lane',
  'codec',
  'bytes',
  'in flight',
  'calls/s',
  'rounds',
  'p50 µs',
  'p99 µs',
  'CPU µs/call',
  'more',
];

function tableOf(name) {
  const rows = result.rows.filter((row) => row.scenario === name);
  if (rows.length === 0) return [];
  const lines = rows.map((row) => {
    if (row.skipped !== undefined) return `| ${row.peer} | skipped: ${row.skipped} |`;
    const rounds = [...row.rounds].sort((a, b) => a - b);
    const cells = [
      row.peer,
      row.lane ?? '–',
      row.codec,
      number(row.size),
      row.inFlight,
      number(row.callsPerSecond),
      `${number(rounds[0])} – ${number(rounds.at(-1))}`,
      row.p50Us.toFixed(1),
      row.p99Us.toFixed(1),
      row.calls === 0 ? '–' : cpuPerCall(row).toFixed(1),
      more(row),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    `### ${name}: ${scenarios[name].about}`,
    '',
    `| ${header.join(' | ')} |`,
    `|${'---|'.repeat(header.length)}`,
    ...lines,
    '',
  ];
}

function goals() {
  const lines = goalsOf(result.rows).map(
    ({ name, what, value, isReached }) =>
      `| ${name} | ${what} | ${value} | ${isReached ? 'reached' : '**missed**'} |`,
  );
  return ['| goal | what | measured | |', '|---|---|---|---|', ...lines, ''];
}

const generated = [
  begin,
  '',
  `From [results/${basename(file)}](../bench/results/${basename(file)}): commit ${result.commit.slice(0, 12)}${result.dirty ? ' (with changes)' : ''}, ${result.cpu}, ${result.cores} cores, Linux ${result.kernel}, Node ${result.node}, ${result.date.slice(0, 10)}.`,
  '',
  ...goals(),
  ...Object.keys(scenarios).flatMap(tableOf),
  end,
].join('\n');

const text = readFileSync(document, 'utf8');
const before = text.slice(0, text.indexOf(begin));
const after = text.slice(text.indexOf(end) + end.length);
writeFileSync(document, before + generated + after);
