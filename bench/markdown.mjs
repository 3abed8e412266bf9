// Writes the rows of results into docs/performance.md and its pages, and draws their charts:
// figures are generated, never typed. npm run bench:report -- bench/results/NAME.json
// [bench/results/OTHER.json …]; the goals are judged by the first, and by further runs of all goals
// from the same commit.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartOf } from './charts.mjs';
import { comparisonsOf, comparisonText } from './comparisons.mjs';
import { goalsOf } from './goals.mjs';
import { overviewLines } from './overview.mjs';
import { altOf, plots } from './plots.mjs';
import { publishedLines } from './published.mjs';
import { cpuPerCall, cpuText, more } from './report.mjs';
import { scenarios } from './scenarios/index.mjs';

const given = process.argv.slice(2).map((file) => ({
  file,
  ...JSON.parse(readFileSync(file, 'utf8')),
}));
const fullRuns = given.filter(
  ({ commit, args }, at) => at === 0 || (commit === given[0].commit && args.includes('--goals')),
);
const all = given.filter((result) => result === given[0] || !fullRuns.includes(result));
// A row of another commit that was measured later stands in place of the same row.
const results = all.map((result) => {
  const newer = all.filter(({ commit, date }) => commit !== result.commit && date > result.date);
  const later = new Set(newer.flatMap(({ rows }) => rows.map(cellOf)));
  return { ...result, rows: result.rows.filter((row) => !later.has(cellOf(row))) };
});
if (results.length === 0) {
  console.error('usage: npm run bench:report -- bench/results/NAME.json …');
  process.exit(2);
}
const docs = join(dirname(fileURLToPath(import.meta.url)), '..', 'docs');
const charts = join(docs, 'charts');
mkdirSync(charts, { recursive: true });

function cellOf({ scenario, peer, lane, codec, size, inFlight, what }) {
  return JSON.stringify([scenario, peer, lane ?? null, codec, size, inFlight, what ?? '']);
}

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
  'CPU µs/call (user + system)',
  'more',
];

function tableOf(result, name) {
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
      row.calls === 0 ? '–' : cpuText(row),
      more(row),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    `### ${name}: ${scenarios[name].about}`,
    '',
    ...pictureOf(result, name, rows),
    `| ${header.join(' | ')} |`,
    `|${'---|'.repeat(header.length)}`,
    ...lines,
    '',
    ...comparisonsOf(rows).flatMap((each) => [`${each.what}: ${comparisonText(each)}.`, '']),
  ];
}

function pictureOf(result, name, rows) {
  const svg = chartOf(name, rows);
  if (svg === undefined) return [];
  const isFirst = results.find((each) => each.rows.some((row) => row.scenario === name)) === result;
  const picture = isFirst ? `${name}.svg` : `${name}-${results.indexOf(result) + 1}.svg`;
  writeFileSync(join(charts, picture), `${svg}\n`);
  return [`![${altOf(name, rows)}](../charts/${picture})`, ''];
}

function versions(result) {
  const all = { go: result.go, ...result.versions };
  const words = Object.entries(all).map(([name, version]) => `${name} ${version}`);
  return words.length === 0 ? '' : ` Compared with ${words.join(', ')}.`;
}

/** The goals, with a column for each run of all of them. */
function goals() {
  const runs = fullRuns.map(({ rows }) => goalsOf(rows));
  const lines = runs[0].map(({ name, what }, at) => {
    const values = runs.map((goals) => goals[at].value);
    const reached = runs.filter((goals) => goals[at].isReached).length;
    const verdict = reached === runs.length ? 'reached' : reached > 0 ? 'in part' : '**missed**';
    return `| ${[name, what, ...values, verdict].join(' | ')} |`;
  });
  const columns = runs.map((_, at) => (runs.length === 1 ? 'measured' : `run ${at + 1}`));
  return [
    `| goal | what | ${columns.join(' | ')} | |`,
    `|${'---|'.repeat(runs.length + 3)}`,
    ...lines,
    '',
  ];
}

/** NUMA nodes and `numa_balancing`, of results that have them. */
function numaOf({ numaNodes, numaBalancing }) {
  if (numaNodes === undefined) return '';
  return ` on ${numaNodes} NUMA ${numaNodes === 1 ? 'node' : 'nodes'} (numa_balancing ${numaBalancing})`;
}

