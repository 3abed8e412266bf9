// Calls between two sessions: they wait, or are made again where no handler has seen them.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { LastingTarget } from '../../src/lasting/lasting-target.ts';
import { makeClient } from '../../src/rpc/calling/client.ts';
import { notification, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { turns, until } from '../support/contract.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const Work = service('Work', {
  take: unary<{ item: unknown }, string>(),
  hang: unary<void, void>(),
  note: notification<string>(),
  count: serverStream<{ from: number }, number>(),
  /** As `count`, and lasts. */
  hold: serverStream<{ from: number }, number>(),
});

interface Place {
  readonly session: Session;
  /** Ends the session from the other side, in order. */
  readonly leave: () => Promise<void>;
  readonly drop: () => Promise<void>;
  readonly cut: () => void;
}

/** A target, and sessions whose handlers write what they saw into one ledger. */
function grounds() {
  const ledger: string[] = [];
  const target = new LastingTarget({ name: 'the worker', pending: 'the worker was away' });
  const work = makeClient(Work, target);
  const place = (name: string): Place => {
    const { near, far, cut } = createSessionPair();
    far.serve(Work, {
      take: ({ item }) => {
        ledger.push(`${name} took ${JSON.stringify(item)}`);
        return name;
      },
      hang: (_request, { signal }) => {
        ledger.push(`${name} hangs`);
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        });
      },
      note: (text) => void ledger.push(`${name} notes ${text}`),
      async *count({ from }) {
        yield from;
      },
      async *hold({ from }, { signal }) {
        yield from;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    return {
      session: near,
      leave: () => far.close({ deadlineMs: 0 }),
      drop: () => near.close({ deadlineMs: 0 }),
      cut,
    };
  };
  return { ledger, target, work, place };
}

describe('a call between two sessions', () => {
  it('is sent as it was when it was made, whatever becomes of its value', async () => {
    const { ledger, target, work, place } = grounds();
    const request = { item: { n: 1 } };
    const first = work.take(request);
    request.item.n = 2;
    const stream = work.count({ from: 3 });
    const next = stream.next();
    const noted = work.note('before');
    const one = place('one');
    target.set(one.session);
    expect(await first).toBe('one');
    expect(await next).toEqual({ done: false, value: 3 });
    await noted;
    await until(() => ledger.length === 2);
    expect(ledger).toEqual(['one took {"n":1}', 'one notes before']);
    await one.drop();
  });

  it('begins before calls that are made once the session is there', async () => {
    const { ledger, target, work, place } = grounds();
    const notes = Array.from({ length: 20 }, (_, n) => work.note(`${n}`));
    const one = place('one');
    target.set(one.session);
    notes.push(work.note('20'));
    await Promise.all(notes);
    await until(() => ledger.length === 21);
    expect(ledger).toEqual(Array.from({ length: 21 }, (_, n) => `one notes ${n}`));
    await one.drop();
  });

  it('rejects at once where its value cannot be encoded', async () => {
    const { work } = grounds();
    await expect(work.take({ item: 1n })).rejects.toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
  });

  it('waits no longer than its deadline, or until it is aborted', async () => {
    const { target, work } = grounds();
    await expect(work.take({ item: 1 }, { timeoutMs: 10 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
      message: expect.stringContaining('timeoutMs 10 passed while the worker was away'),
    });
    const stop = new AbortController();
    const aborted = expect(work.take({ item: 1 }, { signal: stop.signal })).rejects.toThrow('mine');
    stop.abort(new Error('mine'));
    await aborted;
    expect(target.waiting).toBe(0);
  });

  it('fails with the final error once no session follows', async () => {
    const { target, work } = grounds();
    const waits = expect(work.take({ item: 1 })).rejects.toMatchObject({ delivered: 'no' });
    target.end(new SidecallError('ERR_SIDECALL_NO_LISTENER', 'gone for good'));
    await waits;
    await expect(work.take({ item: 1 })).rejects.toThrow('gone for good');
  });
});

describe('a call whose session ends', () => {
  it('is made on the next one where no handler has seen it, once, as it was encoded', async () => {
    const { ledger, target, work, place } = grounds();
    const [one, two] = [place('one'), place('two')];
    target.set(one.session);
    await work.take({ item: 'warm' });
    // The goaway is on its way while calls are made.
    const leaving = one.leave();
    const requests = Array.from({ length: 100 }, (_, n) => ({ item: { n } }));
    const answers = requests.map((request) => work.take(request));
    for (const { item } of requests) item.n = -1;
    await leaving;
    target.clear();
    target.set(two.session);
    const places = await Promise.all(answers);
    expect(ledger).toHaveLength(101); // each once
    const seen = ledger.slice(1).map((line) => Number(/"n":(\d+)/.exec(line)?.[1]));
    expect(seen.toSorted((a, b) => a - b)).toEqual(requests.map((_, n) => n));
    expect(places.filter((name) => name === 'two').length).toBeGreaterThan(0);
    await two.drop();
  });

  it('is not repeated where a handler may have seen it', async () => {
    const { ledger, target, work, place } = grounds();
    const [one, two] = [place('one'), place('two')];
    target.set(one.session);
    const rejected = expect(work.hang()).rejects.toMatchObject({ delivered: 'unknown' });
    await until(() => ledger.length === 1);
    await one.leave();
    target.set(two.session);
    await rejected;
    expect(await work.take({ item: 1 })).toBe('two');
    expect(ledger).toEqual(['one hangs', 'two took 1']);
    await two.drop();
  });

  it('counts its deadline from the time at which it was made', async () => {
    const { target, work, place } = grounds();
    const one = place('one');
    target.set(one.session);
    await work.take({ item: 'warm' });
    const leaving = one.leave();
    const waits = work.take({ item: 1 }, { timeoutMs: 60 });
    const rejected = expect(waits).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    await leaving;
    target.clear();
    await rejected;
    await one.drop();
  });

  it('keeps its time through a wait before it', async () => {
    using clock = new SteeredClock();
    const { target, work, place } = grounds();
    const [one, two] = [place('one'), place('two')];
    const leaving = one.leave();
    const waits = work.take({ item: 1 }, { timeoutMs: 600_000 });
    clock.advance(400_000);
    await turns(3);
    target.set(one.session); // which ends before it takes the call
    await leaving;
    target.clear();
    target.set(two.session);
    expect(await waits).toBe('two');
    await two.drop();
  });

  it('subscribes again with the request as it was', async () => {
    const { target, work, place } = grounds();
    const gaps: string[] = [];
    const request = { from: 3 };
    const onGap = ({ code }: SidecallError): unknown => gaps.push(code);
    const one = place('one');
    target.set(one.session);
    const numbers = work.hold(request, { resubscribe: { onGap } });
    expect((await numbers.next()).value).toBe(3);
    request.from = 4;
    one.cut();
    target.clear();
    const next = numbers.next();
    const two = place('two');
    target.set(two.session);
    expect((await next).value).toBe(3);
    expect(gaps).toHaveLength(1);
    await numbers.return?.();
    await two.drop();
  });
});
