// The bounds of the pages' data: processes that are looked at, and those in the list.
import { afterEach, expect, it, vi } from 'vitest';
import { type Choices, PageData } from '../../../src/cli/web/page-data.ts';
import type { ProcessView } from '../../../src/cli/web/watched-process.ts';
import { scratchDirectory, startProgram } from '../../support/programs.ts';

afterEach(() => vi.unstubAllEnvs());

/** Process numbers beyond the largest one of Linux, 4,194,304: no process has them. */
function unusedPids(count: number): number[] {
  return Array.from({ length: count }, (_, at) => 5_000_001 + at);
}

function pageData(pids: readonly number[]) {
  const data = new PageData({ pids, files: [], intervalMs: 50, timeoutMs: 3_000 });
  const query = new URLSearchParams('on=1');
  return {
    record: (pid: number) => data.change(`process/${pid}/recording`, query),
    async read<T>(path: string): Promise<T> {
      const { status, body } = await data.read(path, query);
      expect({ status, body }).toMatchObject({ status: 200 });
      return JSON.parse(String(body));
    },
    [Symbol.asyncDispose]: () => data.close(),
  };
}

it('keeps 32 processes, and forgets the one that was asked for the longest time ago', async () => {
  const pids = unusedPids(33);
  await using data = pageData(pids);
  // A process that is kept knows how often its recording was started.
  const isKept = async (pid: number): Promise<boolean> =>
    (await data.read<ProcessView>(`process/${pid}`)).recording.number === 1;
  for (const pid of pids.slice(0, 32)) {
    await data.record(pid);
    await data.read(`process/${pid}`);
  }
  for (const pid of pids.slice(0, 32)) expect(await isKept(pid)).toBe(true);
  const [first, second, third] = pids as [number, number, number];
  expect(await isKept(first)).toBe(true); // asked for again: the second one is the oldest
  await data.record(pids[32] as number);
  await data.read(`process/${pids[32]}`);
  expect(await isKept(first)).toBe(true);
  expect(await isKept(third)).toBe(true);
  expect(await isKept(second)).toBe(false);
});

it('goes on with a recording for which no page asks, while it forgets others', async () => {
  using scratch = scratchDirectory();
  vi.stubEnv('XDG_RUNTIME_DIR', scratch.path);
  const env = { SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: scratch.path };
  await using program = startProgram('watched.mjs', [scratch.file('s')], { env });
  await program.next();
  const pids = unusedPids(40);
  await using data = pageData([program.pid, ...pids]);
  const path = `process/${program.pid}`;
  await data.read(path);
  await data.record(program.pid);
  for (const pid of pids) await data.read(`process/${pid}`);
  const { recording } = await data.read<ProcessView>(path);
  expect(recording).toMatchObject({ isOn: true, number: 1 });
});

it('lists 200 processes, and shows each further one where it is named', async () => {
  const pids = unusedPids(201);
  await using data = pageData(pids);
  const { processes } = await data.read<Choices>('choices');
  expect(processes.map(({ pid }) => pid)).toEqual(pids.slice(0, 200));
  const view = await data.read<ProcessView>(`process/${pids[200]}`);
  expect(view).toMatchObject({ pid: pids[200], hasEnded: true });
});
