// The program that runs simulated cases. `scripts/simulate.mjs` starts it, several at once, and
// reads the lines of JSON that it prints.
import './late-collection.ts'; // before each module that makes a registry
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Coverage, situations } from '../../src/testing/simulation/coverage.ts';
import { Fingerprint } from '../../src/testing/simulation/fingerprint.ts';
import { traceLine } from '../../src/testing/simulation/simulate.ts';
import { type Case, caseOf, type WorkloadName, workloads } from './case.ts';
import { collectLate } from './late-collection.ts';
import type { Outcome } from './outcome.ts';
import { runCase } from './run-case.ts';
import { kindOfFailure, shrink } from './shrink.ts';

/** Cases between two reports. */
const casesPerReport = 50;
const failuresMax = 5;

const { values } = parseArgs({
  options: {
    workload: { type: 'string', multiple: true, default: [] },
    seed: { type: 'string' },
    from: { type: 'string', default: '1' },
    to: { type: 'string', default: '1' },
    step: { type: 'string', default: '1' },
    seconds: { type: 'string' },
    case: { type: 'string' },
    trace: { type: 'boolean' },
    shrink: { type: 'boolean' },
    list: { type: 'boolean' },
    'first-failure': { type: 'boolean' },
  },
});

class Report {
  readonly workload: string;
  cases = 0;
  steps = 0;
  virtualMs = 0;
  readonly injected = new Map<string, number>();
  readonly coverage = new Coverage();
  /** Sums up the runs, for a comparison with another Node. */
  readonly fingerprint = new Fingerprint();
  readonly failures: { seed: number; kind: string; faults: readonly string[] }[] = [];

  constructor(workload: string) {
    this.workload = workload;
  }

  add(seed: number, outcome: Outcome): void {
    this.cases += 1;
    this.steps += outcome.steps;
    this.virtualMs += outcome.virtualMs;
    for (const [kind, count] of outcome.injected) {
      this.injected.set(kind, (this.injected.get(kind) ?? 0) + count);
    }
    this.coverage.addAll(outcome.coverage.counts);
    this.fingerprint.addBytes(Buffer.from(outcome.fingerprint));
    const { faults } = outcome;
    if (faults.length > 0) this.failures.push({ seed, kind: kindOfFailure(faults), faults });
  }

  print(): void {
    const { workload, cases, steps, virtualMs, failures } = this;
    const injected = Object.fromEntries(this.injected);
    const coverage = Object.fromEntries(this.coverage.counts);
    const fingerprint = String(this.fingerprint);
    print({ workload, cases, steps, virtualMs, injected, coverage, failures, fingerprint });
  }
}

function print(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function runOne(given: Case): Promise<Outcome> {
  const outcome = await runCase(given, values.trace === true ? printTrace : undefined);
  collectLate();
  return outcome;
}

function printTrace(nowMs: number, actor: string, text: string): void {
  process.stdout.write(`${traceLine(nowMs, actor, text)}\n`);
}

async function runSeeds(workload: WorkloadName): Promise<boolean> {
  const [from, to, step] = [Number(values.from), Number(values.to), Number(values.step)];
  const end =
    values.seconds === undefined ? undefined : performance.now() + 1000 * Number(values.seconds);
  const isGoing = (seed: number): boolean =>
    end === undefined ? seed <= to : performance.now() < end;
  let failures = 0;
  let report = new Report(workload);
  for (let seed = from; isGoing(seed) && failures < failuresMax; seed += step) {
    report.add(seed, await runOne(caseOf(workload, seed)));
    if (report.cases < casesPerReport && report.failures.length === 0) continue;
    report.print();
    failures += report.failures.length;
    if (failures > 0 && values['first-failure'] === true) return false;
    report = new Report(workload);
  }
  if (report.cases > 0) report.print();
  return failures === 0;
}

async function runGiven(given: Case): Promise<void> {
  if (values.shrink === true) {
    const smallest = await shrink(given, (_, runs) => print({ runs }));
    return print({ smallest });
  }
  const { faults, steps, virtualMs, fingerprint } = await runOne(given);
  print({ workload: given.workload, seed: given.seed, faults, steps, virtualMs, fingerprint });
}

async function main(): Promise<void> {
  if (values.list === true) {
    const about = Object.fromEntries(Object.entries(workloads).map(([name, w]) => [name, w.about]));
    return print({ workloads: about, situations: situations() });
  }
  if (values.case !== undefined) {
    return runGiven(JSON.parse(readFileSync(values.case, 'utf8')) as Case);
  }
  for (const workload of values.workload as WorkloadName[]) {
    if (values.seed !== undefined) await runGiven(caseOf(workload, Number(values.seed)));
    else if (!(await runSeeds(workload)) && values['first-failure'] === true) return;
  }
}

await main();
