// A process is killed at each of its records: what it had published arrives, calls are told the
// truth, and its parent keeps nothing of it.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { SidecallError } from '../../src/base/errors.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { turns, until } from '../support/contract.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const records = 200;
const atOnce = 4;

const Mortal = service('Mortal', {
  add: unary<{ id: number }, { id: number }>(),
  long: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
});
const App = service('App', { note: notification<number>(), get: unary<number, number>() });

interface Life {
  readonly faults: string[];
  readonly isDone: boolean;
}

/** One life of the helper, which ends at its record `dieAt`. */
async function live(lane: 'ring' | 'socket', dieAt: number): Promise<Life> {
  using scratch = scratchDirectory();
  const log = scratch.file('log');
  // A socket takes several frames at once, so a run of as many records has more of them.
  const notesMax = lane === 'ring' ? 120 : 600;
  const env = { DIE_AT: String(dieAt), LOG: log, LANE: lane, NOTES: String(notesMax) };
  const started = await spawnHelper(process.execPath, [programPath('mortal.mjs')], {
    lane,
    env: { ...process.env, ...env },
  }).catch((error: unknown) => error);
  if (SidecallError.is(started)) {
    // It died in the middle of its hello.
    expect(started.code).toBe('ERR_SIDECALL_HELPER_FAILED');
    return { faults: [], isDone: false };
  }
  const helper = started as Awaited<ReturnType<typeof spawnHelper>>;
  const notes: number[] = [];
  helper.serve(App, { note: (at) => void notes.push(at), get: (at) => at });
  const client = helper.client(Mortal);
  const ends = new Map<number, unknown>();
  const calls = Array.from({ length: 40 }, async (_, id) => {
    await turns(id % 10);
    await client.add({ id }).then(
      () => ends.set(id, undefined),
      (error: unknown) => ends.set(id, error),
    );
  });
  const long = client.long(new Uint8Array(100_000)).catch(() => undefined);
  await Promise.all([...calls, long]);
  const isDone = (): boolean => existsSync(log) && readFileSync(log, 'utf8').includes('done');
  await until(() => helper.session.state === 'closed' || isDone());
  const wasDone = helper.session.state !== 'closed';
  await helper.stop();
  return { faults: faultsOf(readFileSync(log, 'utf8'), notes, ends), isDone: wasDone };
}

function faultsOf(log: string, notes: readonly number[], ends: Map<number, unknown>): string[] {
  const lines = log.split('\n').map((line) => line.split(' '));
  const published = Math.max(0, ...numbersOf(lines, 'published'));
  const seen = new Set(numbersOf(lines, 'saw'));
  const faults = notes
    .filter((note, at) => note !== at + 1)
    .map((note) => `notification ${note} is out of order`);
  if (notes.length < published) faults.push(`${notes.length} of ${published} published arrived`);
  for (const [id, error] of ends) {
    if (error === undefined && !seen.has(id)) faults.push(`call ${id} was answered by nobody`);
    if (!SidecallError.is(error)) continue;
    if (error.delivered === 'no' && seen.has(id)) faults.push(`call ${id} was delivered`);
    if (error.code !== 'ERR_SIDECALL_PEER_GONE') faults.push(`call ${id}: ${error.message}`);
  }
  return faults;
}

function numbersOf(lines: readonly string[][], word: string): number[] {
  return lines.filter(([first]) => first === word).map(([, number]) => Number(number));
}

describe.each(['ring', 'socket'] as const)('a helper over the %s', (lane) => {
  it('that is killed at any of its records loses nothing, and leaves nothing', async () => {
    // The first ones are those of the hello; of the others one of twenty, another for each lane.
    const first = lane === 'ring' ? 0 : 10;
    const left = Array.from({ length: records }, (_, at) => at + 1).filter(
      (at) => rounds(1, at <= 8 || at % 20 === first ? 1 : 0) === 1,
    );
    const lives = left.length;
    const faults: string[] = [];
    let died = 0;
    const work = async (): Promise<void> => {
      for (let dieAt = left.shift(); dieAt !== undefined; dieAt = left.shift()) {
        const life = await live(lane, dieAt);
        if (!life.isDone) died += 1;
        faults.push(...life.faults.map((fault) => `record ${dieAt}: ${fault}`));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    expect(faults).toEqual([]);
    expect(died).toBe(lives);
    await until(() => requireNative('the test').ringMemoryBytes() === 0);
  });
});
