// The flight recorder of a helper that is read while it is written.
import { expect, it } from 'vitest';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import type { RecordedEvent } from '../../src/wire/recording.ts';
import { programPath } from '../support/programs.ts';

const message = { request: bytes, response: bytes };
const Work = service('Work', {
  short: unary(message),
  long: unary(message),
  hammer: unary<number, number>(),
});
const lengths = new Map([
  ['Work.short', 10],
  ['Work.long', 1_000],
]);

function start(lane?: 'ring' | 'socket'): Promise<Helper> {
  return spawnHelper(process.execPath, [programPath('recorded-load.mjs')], {
    execArgv: [],
    recorder: 'frames',
    lane,
  });
}

/** The events of a copy of which each record is whole, one behind the other. */
function read(helper: Helper): readonly RecordedEvent[] {
  const { events, faults } = helper.recording() ?? { events: [], faults: ['no recording'] };
  expect(faults).toEqual([]);
  const torn = events.filter(({ type, method, payloadBytes }) => {
    const length = lengths.get(method ?? '');
    return type === 'message' && length !== undefined && length !== payloadBytes;
  });
  expect(torn).toEqual([]);
  const jumps = events.filter(({ sequence }, at) => sequence <= (events[at - 1]?.sequence ?? 0));
  expect(jumps).toEqual([]);
  return events;
}

it('has no record of two halves while records are written without a pause', async () => {
  await using helper = await start();
  const client = helper.client(Work);
  let [copies, newest, written] = [0, 0, 0];
  // A second holds few copies on a busy machine, so there are as many as it takes.
  while (copies < 100 || written < 1_000_000) {
    const before = written;
    const hammered = client.hammer(1_000).then((records) => {
      written += records;
    });
    while (written === before) {
      const events = read(helper);
      newest = events.at(-1)?.sequence ?? newest;
      copies += 1;
      await new Promise(setImmediate);
    }
    await hammered;
  }
  expect(newest).toBeGreaterThan(written / 2); // the copies moved with it
});

it.each(['ring', 'socket'] as const)(
  'has the frames of calls that go on meanwhile over a %s, in their order',
  async (lane) => {
    await using helper = await start(lane);
    const client = helper.client(Work);
    let [isOver, calls] = [false, 0];
    const work = Array.from({ length: 8 }, async (_, at) => {
      const [call, length] = at % 2 === 0 ? [client.short, 10] : [client.long, 1_000];
      for (const value = new Uint8Array(length); !isOver; calls += 1) await call(value);
    });
    let [seen, moved, last] = [0, 0, 0];
    for (let look = 0; look < 100; look += 1) {
      await client.short(new Uint8Array(10));
      const events = read(helper);
      seen += events.length;
      const newest = events.at(-1)?.sequence ?? 0;
      if (newest > last) moved += 1;
      last = newest;
    }
    isOver = true;
    await Promise.all(work);
    expect(calls).toBeGreaterThan(100);
    expect(moved).toBeGreaterThan(50);
    expect(seen).toBeGreaterThan(10_000);
  },
);
