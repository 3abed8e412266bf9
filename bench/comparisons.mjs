// Two peers of a scenario, compared by all of their rounds: the ratio of the medians, and the
// probability of such a difference by chance. The test is that of benchstat: Mann and Whitney's,
// which asks for no distribution.
import { rankSumP } from './rank-sum.mjs';
import { scenarios } from './scenarios/index.mjs';

const roundsMin = 4;

/** The comparisons of the rows: of the pairs that a scenario names, in each of its cells. */
export function comparisonsOf(rows) {
  return Object.values(scenarios).flatMap(({ name, pairs = [] }) => {
    const own = rows.filter((row) => row.scenario === name && row.skipped === undefined);
    return pairs.flatMap(([first, second]) =>
      own
        .filter(({ peer }) => peer === first)
        .flatMap((a) => {
          const b = own.find((row) => row.peer === second && isSameCell(row, a));
          if (b === undefined || a.rounds.length < roundsMin) return [];
          return [comparisonOf(name, a, b)];
        }),
    );
  });
}

function isSameCell(a, b) {
  return a.size === b.size && a.inFlight === b.inFlight && cellOf(a) === cellOf(b);
}

/** The words of a row for its cell. */
function cellOf({ what }) {
  return what ?? '';
}

function comparisonOf(scenario, a, b) {
  return {
    scenario,
    what: [cellOf(a), `${a.inFlight} at once`].filter(Boolean).join(', '),
    first: a.peer,
    second: b.peer,
    // Time per call of the second, where that of the first is 1.
    ratio: a.callsPerSecond / b.callsPerSecond,
    p: rankSumP(a.rounds, b.rounds),
    n: [a.rounds.length, b.rounds.length],
  };
}

/** The comparisons as text. */
export function comparisonText({ first, second, ratio, p, n }) {
  const chance = p < 0.0005 ? 'p < 0.001' : `p = ${p.toFixed(3)}`;
  const isSure = p < 0.05;
  const verdict = isSure
    ? `${second} takes ${ratio.toFixed(2)} times as long as ${first}`
    : `no difference of ${second} and ${first} is shown`;
  return `${verdict} (${chance}, n = ${n.join(' + ')})`;
}

export function printComparisons(rows) {
  for (const each of comparisonsOf(rows)) {
    console.log(`${each.scenario}, ${each.what}: ${comparisonText(each)}`);
  }
}
