// SPDX-License-Identifier: MIT
// The name that was probably meant where another was written.

/**
 * The candidate that differs least from `word`, if a third of its letters or fewer differ:
 * exchanged, missing, added, or of the other case.
 */
export function closest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3));
  for (const candidate of candidates) {
    // Names are short; a long text is no misspelt name, and comparing it takes long.
    if (Math.abs(candidate.length - word.length) > least || candidate.length > 128) continue;
    const distance = distanceOf(word.toLowerCase(), candidate.toLowerCase());
    if (distance > least || (distance === least && best !== undefined)) continue;
    best = candidate;
    least = distance;
  }
  return best;
}

/** `; did you mean 'x'?`, or an empty text. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const meant = closest(word, candidates);
  return meant === undefined ? '' : `; did you mean '${meant}'?`;
}

/** Letters to add, remove, replace, or exchange with the next (optimal string alignment). */
function distanceOf(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(
        (above[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (above[column - 1] as number) + (isSame ? 0 : 1),
      );
      const isExchanged = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && isExchanged) {
        least = Math.min(least, (before[column - 2] as number) + 1);
      }
      current.push(least);
    }
    before = above;
    above = current;
  }
  return above[b.length] as number;
}
