// A helper that is killed at any instant: its recorder names the handlers that ran, as the helper
// itself had written to a pipe.
import { expect, it } from 'vitest';
import type { HelperRecording } from '../../src/helper/recorder-memory.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

const kills = rounds(1_000, 15);
const atOnce = 2;
const callsAtOnce = 8;
const names = ['a', 'b', 'c', 'd', 'e', 'f'] as const;
const Work = service('Work', {
  a: unary<number, unknown>(),
  b: unary<number, unknown>(),
  c: unary<number, unknown>(),
  d: unary<number, unknown>(),
  e: unary<number, unknown>(),
  f: unary<number, unknown>(),
});

/** The handlers that ran, each as often as it ran, by what the helper wrote. */
function saidToRun(output: string): string[] {
  const running: string[] = [];
  // The last line may be cut.
  for (const line of output.split('\n').slice(0, -1)) {
    const name = line.slice(1);
    if (line.startsWith('+')) running.push(name);
    else running.splice(running.indexOf(name), 1);
  }
  return running.sort();
}

/** Those of `left` that are not in `right`. */
function without(left: readonly string[], right: readonly string[]): string[] {
  const rest = [...right];
  return left.filter((name) => {
    const at = rest.indexOf(name);
    if (at !== -1) rest.splice(at, 1);
    return at === -1;
  });
}

async function killOne(random: Random): Promise<{ said: string[]; recording: HelperRecording }> {
  const helper = await spawnHelper(process.execPath, [programPath('recorded.mjs')], {
    execArgv: [],
    stdout: 'pipe',
    recorder: 'frames',
  });
  let output = '';
  const read = new Promise<void>((resolve) => {
    helper.stdout?.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
    helper.stdout?.on('close', resolve);
  });
  const client = helper.client(Work);
  let answers = 0;
  const caller = async (): Promise<void> => {
    for (;;) {
      const name = names[random.next(names.length)] as (typeof names)[number];
      await client[name](1 + random.next(4));
      answers += 1;
    }
  };
  const calls = Array.from({ length: callsAtOnce }, () => caller().catch((error) => error));
  const enough = random.next(100);
  await until(() => answers >= enough);
  await new Promise((resolve) => setTimeout(resolve, random.next(10)));
  process.kill(helper.pid, 'SIGKILL');
  const [error] = await Promise.all(calls);
  await helper.exited;
  await read;
  const recording = helper.recording() as HelperRecording;
  // Callers are told the same.
  const [first] = recording.running;
  const doing = first === undefined ? 'no call was running' : `running: ${first.method} for`;
  expect(error.message).toContain(doing);
  return { said: saidToRun(output), recording };
}

it('names the handlers that ran, at whatever instant it is killed', async () => {
  const random = Random.fromEnvironment();
  console.log(`SIDECALL_SEED=${random.seed}`);
  let done = 0;
  let running = 0;
  let between = 0;
  const worker = async (): Promise<void> => {
    while (done < kills) {
      done += 1;
      const { said, recording } = await killOne(random);
      const recorded = recording.running.map(({ method }) => method?.slice('Work.'.length) ?? '?');
      expect(recording.runningCount).toBe(recorded.length);
      expect(recording.faults).toEqual([]);
      // The memory is written before a handler begins, and after it has ended.
      expect(without(said, recorded), `recorded: ${recorded}`).toEqual([]);
      // Between the two writes the process can be killed. One thread runs all handlers.
      const unsaid = without(recorded, said);
      expect(unsaid.length, `recorded ${recorded}, said ${said}`).toBeLessThanOrEqual(1);
      running += recorded.length;
      between += unsaid.length;
      // No event is missing before the last one, which names a frame or the session.
      const numbers = recording.events.map(({ sequence }) => sequence);
      const [from = 1] = numbers;
      expect(numbers).toEqual(numbers.map((_, at) => from + at));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  expect(done).toBe(kills);
  expect(running).toBeGreaterThan(kills); // most were killed in the middle of several calls
  console.log(`${running} handlers ran; ${between} were between the pipe and the memory`);
}, 1_200_000);
