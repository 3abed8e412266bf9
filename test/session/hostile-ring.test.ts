// A process that stores invalid words in its ring: the end of its session, and no harm to others.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, expect, it, vi } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { canary } from '../support/canary.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { waitForState } from '../support/process-state.ts';
import { type RunningProgram, ringPeerProgram, startProgram } from '../support/programs.ts';

const native = requireNative('the test');

interface Scene extends AsyncDisposable {
  readonly listener: Listener;
  readonly events: SidecallEvent[];
  readonly logged: string[];
  /** A well-behaved session beside the hostile one. */
  readonly neighbour: Session;
  readonly attack: (act: string) => RunningProgram;
  /** The session of the attacker, once it is open. */
  readonly next: () => Promise<Session>;
}

async function open(): Promise<Scene> {
  const events: SidecallEvent[] = [];
  const logged: string[] = [];
  const listener = await listen({ onEvent: (event) => events.push(event) });
  const log = (line: string): void => void logged.push(line);
  listener.serve(Demo, demoHandlers({ log }));
  const sessions = listener[Symbol.asyncIterator]();
  const neighbour = await connect({ path: listener.path });
  await sessions.next();
  return {
    listener,
    events,
    logged,
    neighbour,
    attack: (act) => startProgram('ring_peer', [listener.path, act], { command: ringPeerProgram }),
    next: async () => (await sessions.next()).value as Session,
    [Symbol.asyncDispose]: async () => {
      await neighbour.close();
      await listener.close();
    },
  };
}

describe('a ring that lies', () => {
  it.each([
    'cursor-unaligned',
    'cursor-ahead',
    'cursor-huge',
    'record-nothing',
    'record-kind',
    'record-length',
    'record-zero',
  ])('%s ends its session with RING_CORRUPT, and no other', async (act) => {
    await using scene = await open();
    const watch = canary(scene.neighbour);
    await using attacker = scene.attack(act);
    expect(await attacker.next()).toEqual({ verdict: 0 });
    await until(() => scene.events.length > 0);
    expect(scene.events).toMatchObject([
      { type: 'session-failed', error: { code: 'ERR_SIDECALL_RING_CORRUPT' } },
    ]);
    expect(await attacker.next()).toMatchObject({ end: 'closed' });
    await watch.stop();
    expect(scene.neighbour.state).toBe('open');
  });

  it('a consumer cursor ahead of what we sent is RING_CORRUPT when we look for space', async () => {
    await using scene = await open();
    await using attacker = scene.attack('consumer-ahead');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    const session = await scene.next();
    const calls = Array.from({ length: 64 }, () =>
      session.client(Demo).echo(new Uint8Array(60_000)),
    );
    const settled = Promise.allSettled(calls);
    expect(await session.closed).toMatchObject({ code: 'ERR_SIDECALL_RING_CORRUPT' });
    for (const { status } of await settled) expect(status).toBe('rejected');
  });

  it.each([
    ['wrong-byte', 'a byte on the socket that is no doorbell'],
    ['doorbell-flood', 'more doorbells than sleeps'],
    ['second-hello', 'a second hello'],
    ['frame-unknown', 'a frame of no type'],
    ['frame-short', 'a frame shorter than its header'],
  ])('%s: %s is PROTOCOL', async (act) => {
    await using scene = await open();
    const watch = canary(scene.neighbour);
    await using attacker = scene.attack(act);
    expect(await attacker.next()).toEqual({ verdict: 0 });
    await until(() => scene.events.length > 0);
    expect(scene.events).toMatchObject([
      { type: 'session-failed', error: { code: 'ERR_SIDECALL_PROTOCOL' } },
    ]);
    await watch.stop();
    expect(scene.neighbour.state).toBe('open');
  });

  it('endless records leave the event loop its turns', async () => {
    await using scene = await open();
    const delays = monitorEventLoopDelay({ resolution: 1 });
    const watch = canary(scene.neighbour);
    await using attacker = scene.attack('endless');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    delays.enable();
    // Each call has a turn of its own: a loop that was held would not come to its next one.
    await until(() => watch.calls() > 100);
    attacker.tell('stop');
    const { written } = await attacker.next();
    delays.disable();
    const calls = await watch.stop();
    console.log(
      `endless: ${written} records taken beside ${calls} calls; loop delay p99 ${(delays.percentile(99) / 1e6).toFixed(1)} ms`,
    );
    expect(written).toBeGreaterThan(1_000);
  });

  it('flipped epochs cost doorbells, and nothing else', async () => {
    await using scene = await open();
    const watch = canary(scene.neighbour);
    await using attacker = scene.attack('flip-epochs');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    const session = await scene.next();
    for (let count = 0; count < 100; count += 1) {
      await session.notify('Nobody.listens', count);
      await new Promise((done) => setTimeout(done, 1));
    }
    attacker.tell('stop');
    await watch.stop();
    await session.closed;
    expect(scene.neighbour.state).toBe('open');
  });

  it('records that trickle keep us awake only while they come', async () => {
    await using scene = await open();
    await using attacker = scene.attack('trickle');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    expect(await attacker.next()).toEqual({ stopped: true });
    // The poller holds an immediate while it is awake; asleep it holds nothing.
    await until(() => !process.getActiveResourcesInfo().includes('Immediate'));
    const before = process.cpuUsage();
    await new Promise((done) => setTimeout(done, 500));
    const { user, system } = process.cpuUsage(before);
    console.log(`trickle: ${user + system} µs of CPU in the 500 ms after it stopped`);
    expect(process.getActiveResourcesInfo()).not.toContain('Immediate');
  });

  it('what was published before the end is delivered, and nothing after it', async () => {
    await using scene = await open();
    await using attacker = scene.attack('publish-after-end');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    const freeze = native.ringFreeze;
    using spy = vi.spyOn(native, 'ringFreeze').mockImplementation((ring) => {
      const result = freeze(ring); // the end was seen
      attacker.tell('');
      waitForState(attacker.pid, 'T'); // it has published more
      process.kill(attacker.pid, 'SIGCONT');
      return result;
    });
    await until(() => scene.events.length > 0);
    expect(spy).toHaveBeenCalledOnce();
    expect(scene.events).toMatchObject([{ error: { code: 'ERR_SIDECALL_PEER_GONE' } }]);
    expect(scene.logged).toEqual(Array.from({ length: 10 }, () => 'before'));
  });

  it('what was half written when it was killed is not delivered', async () => {
    await using scene = await open();
    await using attacker = scene.attack('half-written');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    await until(() => scene.events.length > 0);
    await until(() => scene.events.length > 0);
    expect(scene.events).toMatchObject([{ error: { code: 'ERR_SIDECALL_PEER_GONE' } }]);
    expect(scene.logged).toEqual(Array.from({ length: 10 }, () => 'before'));
  });

  it('a peer that never takes anything holds up its own calls, and deadlines fire', async () => {
    await using scene = await open();
    await using attacker = scene.attack('idle');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    const session = await scene.next();
    const demo = session.client(Demo);
    const calls = Array.from({ length: 100 }, () =>
      demo.echo(new Uint8Array(50_000), { timeoutMs: 100 }),
    );
    for (const { reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
      expect(reason).toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    }
    expect(await scene.neighbour.client(Demo).same(1)).toBe(1);
  });

  it('a call beyond the last consumer cursor was delivered to nobody', async () => {
    await using scene = await open();
    await using attacker = scene.attack('idle');
    expect(await attacker.next()).toEqual({ verdict: 0 });
    const session = await scene.next();
    const call = session.client(Demo).same(1);
    call.catch(() => undefined);
    await new Promise((done) => setTimeout(done, 20));
    attacker.child.kill('SIGKILL');
    await expect(call).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'no',
      retryable: true,
    });
  });
});

