// session.inspect(): a healthy session, one in the middle of messages, one whose peer has died.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../../src/helper/spawn-helper.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import type { Lease } from '../../../src/rpc/contract/leases.ts';
import type { RingInspection } from '../../../src/rpc/session/inspection.ts';
import { reportRing, splitRingCopy } from '../../../src/wire/ring-report.ts';
import { Demo, demoHandlers, Flow, flowHandlers, until } from '../../support/contract.ts';
import { LeaseCalls, leaseHandlers } from '../../support/lease-calls.ts';
import { lanes, openRingPair } from '../../support/pairs.ts';
import { waitForState } from '../../support/process-state.ts';
import { programPath, scratchDirectory } from '../../support/programs.ts';
import { inPlace } from '../../support/ring-leases.ts';

describe.each(lanes)('the inspection of a session over the $lane', ({ lane, openPair }) => {
  it('has its open calls and streams, and why a stream waits', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const neverReads = (_pieces: unknown, { signal }: { signal: AbortSignal }): Promise<never> =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      );
    pair.far.serve(Flow, flowHandlers({ upload: neverReads }));
    expect(pair.near.inspect()).toMatchObject({ state: 'open', lane, streams: [], leases: [] });

    const stop = new AbortController();
    const { signal } = stop;
    const hanging = pair.near.client(Demo).hang(undefined, { signal, timeoutMs: 60_000 });
    const upload = pair.near.client(Flow).upload({ signal });
    const sends = Array.from({ length: 10 }, () => upload.send(Buffer.alloc(100_000)));
    const ends = Promise.allSettled([hanging, ...sends]);
    await until(() => pair.far.stats().handlers.running === 2);
    await until(() => pair.near.inspect().streams[1]?.sending?.waitsFor === 'stream-window');
    await until(() => (pair.far.inspect().streams[1]?.untakenBytes ?? 0) > 200_000);

    const { streams, stats } = pair.near.inspect();
    expect(stats.calls.open).toBe(2);
    expect(streams).toMatchObject([
      { openedBy: 'us', method: 'Demo.hang', kind: 'unary', state: 'open', sending: undefined },
      {
        openedBy: 'us',
        method: 'Flow.upload',
        kind: 'clientStream',
        deadlineInMs: undefined,
        sending: { waitsFor: 'stream-window' },
      },
    ]);
    expect(streams[0]?.deadlineInMs).toBeGreaterThan(0);
    expect(streams[0]?.deadlineInMs).toBeLessThanOrEqual(60_000);
    for (const { ageMs } of streams) expect(ageMs).toBeGreaterThanOrEqual(0);
    const { creditBytes, waiting, waitingBytes } = streams[1]?.sending ?? {};
    expect(creditBytes).toBeLessThanOrEqual(0);
    expect(waiting).toBeGreaterThan(0);
    expect(waitingBytes).toBeGreaterThanOrEqual(100_000);
    const before = performance.now();
    const theirs = pair.far.inspect().streams;
    expect(theirs[0]?.ageMs).toBeGreaterThanOrEqual(0);
    await until(() => performance.now() - before > 20);
    expect(pair.far.inspect().streams[0]?.ageMs).toBeGreaterThanOrEqual(
      Number(theirs[0]?.ageMs) + 20,
    );
    expect(theirs.map(({ id, method }) => [id, method])).toEqual(
      streams.map(({ id, method }) => [id, method]),
    );
    expect(theirs[1]).toMatchObject({ openedBy: 'peer', state: 'open', sending: undefined });

    stop.abort(new Error('enough'));
    await ends;
    await until(() => pair.near.inspect().streams.length === 0);
  });

  it('names calls that wait, on the side where they do, and for what', async () => {
    await using pair = await openPair({ far: { streamsMax: 1 } });
    const demo = pair.near.client(Demo);
    const stop = new AbortController();
    const { signal } = stop;
    const first = demo.hang(undefined, { signal });
    await until(() => pair.far.inspect().streams[0]?.waitsFor === 'serve');
    expect(pair.far.inspect().streams).toMatchObject([
      { id: '0.1', openedBy: 'peer', method: 'Demo.hang', state: 'waiting' },
    ]);
    pair.far.serve(Demo, demoHandlers());
    await until(() => pair.far.stats().handlers.running === 1);
    expect(pair.far.inspect().streams[0]?.waitsFor).toBeUndefined();
    const others = Array.from({ length: 1_500 }, () => demo.same(1, { signal, timeoutMs: 60_000 }));
    const { streams, stats } = pair.near.inspect();
    expect(stats.calls).toEqual({ open: 1, waiting: 1_500 });
    expect(streams).toHaveLength(1_001);
    expect(streams[0]).toMatchObject({ id: '0.1', state: 'open', waitsFor: undefined });
    for (const stream of streams.slice(1)) {
      expect(stream).toMatchObject({ method: 'Demo.same', state: 'waiting', waitsFor: 'slot' });
      expect(stream.id).toBeUndefined();
      expect(stream.ageMs).toBeGreaterThanOrEqual(0);
      expect(stream.deadlineInMs).toBeGreaterThan(0);
    }
    stop.abort(new Error('enough'));
    await Promise.allSettled([first, ...others]);
    await until(() => pair.near.inspect().streams.length === 0);
  });

  it('names requests of the peer and answers that wait, and for what', async () => {
    const near = {
      streamWindowBytes: 16_384,
      receiveMaxBytes: 65_536,
      sessionWindowBytes: 163_840,
    };
    await using pair = await openPair({ near });
    const waitingFor = (reason: string): string[] =>
      pair.far
        .inspect()
        .streams.filter(({ waitsFor }) => waitsFor === reason)
        .map(({ method, openedBy, state }) => `${method} ${openedBy} ${state}`);
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: async () => {
          await released;
          return Buffer.alloc(60_000);
        },
      }),
    );
    const { echo } = pair.near.client(Demo);
    const calls = Array.from({ length: 17 }, () => echo(Buffer.alloc(1)));
    await until(() => waitingFor('answers-expected').length > 0); // 16 at once of a new method
    expect(waitingFor('answers-expected')).toEqual(['Demo.echo peer waiting']);
    release();
    for (let turn = 0; waitingFor('answer-window').length === 0; turn += 1) {
      expect(turn).toBeLessThan(1_000);
      await Promise.resolve();
    }
    expect(waitingFor('answer-window')).toContain('Demo.echo peer open');
    await Promise.all(calls);
    expect([...waitingFor('answers-expected'), ...waitingFor('answer-window')]).toEqual([]);
  });

  it('has a channel as open on both sides', async () => {
    await using pair = await openPair();
    const accepted = pair.far.channels(bytes, { name: 'talk' });
    const channel = pair.near.openChannel(bytes, { name: 'talk' });
    const { value: other } = await accepted.next();
    for (const session of [pair.near, pair.far]) {
      expect(session.inspect().streams).toMatchObject([
        { method: 'talk', kind: 'channel', state: 'open', waitsFor: undefined },
      ]);
    }
    await Promise.all([channel.end(), other?.end()]);
  });
});

