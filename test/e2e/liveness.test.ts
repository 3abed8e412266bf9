// Liveness: turning, busy and ended peers are distinguished, and no probe makes a call fail.
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { HelperState } from '../../src/helper/helper-state.ts';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';

const Busy = service('Busy', {
  block: notification<number>(),
  ping: unary<void, string>(),
  exit: notification<number>(),
});

function startBusy(options: SpawnOptions = {}): Promise<Helper> {
  return spawnHelper(process.execPath, [programPath('busy.mjs')], {
    startTimeoutMs: 600_000,
    ...options,
  });
}

async function failureOf(promise: Promise<unknown>): Promise<Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return { ...(error as object), message: (error as Error).message };
  }
  throw new Error('it did not fail');
}

/** Kinds of states until the helper has ended, or `enough` says so. */
async function follow(
  helper: Helper,
  enough: (states: HelperState[]) => boolean = () => false,
): Promise<HelperState[]> {
  const seen: HelperState[] = [];
  for await (const state of helper.states()) {
    if (state.state === 'ending') continue; // seen where its end of the session is, before that of the process
    seen.push(state);
    if (enough(seen)) break;
  }
  return seen;
}

describe.each(lanes)('ping() over $lane', ({ openPair }) => {
  it('is a round trip, and within a second the same one', async () => {
    await using pair = await openPair();
    const took = await pair.near.ping();
    expect(took).toBeGreaterThan(0);
    expect(await pair.near.ping({ timeoutMs: 0 })).toBe(took);
    expect(await pair.far.ping()).toBeGreaterThan(0);
    expect(await pair.near.liveness()).toEqual({ process: 'alive', loop: 'turning', busyForMs: 0 });
  });

  it('of a session that is over says why', async () => {
    const pair = await openPair();
    await pair.near.close();
    expect((await failureOf(pair.near.ping())).code).toBe('ERR_SIDECALL_CLOSED');
    await pair.far.closed;
    expect(await pair.far.liveness({ waitMs: 0 })).toMatchObject({ loop: 'busy' });
  });

  it('that waits is ended by the end of the session', async () => {
    // Frames that were published before the end are delivered: on a busy machine an answer, too.
    let failure: unknown;
    while (failure === undefined) {
      const pair = await openPair();
      const waiting = pair.near.ping().then(
        () => undefined,
        (error: unknown) => error,
      );
      const asked = pair.near.liveness({ waitMs: 600_000 });
      pair.cut();
      failure = await waiting;
      if (failure !== undefined)
        expect(await asked).toMatchObject({ process: 'gone', loop: 'busy' });
      await asked;
    }
    expect(failure).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });
});

describe('ping() and liveness()', () => {
  it('refuse what they do not know', async () => {
    const { near, close } = createSessionPair();
    await expect(near.ping({ timeoutMs: -1 })).rejects.toThrow(RangeError);
    await expect(near.ping({ timeout: 1 } as never)).rejects.toThrow(TypeError);
    await expect(near.liveness({ waitMs: 600_001 })).rejects.toThrow(RangeError);
    await expect(near.liveness({ wait: 1 } as never)).rejects.toThrow(TypeError);
    await close();
  });

  it('ask 29 a peer whose loop stands still is busy, alive, and fails no call', async () => {
    await using helper = await startBusy();
    const busy = helper.client(Busy);
    expect(await helper.session.liveness({ waitMs: 600_000 })).toEqual({
      process: 'alive',
      loop: 'turning',
      busyForMs: 0,
    });
    await busy.block(8_000);
    const call = busy.ping();
    // The answer to the first question is good for a second: after it, the loop is asked again.
    await until(async () => (await helper.session.liveness({ waitMs: 20 })).loop === 'busy');
    const first = await helper.session.liveness({ waitMs: 20 });
    const second = await helper.session.liveness({ waitMs: 20 });
    expect(first).toMatchObject({ process: 'alive', loop: 'busy' });
    expect(second.busyForMs).toBeGreaterThan(first.busyForMs);
    const late = await failureOf(helper.session.ping({ timeoutMs: 10 }));
    expect(late).toMatchObject({ code: 'ERR_SIDECALL_PEER_UNRESPONSIVE', retryable: true });
    expect(late.message).toContain('timeoutMs 10');
    expect(await call).toBe('pong');
    expect(await helper.session.ping()).toBeGreaterThan(0);
    expect(await helper.session.liveness()).toMatchObject({ loop: 'turning', busyForMs: 0 });
  });

  it('a process that is stopped by a signal is busy, not gone', async () => {
    await using helper = await startBusy();
    process.kill(helper.pid, 'SIGSTOP');
    expect(await helper.session.liveness({ waitMs: 50 })).toMatchObject({
      process: 'alive',
      loop: 'busy',
    });
    process.kill(helper.pid, 'SIGCONT');
    expect(await helper.session.ping()).toBeGreaterThan(0);
  });

  it('a process that was killed is gone', async () => {
    const helper = await startBusy();
    const { session } = helper;
    process.kill(helper.pid, 'SIGKILL');
    await helper.exited;
    expect(await session.liveness()).toMatchObject({ process: 'gone', loop: 'busy' });
  });

  it('after an orderly end the process is looked for by its number', async () => {
    await using helper = await startBusy();
    const { session } = helper;
    const other = createSessionPair({ near: { peer: { pid: helper.pid } } });
    await other.close();
    expect((await other.near.liveness()).process).toBe('alive');
    await helper.stop();
    expect((await other.near.liveness()).process).toBe('gone');
    expect((await session.liveness()).process).toBe('gone');
  });

  it('many that ask a busy peer cost it one ping', async () => {
    await using helper = await startBusy();
    await helper.client(Busy).block(1_200);
    const asked = Array.from({ length: 200 }, () => helper.session.ping());
    const told = new Set(await Promise.all(asked));
    expect(told.size).toBe(1);
    expect(helper.session.state).toBe('open');
  });
});

