// Thousands of waiting things that end at once: the event loop runs other work between them.
import { setImmediate as iteration } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { LastingTarget } from '../../src/lasting/lasting-target.ts';
import { withDeadline } from '../../src/open/time-limit.ts';
import { makeClient } from '../../src/rpc/calling/client.ts';
import { json } from '../../src/rpc/contract/json.ts';
import type { WaitOptions } from '../../src/rpc/wait.ts';
import { createSessionPair, type SessionPair } from '../../src/testing/session-pair.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { rounds } from '../support/rounds.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const count = rounds(100_000, 5_000);
const window = 64 * 1024;
const hourMs = 3_600_000;
const never = new Promise<never>(() => undefined);

type Begin = (options: WaitOptions) => Promise<unknown>;

/** How to begin one of them, of which all or nearly all wait. */
const kinds: Record<string, (pair: SessionPair) => Begin> = {
  'calls in flight': ({ near }) => {
    const client = near.client(Demo);
    return (options) => client.hang(undefined, options);
  },
  'calls that wait for a slot': ({ near }) => {
    const client = near.client(Demo);
    return (options) => client.same('x', options);
  },
  notifications: ({ near }) => {
    const client = near.client(Demo);
    const text = 'x'.repeat(window / 4);
    return (options) => client.log(text, options);
  },
  'messages of a channel': ({ near }) => {
    const channel = near.openChannel(json<string>(), { name: 'still' });
    const text = 'x'.repeat(window / 4);
    return (options) => channel.send(text, options);
  },
  'messages that a reader waits for': ({ near }) => {
    const channel = near.openChannel(json<string>(), { name: 'still' });
    return (options) => channel.next(options);
  },
  'calls between two sessions': () => {
    const target = new LastingTarget({ name: 'the worker', pending: 'the worker was away' });
    const client = makeClient(Demo, target);
    return (options) => client.hang(undefined, options);
  },
  connects: () => (options) => {
    const ended = (signal: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    return withDeadline('a connect', options.timeoutMs ?? 2_000_000_000, options.signal, ended);
  },
};

describe.each(Object.entries(kinds))('%s', (kind, beginner) => {
  it.each(['a signal', 'their deadlines'])('end in parts by %s', async (by) => {
    using clock = new SteeredClock();
    await using pair = createSessionPair({
      near: { limits: { streamsMax: kind === 'calls in flight' ? 1_048_576 : 16 } },
      far: { limits: { streamsMax: kind === 'calls in flight' ? 1_048_576 : 16 } },
    });
    pair.far.serve(Demo, demoHandlers({ log: () => never, same: () => never }));
    const accepted = pair.far.channels(json<string>(), { name: 'still' });
    void accepted.next();
    const begin = beginner(pair);
    const controller = new AbortController();
    const options = by === 'a signal' ? { signal: controller.signal } : { timeoutMs: hourMs };
    let ended = 0;
    const end = (): void => {
      ended += 1;
    };
    const all = Array.from({ length: count }, () => begin(options).then(end, end));
    await iteration();
    const atFirst = ended;
    let most = 0;
    let isOver = false;
    void Promise.all(all).then(() => {
      isOver = true;
    });
    if (by === 'a signal') controller.abort();
    else clock.advance(hourMs + 1);
    while (!isOver) {
      const before = ended;
      await iteration();
      most = Math.max(most, ended - before);
    }
    expect(ended).toBe(count);
    expect(atFirst).toBeLessThan(count / 10);
    // One part in the phase of timers, one behind it.
    expect(most).toBeLessThanOrEqual(2 * tuning.endsPerIterationMax);
    pair.cut();
  });
});
