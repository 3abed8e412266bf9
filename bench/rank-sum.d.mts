export function rankSumP(a: readonly number[], b: readonly number[]): number;