describe('helper.states()', () => {
  it('runs, stops, has ended, and the loop ends with it', async () => {
    const helper = await startBusy();
    expect(helper.state).toMatchObject({ state: 'running', pid: helper.pid, restarts: 0 });
    const following = follow(helper);
    const late = helper.states();
    await helper.stop();
    const seen = await following;
    expect(seen.map(({ state }) => state)).toEqual(['running', 'stopping', 'ended']);
    expect(seen[0]).toMatchObject({ session: helper.session });
    expect(seen.at(-1)).toMatchObject({ error: undefined, exit: { code: 0, signal: null } });
    const told = [];
    for await (const { state } of late) told.push(state);
    expect(told).toEqual(['ended']); // a slow reader sees the latest
    expect(await late.next()).toEqual({ done: true, value: undefined });
  });

  it('tells of each restart with its pause and cause, and of the crash loop', async () => {
    const helper = await startBusy({ restart: { firstMs: 5, maxMs: 40, maxRestarts: 2 } });
    const following = follow(helper);
    const pids = new Set<number>();
    const busy = helper.client(Busy);
    for await (const state of helper.states()) {
      if (state.state !== 'running') continue;
      pids.add(state.pid);
      await busy.exit(3);
    }
    const seen = await following;
    expect(pids.size).toBe(3);
    expect(seen.map(({ state }) => state)).toEqual([
      ...['running', 'restarting', 'running', 'restarting', 'running', 'ended'],
    ]);
    expect(seen.map(({ restarts }) => restarts)).toEqual([0, 0, 1, 1, 2, 2]);
    for (const state of seen) {
      if (state.state !== 'restarting') continue;
      expect(state.error.code).toBe('ERR_SIDECALL_PEER_GONE');
      expect(state.error.message).toContain('exit code 3');
      expect(state.pauseMs).toBeGreaterThan(0);
      expect(state.pauseMs).toBeLessThanOrEqual(40 * 1.2);
    }
    const last = seen.at(-1) as Extract<HelperState, { state: 'ended' }>;
    expect(last.error?.message).toContain('crash loop');
    expect(last.exit).toEqual({ code: 3, signal: null });
    await helper.close();
    expect(helper.state).toBe(last);
  });

  it('without restart the first end is the last, with its cause', async () => {
    const helper = await startBusy();
    await helper.client(Busy).exit(7);
    const seen = await follow(helper);
    expect(seen.at(-1)).toMatchObject({ state: 'ended', exit: { code: 7 }, restarts: 0 });
    expect((seen.at(-1) as { error: Error }).error.message).toContain('exit code 7');
    await helper.close();
  });

  it('a helper whose session is over is ending, though its process lives', async () => {
    const helper = await startBusy();
    const states = helper.states();
    await states.next();
    const { pid } = helper;
    await helper.session.close();
    expect((await states.next()).value).toMatchObject({
      state: 'ending',
      error: { code: 'ERR_SIDECALL_CLOSED' },
    });
    expect(() => process.kill(pid, 0)).not.toThrow();
    expect((await states.next()).value).toMatchObject({ state: 'ended' });
    await helper.close();
  });

  it('a stop while the next process is starting says no more of restarting', async () => {
    using scratch = scratchDirectory();
    const marker = scratch.file('started');
    // The second start sleeps before its hello.
    const script = `
      import { existsSync, writeFileSync } from 'node:fs';
      if (existsSync(${JSON.stringify(marker)})) await new Promise((r) => setTimeout(r, 60_000));
      writeFileSync(${JSON.stringify(marker)}, '');
      await import(${JSON.stringify(programPath('busy.mjs'))});`;
    const helper = await spawnHelper(process.execPath, ['--input-type=module', '-e', script], {
      restart: { firstMs: 1, maxMs: 1 },
    });
    const following = follow(helper);
    await helper.client(Busy).exit(1);
    await until(() => helper.state.state === 'restarting');
    await new Promise((resolve) => setTimeout(resolve, 100));
    await helper.stop();
    const seen = (await following).map(({ state }) => state);
    expect(seen).toEqual(['running', 'restarting', 'stopping', 'ended']);
  });

  it('leaving ends a next() that waits, and nothing else', async () => {
    await using helper = await startBusy();
    const states = helper.states();
    expect((await states.next()).value).toMatchObject({ state: 'running' });
    const waiting = states.next();
    await states.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(await helper.client(Busy).ping()).toBe('pong');
  });

  it('a stop while it is being restarted is an end, too', async () => {
    const helper = await startBusy({ restart: { firstMs: 60_000, maxMs: 60_000 } });
    await helper.client(Busy).exit(1);
    const seen = await follow(helper, (states) => states.at(-1)?.state === 'restarting');
    expect(seen.at(-1)).toMatchObject({ state: 'restarting' });
    await helper.stop();
    expect(helper.state).toMatchObject({ state: 'ended', error: undefined });
  });
});

