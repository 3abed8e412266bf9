// Cases that failed once, as small as they could be made, and a few seeds of each workload.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shortWay } from '../../src/rpc/short-way.ts';
import { rounds } from '../support/rounds.ts';
import { type Case, caseOf, type WorkloadName, workloads } from './case.ts';
import { runCase } from './run-case.ts';
import { shrink } from './shrink.ts';

const folder = join(import.meta.dirname, 'regressions');
const seeds = Array.from({ length: rounds(200, 10) }, (_, at) => at + 1);
const names = Object.keys(workloads) as WorkloadName[];

describe('a case that failed once', () => {
  it.each(readdirSync(folder))('passes: %s', async (file) => {
    const given = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Case;
    expect((await runCase(given)).faults).toEqual([]);
  });
});

describe.each(names)('simulated %s', (workload) => {
  it('hold for their first seeds', async () => {
    for (const seed of seeds) {
      const { faults } = await runCase(caseOf(workload, seed));
      expect(faults, `SEED=${seed} npm run sim -- --workload ${workload}`).toEqual([]);
    }
  });

  it('have the same run for a seed, and another for another', async () => {
    const fingerprintOf = async (seed: number): Promise<string> =>
      (await runCase(caseOf(workload, seed))).fingerprint;
    expect(await fingerprintOf(7)).toBe(await fingerprintOf(7));
    expect(await fingerprintOf(7)).not.toBe(await fingerprintOf(8));
  });

  it('have the same run by the short way of plain calls and by the long one', async () => {
    for (const seed of seeds.slice(0, rounds(200, 5))) {
      const short = await runCase(caseOf(workload, seed));
      const long = await byLongWay(() => runCase(caseOf(workload, seed)));
      expect(long, `seed ${seed}`).toEqual(short);
    }
  });
});

async function byLongWay<T>(run: () => Promise<T>): Promise<T> {
  shortWay.isOn = false;
  try {
    return await run();
  } finally {
    shortWay.isOn = true;
  }
}

it('the checks find an answer with other bytes, and the case is shrunk', async () => {
  // A hostile peer is checked like an honest one.
  const isWrong = (given: Case): Case => ({
    ...given,
    connections: given.connections.map((connection) => ({ ...connection, isHostile: false })),
    acts: given.acts.map((act) => (act.kind === 'get' ? { ...act, kind: 'unserved' } : act)),
    faults: [...given.faults, { kind: 'socket-error', connection: 0, end: 'near', atMs: 0 }],
  });
  const passing = isWrong(caseOf('calls', 3));
  expect((await runCase(passing)).faults).toEqual([]);
  await expect(shrink(passing)).rejects.toThrow('the case does not fail');
});
