// Streams between two processes, over both lanes.

import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { sessionRanges } from '../../src/base/limits/option-limits.ts';
import { wireLimits } from '../../src/base/limits/wire-limits.ts';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { collect, until } from '../support/contract.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

interface Busy {
  readonly looks: number;
  readonly answers: string[];
  readonly aborted: boolean;
}

const Flow = service('Flow', {
  count: serverStream<{ to: number }, number>(),
  download: serverStream({ request: undefined, response: bytes }),
  swallow: clientStream<Uint8Array, { count: number }>({ request: bytes }),
  echo: bidi({ request: bytes, response: bytes }),
  offered: unary<void, { sent: number; mostBytes: number; firstBytes: number }>(),
  /** Creates the file `begins` where it begins. */
  busy: unary<{ ms: number; begins?: string }, Busy>(),
  lastBusy: unary<void, Busy | undefined>(),
  add: unary<{ a: number; b: number }, { sum: number }>(),
  block: notification<{ ms: number }>(),
  exit: notification<void>(),
});

function start(lane: 'ring' | 'socket', options: SpawnOptions = {}): Promise<Helper> {
  const program = ['--expose-gc', programPath('streamer.mjs')];
  return spawnHelper(process.execPath, program, { lane, ...options });
}

const MiB = 1024 * 1024;

describe.each(['ring', 'socket'] as const)('streams of a helper over the %s', (lane) => {
  it('all kinds between two processes', async () => {
    await using helper = await start(lane);
    expect(helper.session.lane).toBe(lane);
    const flow = helper.client(Flow);
    expect(await collect(flow.count({ to: 1000 }))).toHaveLength(1000);
    expect(await flow.swallow(Array.from({ length: 500 }, () => new Uint8Array(100)))).toEqual({
      count: 500,
    });
    const pieces = Array.from({ length: 50 }, (_, at) => new Uint8Array(20_000).fill(at));
    const back = await collect(flow.echo(pieces));
    expect(back.map((piece) => piece[19_999])).toEqual(pieces.map((_, at) => at));
  });

  it('a handler that never returns to its loop sees the cancel', async () => {
    await using helper = await start(lane);
    const flow = helper.client(Flow);
    await flow.add({ a: 1, b: 1 });
    const stop = new AbortController();
    using scratch = scratchDirectory();
    const begins = scratch.file('begins');
    const busy = flow.busy(
      { ms: lane === 'ring' ? 60_000 : 10_000, begins },
      { signal: stop.signal },
    );
    void until(() => existsSync(begins)).then(() => stop.abort(new Error('enough')));
    const others = Array.from({ length: 20 }, (_, a) =>
      sleep(50).then(() => flow.add({ a, b: 1 })),
    );
    await expect(busy).rejects.toThrow('enough');
    expect(await Promise.all(others)).toEqual(others.map((_, a) => ({ sum: a + 1 })));
    const seen = await flow.lastBusy();
    if (lane === 'ring') {
      expect(seen?.answers).toEqual(['false', 'true']);
      expect(seen?.aborted).toBe(true);
    } else expect(seen?.answers).toEqual(['undefined']);
  });

  it('a deadline is seen by a busy handler on every lane', async () => {
    await using helper = await start(lane);
    const flow = helper.client(Flow);
    // The handler answers when it sees the deadline: on a busy machine its answer may be here
    // first.
    const outcome = await flow.busy({ ms: 60_000 }, { timeoutMs: 2_000 }).catch((error) => error);
    if (outcome instanceof Error) {
      expect(outcome).toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    }
    expect((await flow.lastBusy())?.answers.at(-1)).toBe('true');
  });

  it('SIGKILL in the middle: what had been sent, then PEER_GONE; the next process serves on', async () => {
    await using helper = await start(lane, { restart: { firstMs: 1 } });
    const flow = helper.client(Flow);
    const stream = flow.count({ to: 1_000_000 });
    const got: number[] = [];
    const failure = await (async () => {
      for await (const number of stream) {
        got.push(number);
        if (number === 500) await flow.exit();
      }
    })().catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(got.length).toBeGreaterThanOrEqual(500);
    expect(got).toEqual(got.map((_, at) => at + 1));
    const next = flow.count({ to: 3 }); // waits for the next process
    expect(await collect(next)).toEqual([1, 2, 3]);
    const sums = flow.swallow();
    await sums.send(new Uint8Array(1));
    expect(await sums.end()).toEqual({ count: 1 });
  });

  it('a reader that stands still costs its sender a window and a message', async () => {
    await using helper = await start(lane);
    const flow = helper.client(Flow);
    await flow.add({ a: 1, b: 1 });
    // 1 GiB is offered, nothing is read.
    const message = 256 * 1024;
    const stalled = flow.download({ messages: 4096, bytes: message });
    await until(() => stalled.queuedBytes > 0);
    let offered = await flow.offered();
    for (let round = 0; round < 10; round += 1) {
      await sleep(20);
      offered = await flow.offered();
      expect(await flow.add({ a: round, b: 1 })).toEqual({ sum: round + 1 }); // others are served
    }
    const window = sessionRanges.streamWindowBytes.standard;
    const most = Math.ceil(window / message) + 2;
    expect(offered.sent).toBeLessThanOrEqual(most);
    expect(offered.mostBytes - offered.firstBytes).toBeLessThan(window + message + 2 * MiB);
    expect(stalled.queuedBytes).toBeLessThanOrEqual(window + message);
    await stalled.return();
  });

  it('empty messages without end are bounded, too', async () => {
    await using helper = await start(lane);
    const flow = helper.client(Flow);
    // The memory that compiled code and buffers that are kept for the next write take is not what
    // this is about.
    expect(await collect(flow.download({ messages: 10_000, bytes: 0 }))).toHaveLength(10_000);
    const stalled = flow.download({ messages: 100_000_000, bytes: 0 });
    let offered = await flow.offered();
    for (let before = -1; offered.sent === 0 || offered.sent !== before; ) {
      before = offered.sent;
      await sleep(200);
      offered = await flow.offered();
    }
    const window = sessionRanges.streamWindowBytes.standard;
    expect(offered.sent).toBeLessThanOrEqual(window / wireLimits.messageOverheadBytes + 2);
    console.log(`empty messages, ${lane}: ${offered.mostBytes - offered.firstBytes} bytes more`);
    expect(offered.mostBytes - offered.firstBytes).toBeLessThan(window + 2 * MiB);
    await stalled.return();
  });

  it('a peer whose loop is blocked loses nothing of many sends', async () => {
    const sends = rounds(100_000, 30_000); // the queue and the window hold fewer
    await using helper = await start(lane);
    const flow = helper.client(Flow);
    await flow.block({ ms: 5000 });
    const call = flow.swallow();
    const message = new Uint8Array(64);
    let admitted = 0;
    let refused = 0;
    await Promise.all(
      Array.from({ length: sends }, () =>
        call.send(message).then(
          () => (admitted += 1),
          (error: { code: string; delivered: string }) => {
            expect(error).toMatchObject({ code: 'ERR_SIDECALL_LIMIT_BYTES', delivered: 'no' });
            refused += 1;
          },
        ),
      ),
    );
    expect(admitted + refused).toBe(sends);
    expect(await call.end()).toEqual({ count: admitted });
  });
});