function headingOf(result) {
  const name = basename(result.file);
  const changes = result.dirty ? ' (with changes)' : '';
  return `From [results/${name}](../../bench/results/${name}) (\`npm run bench -- ${result.args.join(' ')}\`): commit ${result.commit.slice(0, 12)}${changes}, ${result.cpu}, ${result.cores} cores${numaOf(result)}, Linux ${result.kernel}, Node ${result.node}, ${result.date.slice(0, 10)}.${versions(result)}`;
}

/** The ways to send bytes: one chart, and the figures by size. */
function codecLines(result) {
  const rows = result.rows.filter(
    ({ scenario, skipped }) => scenario === 'codecs' && skipped === undefined,
  );
  const sizes = [...new Set(rows.map(({ size }) => size))];
  const ways = [...new Set(rows.map(plots.codecs.series))];
  const table = (what, text) => [
    `| ${what} | ${sizes.map(number).join(' | ')} |`,
    `|---|${'---|'.repeat(sizes.length)}`,
    ...ways.map((way) => {
      const cells = sizes.map((size) => {
        const row = rows.find((each) => each.size === size && plots.codecs.series(each) === way);
        return row === undefined ? '–' : text(row);
      });
      return `| ${way} | ${cells.join(' | ')} |`;
    }),
    '',
  ];
  return [
    `![${altOf('codecs', rows)}](../charts/codecs.svg)`,
    '',
    headingOf(result),
    '',
    ...table('calls a second', (row) => number(row.callsPerSecond)),
    ...table('99th percentile, µs', (row) => number(row.p99Us)),
    ...table('CPU of both sides, µs a call', (row) => number(cpuPerCall(row))),
  ];
}

/** Small calls beside large transfers: what they took, and what was transferred. */
function besideLines(result) {
  const rows = result.rows.filter(
    ({ scenario, skipped }) => scenario === 'fairness' && skipped === undefined,
  );
  const besides = rows.map((row) => {
    const { peer, lane, what, p50Us, p99Us, besideBytes, calls, callsPerSecond } = row;
    const seconds = calls / callsPerSecond;
    const moved = besideBytes === 0 ? '–' : number(besideBytes / seconds / 1e6);
    const name = lane === null ? peer : `${peer}, ${lane}`;
    return `| ${name} | ${what} | ${p50Us.toFixed(0)} | ${p99Us.toFixed(0)} | ${moved} |`;
  });
  return [
    headingOf(result),
    '',
    '| peer | beside | p50, µs | p99, µs | MB/s beside |',
    '|---|---|---|---|---|',
    ...besides,
    '',
  ];
}

/**
 * Puts lines between the marks of a page, and leaves the rest of it as it is. `part`: the marks
 * that have this name.
 */
function fill(page, lines, part = '') {
  const [begin, end] = ['begin', 'end'].map((at) => `<!-- ${at} of generated${part} -->`);
  const file = join(docs, page);
  const text = readFileSync(file, 'utf8');
  const before = text.slice(0, text.indexOf(begin));
  const after = text.slice(text.indexOf(end) + end.length);
  writeFileSync(file, [`${before}${begin}`, '', ...lines, `${end}${after}`].join('\n'));
}

const goalHeadings = fullRuns.flatMap((result) => [headingOf(result), '']);
fill('performance/goals.md', [...goalHeadings, ...goals()]);
fill(
  'performance/tables.md',
  results
    .filter(({ rows }) => rows.length > 0)
    .flatMap((result) => [
      headingOf(result),
      '',
      ...Object.keys(scenarios).flatMap((name) => tableOf(result, name)),
    ]),
);
const codecs = results.find(({ rows }) => rows.some(({ scenario }) => scenario === 'codecs'));
if (codecs !== undefined) fill('guide/large-messages.md', codecLines(codecs));
const fairness = results.find(({ rows }) => rows.some(({ scenario }) => scenario === 'fairness'));
if (fairness !== undefined) fill('guide/large-messages.md', besideLines(fairness), ': beside');
fill('performance/published.md', publishedLines(results.flatMap(({ rows }) => rows)));
fill('performance.md', overviewLines(results, charts));