describe('keepAlive', () => {
  // The time-out is long, so that a peer that only waits for a processor is none that stands still.
  const keepAlive = { intervalMs: 1_000, timeoutMs: 10_000 };

  it('tells that a peer stands still, and that it goes on', async () => {
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    await using helper = await startBusy({ keepAlive, onEvent });
    const busy = helper.client(Busy);
    expect(await busy.ping()).toBe('pong'); // its parent() is over
    process.kill(helper.pid, 'SIGSTOP');
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'unresponsive',
      peer: { pid: helper.pid },
      error: { code: 'ERR_SIDECALL_PEER_UNRESPONSIVE' },
    });
    const waits = busy.ping();
    process.kill(helper.pid, 'SIGCONT');
    expect(await waits).toBe('pong'); // the session goes on
    await until(() => events.length === 2);
    expect(events[1]).toMatchObject({ type: 'responsive', error: events[0]?.error });
    process.kill(helper.pid, 'SIGSTOP');
    await until(() => events.length === 3);
    process.kill(helper.pid, 'SIGCONT');
    await until(() => events.length === 4);
    expect(events.map(({ type }) => type)).toEqual([
      'unresponsive',
      'responsive',
      'unresponsive',
      'responsive',
    ]);
  });

  it('tells nothing of a busy peer that answers, nor while this process stands still', async () => {
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    await using helper = await startBusy({ keepAlive, onEvent });
    const busy = helper.client(Busy);
    const end = performance.now() + 3_000;
    while (performance.now() < end) {
      await busy.block(20);
      await Promise.all(Array.from({ length: 100 }, () => busy.ping()));
    }
    // Longer than the interval, the time-out and what shows that this process was stopped.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 13_000);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(events).toEqual([]);
  });

  it('keeps no process alive, and ends with its session', async () => {
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    const helper = await startBusy({ keepAlive, onEvent });
    process.kill(helper.pid, 'SIGSTOP');
    await until(() => events.length === 1);
    process.kill(helper.pid, 'SIGKILL');
    await helper.exited;
    expect(events.map(({ type }) => type)).not.toContain('responsive');
  });

  it.each([
    [{ intervalMs: 10 }, RangeError],
    [{ timeoutMs: 0 }, RangeError],
    [{ interval: 10 }, TypeError],
    ['yes', TypeError],
  ])('refuses %j', async (wrong, kind) => {
    await expect(startBusy({ keepAlive: wrong as never })).rejects.toThrow(kind);
  });
});
