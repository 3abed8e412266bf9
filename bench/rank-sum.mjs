// The test of Mann and Whitney, two-sided: exact for small samples without equal values, by the
// normal distribution for others.
const exactMax = 50;

/** The probability that two samples of one distribution differ in their ranks at least so much. */
export function rankSumP(a, b) {
  const all = [...a.map((value) => [value, 0]), ...b.map((value) => [value, 1])];
  all.sort((x, y) => x[0] - y[0]);
  let rankSum = 0;
  let ties = 0;
  for (let at = 0; at < all.length; ) {
    let end = at;
    while (end < all.length && all[end][0] === all[at][0]) end += 1;
    const rank = (at + 1 + end) / 2; // equal values share the mean of their ranks
    for (let each = at; each < end; each += 1) if (all[each][1] === 0) rankSum += rank;
    const count = end - at;
    ties += count ** 3 - count;
    at = end;
  }
  const u = rankSum - (a.length * (a.length + 1)) / 2;
  const isExact = ties === 0 && a.length <= exactMax && b.length <= exactMax;
  return isExact ? exactP(u, a.length, b.length) : normalP(u, a.length, b.length, ties);
}

/** Counts the arrangements whose U is at least as far from the middle. */
function exactP(u, n, m) {
  const counts = arrangements(n, m);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const low = Math.min(u, n * m - u);
  let tail = 0;
  for (let each = 0; each <= low; each += 1) tail += counts[each];
  return Math.min(1, (2 * tail) / total);
}

/** For each U the number of ways in which n and m values can be mixed to have it. */
function arrangements(n, m) {
  // ways[j][u]: with j values of the second sample, after i of the first.
  let ways = Array.from({ length: m + 1 }, () => [1]);
  for (let i = 1; i <= n; i += 1) {
    const next = [];
    for (let j = 0; j <= m; j += 1) {
      const size = i * j + 1;
      const row = new Array(size).fill(0);
      // The largest value is of the first sample (which adds j), or of the second.
      for (const [u, count] of ways[j].entries()) row[u + j] += count;
      if (j > 0) for (const [u, count] of next[j - 1].entries()) row[u] += count;
      next.push(row);
    }
    ways = next;
  }
  return ways[m];
}

function normalP(u, n, m, ties) {
  const all = n + m;
  const mean = (n * m) / 2;
  const variance = ((n * m) / 12) * (all + 1 - ties / (all * (all - 1)));
  if (variance === 0) return 1;
  const z = (Math.abs(u - mean) - 0.5) / Math.sqrt(variance);
  return Math.min(1, erfc(Math.max(0, z) / Math.SQRT2));
}

/** The complementary error function, to seven digits (Abramowitz and Stegun 7.1.26). */
function erfc(x) {
  const t = 1 / (1 + 0.3275911 * x);
  const factors = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
  const sum = factors.reduceRight((rest, factor) => (rest + factor) * t, 0);
  return sum * Math.exp(-x * x);
}
