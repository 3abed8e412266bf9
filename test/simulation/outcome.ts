// The result of a simulated case.
import type { Coverage } from '../../src/testing/simulation/coverage.ts';

/** The result of a run. */
export interface Outcome {
  /** Violations; none: the run is as it should be. */
  readonly faults: readonly string[];
  readonly steps: number;
  readonly virtualMs: number;
  readonly fingerprint: string;
  /** Faults that happened, by their kinds. */
  readonly injected: ReadonlyMap<string, number>;
  readonly coverage: Coverage;
}
