// The smallest case that still fails in the same way: acts, faults and connections are taken out,
// numbers become smaller.
import type { Act } from './act.ts';
import type { Case } from './case.ts';
import { runCase } from './run-case.ts';

const runsMax = 600;

/** Called with each smaller case that fails. */
export type OnSmaller = (smaller: Case, runs: number) => void;

/** The kind of a failure: its first words, without numbers. */
export function kindOfFailure(faults: readonly string[]): string {
  return (faults[0] ?? '').replace(/\d+/g, '#').slice(0, 60);
}

/** @throws where the case does not fail. */
export async function shrink(given: Case, onSmaller: OnSmaller = () => undefined): Promise<Case> {
  const kind = kindOfFailure((await runCase(given)).faults);
  if (kind === '') throw new Error('the case does not fail');
  let smallest = given;
  let runs = 0;
  const isFailing = async (smaller: Case): Promise<boolean> => {
    runs += 1;
    const { faults } = await runCase(smaller);
    if (kindOfFailure(faults) !== kind) return false;
    smallest = smaller;
    onSmaller(smaller, runs);
    return true;
  };
  for (let before = 0; runs < runsMax && before !== sizeOf(smallest); ) {
    before = sizeOf(smallest);
    await withoutParts(smallest, 'acts', isFailing);
    await withoutParts(smallest, 'faults', isFailing);
    for (const simpler of simplerCases(smallest)) {
      if (runs >= runsMax) break;
      await isFailing(simpler(smallest));
    }
  }
  return smallest;
}

/** Takes out halves, then quarters, down to single ones (delta debugging, by A. Zeller). */
async function withoutParts(
  given: Case,
  part: 'acts' | 'faults',
  isFailing: (smaller: Case) => Promise<boolean>,
): Promise<void> {
  let left: readonly unknown[] = given[part];
  for (
    let size = Math.ceil(left.length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < left.length; ) {
      const fewer = [...left.slice(0, at), ...left.slice(at + size)];
      const smaller = { ...given, [part]: fewer } as Case;
      if (fewer.length < left.length && (await isFailing(smaller))) left = fewer;
      else at += size;
    }
    if (size === 0) break;
  }
}

type Simpler = (given: Case) => Case;

/** Ways to make a case simpler, each to be tried once. */
function simplerCases(given: Case): Simpler[] {
  const ofActs = given.acts.flatMap((_, at) =>
    simplerActs.map(
      (change): Simpler =>
        (now) =>
          withAct(now, at, change),
    ),
  );
  const ofFaults = given.faults.map(
    (_, at): Simpler =>
      (now) => ({
        ...now,
        faults: now.faults.map((fault, other) =>
          other === at && 'atMs' in fault ? { ...fault, atMs: Math.round(fault.atMs) } : fault,
        ),
      }),
  );
  const ofConnections: Simpler[] = [
    (now) => withConnections(now, (each) => ({ ...each, limits: {} })),
    (now) => withConnections(now, (each) => ({ ...each, blockAreaBytes: 0 })),
    (now) => withConnections(now, (each) => ({ ...each, pollBudgetUs: 0 })),
    (now) => withConnections(now, (each) => ({ ...each, lane: 'socket' })),
  ];
  return [...ofConnections, ...ofFaults, ...ofActs];
}

const simplerActs: readonly ((act: Act) => Act)[] = [
  (act) => ({ ...act, windowBytes: 0 }),
  (act) => ({ ...act, giveUpMs: 0 }),
  (act) => ({ ...act, pauseMs: 0 }),
  (act) => ({ ...act, atMs: 0 }),
  (act) => ({ ...act, length: 0 }),
  (act) => ({ ...act, count: Math.min(act.count, 1) }),
];

function withAct(given: Case, at: number, change: (act: Act) => Act): Case {
  return { ...given, acts: given.acts.map((act, other) => (other === at ? change(act) : act)) };
}

function withConnections(
  given: Case,
  change: (connection: Case['connections'][number]) => Case['connections'][number],
): Case {
  return { ...given, connections: given.connections.map(change) };
}

function sizeOf(given: Case): number {
  return JSON.stringify(given).length;
}