describe('a hello with memory that is wrong', () => {
  it.each([
    ['hello-no-descriptor', 'memory that did not come'],
    ['hello-two-descriptors', 'two descriptors'],
    ['hello-declines-with-descriptor', 'a descriptor with a decline'],
    ['hello-late-descriptor', 'a descriptor behind the first byte'],
    ['hello-unsealed', 'memory without seals'],
    ['hello-pipe', 'a pipe for memory'],
  ])('%s: %s is PROTOCOL, and everything is given back', async (act) => {
    await using scene = await open();
    await using attacker = scene.attack(act);
    expect(await attacker.next()).toMatchObject({ end: 'in the hello' });
    await until(() => scene.events.length > 0);
    expect(scene.events).toMatchObject([
      { type: 'refused', error: { code: 'ERR_SIDECALL_PROTOCOL' } },
    ]);
    expect(await scene.neighbour.client(Demo).same(1)).toBe(1);
  });

  it('a descriptor right behind the hello is closed without blocking, and ends it', async () => {
    await using scene = await open();
    await using attacker = scene.attack('hello-descriptor-behind');
    expect(await attacker.next()).toBeDefined(); // the verdict, or the end in the hello
    await until(() => scene.events.length > 0);
    expect(scene.events[0]).toMatchObject({ error: { code: 'ERR_SIDECALL_PROTOCOL' } });
  });

  it('a peer that declines gets the socket lane', async () => {
    await using scene = await open();
    await using attacker = scene.attack('hello-declines');
    expect(await attacker.next()).toEqual({ verdict: 1 });
    const session = await scene.next();
    expect(session.lane).toBe('socket');
    expect(session.laneReason).toContain('declined');
  });
});
