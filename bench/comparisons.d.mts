// The types of what a test runs of comparisons.mjs.
export interface ComparedRow {
  readonly scenario: string;
  readonly peer: string;
  readonly size: number;
  readonly inFlight: number;
  readonly what?: string;
  readonly callsPerSecond: number;
  readonly rounds: readonly number[];
  readonly skipped?: string;
}

export interface Comparison {
  readonly scenario: string;
  readonly first: string;
  readonly second: string;
  readonly ratio: number;
  readonly p: number;
  readonly n: readonly number[];
}

export declare function comparisonsOf(rows: readonly ComparedRow[]): Comparison[];
export declare function comparisonText(comparison: Comparison): string;
