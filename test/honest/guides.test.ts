// Promises of the guides about the order of calls, both halves of a call, and time limits.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bidi, bytes, service, unary } from '../../src/index.ts';
import { until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const Guide = service('Guide', {
  note: unary({ request: bytes }),
  echo: bidi({ request: bytes, response: bytes }),
});

afterEach(() => {
  vi.useRealTimers();
});

describe.each(lanes)('over the $lane', ({ openPair }) => {
  it('calls of up to 64 KiB start in the order in which they were made', async () => {
    await using pair = await openPair();
    const started: number[] = [];
    pair.far.serve(Guide, {
      note: (data) => started.push((data[0] as number) + 256 * (data[1] as number)),
      echo: (messages) => messages,
    });
    const client = pair.near.client(Guide);
    const sizes = [2, 100, 5_000, 65_000, 65_536];
    const count = 40;
    const calls = Array.from({ length: count }, (_, at) => {
      const data = new Uint8Array(sizes[at % sizes.length] as number);
      data[0] = at & 0xff;
      data[1] = at >> 8;
      return client.note(data);
    });
    await Promise.all(calls);
    expect(started).toEqual(Array.from({ length: count }, (_, at) => at));
  });

  it('F3 a bidi that sends all before it reads waits once both windows are full, and goes on when it reads', async () => {
    await using pair = await openPair();
    pair.far.serve(Guide, { note: () => undefined, echo: (messages) => messages });
    const call = pair.near.client(Guide).echo();
    const count = 1_000;
    let sent = 0;
    const sending = (async () => {
      for (; sent < count; sent += 1) await call.send(new Uint8Array(4_096));
      await call.end();
    })();
    await until(() => pair.near.stats().waits['stream-window'] > 0);
    expect(sent).toBeGreaterThan(60); // a window of 256 KiB, at least
    expect(sent).toBeLessThan(200); // and no more than one each way
    let read = 0;
    for await (const message of call) read += message.byteLength / 4_096;
    await sending;
    expect(read).toBe(count);
  });

  it('a wall clock that jumps, as after a sleep, ends no call', async () => {
    await using pair = await openPair();
    const gates: (() => void)[] = [];
    pair.far.serve(Guide, {
      note: () => new Promise<void>((resolve) => gates.push(resolve)),
      echo: (messages) => messages,
    });
    const { note } = pair.near.client(Guide);
    const before = note(new Uint8Array(1), { timeoutMs: 600_000 });
    await until(() => gates.length === 1);
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() + 8 * 3_600_000);
    const after = note(new Uint8Array(1), { timeoutMs: 600_000 });
    await until(() => gates.length === 2);
    vi.setSystemTime(Date.now() - 24 * 3_600_000);
    for (const open of gates) open();
    await Promise.all([before, after]);
  });
});