describe('the inspection of a ring', () => {
  it('has unread records in the turn in which they were sent, and none later', async () => {
    await using pair = await openRingPair({}, {});
    pair.far.serve(Demo, demoHandlers());
    const { echo } = pair.near.client(Demo);
    await echo(Buffer.alloc(1));
    const calls = Array.from({ length: 5 }, () => echo(Buffer.alloc(1_000)));
    const { ring } = pair.near.inspect();
    expect(ring?.faults).toEqual([]);
    expect(ring?.sent?.unreadBytes).toBeGreaterThan(5_000);
    expect(ring?.sent?.records.map(({ frame }) => frame?.includes('payload 1000'))).toEqual(
      Array(5).fill(true),
    );
    expect(pair.far.inspect().ring?.received?.records).toEqual(ring?.sent?.records);
    await Promise.all(calls);
    expect(pair.near.inspect().ring?.sent).toMatchObject({ unreadBytes: 0, records: [] });
  });

  it('looks at the first unread bytes where it is told to, and saves no part as the whole', async () => {
    using scratch = scratchDirectory();
    await using pair = await openRingPair({}, {});
    pair.far.serve(Demo, demoHandlers());
    const { echo } = pair.near.client(Demo);
    await echo(Buffer.alloc(1));
    const calls = Array.from({ length: 5 }, () => echo(Buffer.alloc(1_000)));
    const whole = pair.near.inspect().ring;
    const cut = pair.near.inspect({ unreadMaxBytes: 2_500 }).ring;
    expect(whole?.sent).toMatchObject({ unseenBytes: 0, moreRecords: 0 });
    expect(cut?.faults).toEqual([]);
    expect(cut?.sent?.records).toEqual(whole?.sent?.records.slice(0, 2));
    expect(cut?.sent?.unreadBytes).toBe(whole?.sent?.unreadBytes);
    expect(cut?.sent?.unseenBytes).toBeGreaterThan(2_000);
    await expect(cut?.save(scratch.file('cut'))).rejects.toThrow(/without unreadMaxBytes/);
    await whole?.save(scratch.file('whole'));
    const { save: _, ...report } = whole as RingInspection;
    expect(reportRing(splitRingCopy(readFileSync(scratch.file('whole'))))).toEqual(report);
    await Promise.all(calls);
  });

  it('has leases with their age and the method that they belong to', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    const kept: Lease[] = [];
    pair.far.serve(LeaseCalls, leaseHandlers({ drop: (lease) => void kept.push(lease.keep()) }));
    const leases = pair.near.client(LeaseCalls);
    await leases.drop(pair.near.allocate(5_000));
    const answer = await leases.raise(pair.near.allocate(9_000));
    const pouring = leases.exchange();
    await pouring.send(pair.near.allocate(7_000));
    const { value: streamed } = await pouring.next();
    await until(() => kept.length === 1);
    await new Promise((done) => setTimeout(done, 20));
    const { leases: ours } = pair.near.inspect();
    expect(ours.map(({ bytes, owner }) => [bytes, owner])).toEqual([
      [9_000, 'LeaseCalls.raise'],
      [7_000, 'LeaseCalls.exchange'],
    ]);
    expect(Math.min(...ours.map(({ ageMs }) => ageMs))).toBeGreaterThanOrEqual(15);
    expect(pair.far.inspect().leases).toMatchObject([{ bytes: 5_000, owner: 'LeaseCalls.drop' }]);
    for (const lease of [answer, streamed as Lease, ...kept]) lease.release();
    await pouring.end();
    expect([...pair.near.inspect().leases, ...pair.far.inspect().leases]).toEqual([]);
  });

  it('shows what a helper that was killed has left unread, and is gone with the session', async () => {
    const helper = await spawnHelper(process.execPath, [programPath('helper.mjs')]);
    const { session, pid } = helper;
    const { echo } = helper.client(Demo);
    await echo(Buffer.alloc(1));
    process.kill(pid, 'SIGSTOP');
    waitForState(pid, 'T'); // until then it may take the first of them
    const calls = Array.from({ length: 9 }, () => echo(Buffer.alloc(3_000)));
    const settled = Promise.allSettled(calls);
    await new Promise<void>((done) => process.nextTick(done)); // the last of them are published
    process.kill(pid, 'SIGKILL');
    waitForState(pid, 'Z');
    const { ring, state, streams } = session.inspect();
    expect({ state, faults: ring?.faults }).toEqual({ state: 'open', faults: [] });
    expect(ring?.sent?.records.length).toBeGreaterThanOrEqual(9);
    expect(streams).toHaveLength(9);
    await settled;
    await helper.exited;
    expect(session.inspect()).toMatchObject({ state: 'closed', ring: undefined, streams: [] });
  });

  it('is saved to a new file that only its owner reads, and never over another one', async () => {
    using scratch = scratchDirectory();
    await using pair = await openRingPair({}, {});
    const { ring } = pair.near.inspect();
    await ring?.save(scratch.file('copy'));
    const { mode, size } = statSync(scratch.file('copy'));
    expect(mode & 0o777).toBe(0o600);
    expect(size).toBe(2 * (16_384 + 1_048_576));
    writeFileSync(scratch.file('mine'), 'kept');
    await expect(ring?.save(scratch.file('mine'))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_SYSTEM',
      message: expect.stringContaining('EEXIST'),
    });
    expect(readFileSync(scratch.file('mine'), 'utf8')).toBe('kept');
  });
});
