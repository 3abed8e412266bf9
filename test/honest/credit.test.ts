// Messages within the windows are accepted in any order in which the lane delivers them; health
// checks always get through.
import { describe, expect, it } from 'vitest';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { lanes, openLoopback } from '../support/pairs.ts';

const Blob = service('Blob', { get: unary<number, Uint8Array>({ response: bytes }) });

describe.each(lanes)('credit over the $lane', ({ openPair }) => {
  it.each([16, 90])(
    'F1 is counted in any order: %i short messages and a long one in one turn',
    async (count) => {
      await using pair = await openPair();
      const accepted = pair.far.channels(bytes, { name: 'c' });
      const ours: Channel<Uint8Array>[] = [];
      const theirs: (Channel<Uint8Array> | undefined)[] = [];
      for (let at = 0; at < 80; at += 1) {
        ours.push(pair.near.openChannel(bytes, { name: 'c' }));
        theirs.push((await accepted.next()).value);
      }
      // Seventy channels that nobody reads yet leave room for the short messages, and for one byte
      // more.
      let left = pair.near.stats().windows.streams.left - count * 16_064 - 1;
      for (let at = 0; left > 200; at += 1) {
        const length = Math.min(60_000, left - 64);
        await ours[at % 70]?.send(new Uint8Array(length));
        left -= length + 64;
      }
      const sent = Array.from({ length: count }, (_, at) =>
        ours[70 + (at % 8)]?.send(new Uint8Array(16_000)),
      );
      sent.push(ours[79]?.send(new Uint8Array(60_000)));
      const reading = theirs.map(async (channel) => {
        for await (const _ of channel as Channel<Uint8Array>);
      });
      await Promise.all(sent);
      for (const channel of ours) void channel.end();
      await Promise.all(reading);
      expect(pair.near.state).toBe('open');
      for (const channel of theirs) await channel?.end();
      await accepted.return?.();
    },
  );

  it('F1 of answers, long and short at once, ends nothing', async () => {
    await using pair = await openPair();
    pair.far.serve(Blob, { get: (length) => new Uint8Array(length) });
    const blob = pair.near.client(Blob);
    const lengths = [4, 4, 4, 4]
      .map((n) => n * 1_000_000)
      .concat(Array(750).fill(20_000), 4_000_000);
    const answers = await Promise.all(lengths.map((length) => blob.get(length)));
    expect(answers.map(({ byteLength }) => byteLength)).toEqual(lengths);
  });

  it('F4 and slots may be used up: health checks get through', async () => {
    await using pair = await openPair({ far: { streamsMax: 4 } });
    pair.far.serve(Demo, demoHandlers());
    const stop = new AbortController();
    const { signal } = stop;
    const polls = Array.from({ length: 10 }, () =>
      pair.near.client(Demo).hang(undefined, { signal }),
    );
    await until(() => pair.far.stats().handlers.running === 4);
    const health = pair.near.client(HealthService);
    const checks = Array.from({ length: 20 }, () => health.check());
    for (const check of await Promise.all(checks)) expect(check).toEqual({ status: 'serving' });
    for await (const { status } of health.watch()) {
      expect(status).toBe('serving');
      break;
    }
    stop.abort(new Error('enough'));
    await Promise.allSettled(polls);
    await until(() => pair.near.stats().waits['given-up'] === 0);
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });
});

it('F3 a session that has ended keeps nothing waiting, and tells nothing more', async () => {
  const [slowMay, fillingMay] = [defer(), defer()];
  const told: string[] = [];
  const pair = openLoopback({
    stalledAfterMs: 20,
    onFarEvent: (event) => told.push(`${event.type} ${pair.far.state}`),
  });
  pair.far.serve(
    Demo,
    demoHandlers({
      same: async (until) => {
        await (until === 'slow' ? slowMay : fillingMay).promise;
        return 'x'.repeat(15_000);
      },
    }),
  );
  const demo = pair.near.client(Demo);
  const stop = new AbortController();
  const slow = Array.from({ length: 10 }, () => demo.same('slow', { signal: stop.signal }));
  const filling = Array.from({ length: 100 }, () => demo.same('filling'));
  await turns(5);
  stop.abort(new Error('enough'));
  await turns(5);
  for (const transport of pair.transports) transport.isHeld = true;
  fillingMay.resolve();
  await until(() => pair.far.stats().waits.peer > 0);
  pair.cut();
  slowMay.resolve();
  await Promise.allSettled([...slow, ...filling]);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(Object.values(pair.far.stats().waits).every((waiting) => waiting === 0)).toBe(true);
  expect(told.filter((event) => event.startsWith('stalled closed'))).toEqual([]);
});
