// The lane of a session and its reason; options of the ring; resources of an idle session.
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { checkLimits, ranges } from '../../src/base/limits/option-limits.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { capabilities } from '../../src/open/capabilities.ts';
import { configure, pollBudgetOf } from '../../src/open/configure.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { type HelloMemory, helloAsConnecting } from '../../src/uds/hello.ts';
import { encodeAnswer, encodeHello, HelloFlag, Verdict } from '../../src/uds/hello-bytes.ts';
import type { HelloWire } from '../../src/uds/hello-wire.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';

const native = requireNative('the test');

afterEach(() => {
  configure({
    ringMemoryMaxBytes: ranges.ringMemoryMaxBytes.standard,
    pollBudgetUs: ranges.pollBudgetUs.standard,
  });
});

describe('the lane of a session', () => {
  it('is the ring between two processes with the addon, and says why', async () => {
    await using helper = await spawnHelper(process.execPath, [programPath('helper.mjs')]);
    expect(helper.session.lane).toBe('ring');
    expect(helper.session.laneReason).toBe('both sides have shared memory');
    expect(capabilities()).toMatchObject({ lanes: ['ring', 'socket'], ringReason: undefined });
  });

  it.each([
    ['near', 'the socket lane was asked for', 'the peer offers no shared memory'],
    ['far', 'the peer offers no shared memory', 'the socket lane was asked for'],
  ])('is the socket where the %s side asks for it', async (who, nearReason, farReason) => {
    await using listener = await listen({ lane: who === 'far' ? 'socket' : 'auto' });
    await using near = await connect({
      path: listener.path,
      lane: who === 'near' ? 'socket' : 'auto',
    });
    const { value: far } = await listener[Symbol.asyncIterator]().next();
    expect([near.lane, near.laneReason]).toEqual(['socket', nearReason]);
    expect([far?.lane, far?.laneReason]).toEqual(['socket', farReason]);
  });

  it('is the socket where the memory of this process is used up, and says so', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen();
    const one = 16_384 + ranges.pathRingBytes.standard;
    configure({ ringMemoryMaxBytes: native.ringMemoryBytes() + 2 * one });
    await using first = await connect({ path: listener.path });
    expect(first.lane).toBe('ring');
    await using second = await connect({
      path: listener.path,
      onEvent: (event) => events.push(event),
    });
    expect(second.lane).toBe('socket'); // the first's two outboxes are all there may be
    await first.close();
    await until(() => native.ringMemoryBytes() === 0);
    await using third = await connect({ path: listener.path });
    expect(third.lane).toBe('ring');
    configure({ ringMemoryMaxBytes: 0 });
    expect(capabilities().ringReason).toContain('ringMemoryMaxBytes');
    expect(capabilities().lanes).toEqual(['socket']);
  });

  it('tells the side whose memory it was by an event', async () => {
    const events: SidecallEvent[] = [];
    configure({ ringMemoryMaxBytes: 0 });
    await using listener = await listen({ onEvent: (event) => events.push(event) });
    await using session = await connect({ path: listener.path });
    expect(session.lane).toBe('socket');
    await until(() => events.length > 0);
    expect(events).toMatchObject([
      { type: 'lane', error: { code: 'ERR_SIDECALL_SHM_UNAVAILABLE' } },
    ]);
  });

  it('is the socket where our limit let no descriptor in', async () => {
    const limits = checkLimits(undefined);
    const shape = { capacity: 65_536, blockArea: 0, nonce: new Uint8Array(16) };
    const said = [
      encodeHello(limits, { shape, features: 0 }, HelloFlag.descriptor),
      encodeAnswer(Verdict.socketLane, 1),
    ];
    const sent: number[] = [];
    const wire: HelloWire = {
      send: async (bytes) => void sent.push(bytes.byteLength),
      sendWith: async () => 'not called',
      admitDescriptors: () => undefined,
      whileWorking: <T>(work: Promise<T>) => work,
      receive: async (into) => {
        const isTruncated = into.byteLength === 64;
        into.set(said.shift() as Buffer);
        return {
          descriptors: 0,
          isLate: false,
          isTruncated,
          hasOtherControl: false,
          descriptor: undefined,
        };
      },
    };
    const memory: HelloMemory = {
      shape,
      features: 0,
      create: async () => 7, // made meanwhile, and not sent
      noteSent: () => undefined,
      accept: () => expect.fail('nothing came'),
      releaseDescriptor: () => undefined,
    };
    const result = await helloAsConnecting(wire, limits, memory);
    expect(result).toMatchObject({ isRing: false });
    expect(result.reason).toContain('no descriptor could be received');
    expect(sent).toEqual([64, 8]);
  });

  it('EPERM for our descriptor is no failure: the session goes on without', async () => {
    // The peer says that it takes one, and its kernel refuses for it.
    const { near, far } = native.socketPair();
    native.refuseDescriptors(far);
    const { establishOverDescriptor } = await import('../../src/open/open-session.ts');
    const { settingsOf } = await import('../support/pairs.ts');
    const { signal } = new AbortController();
    const peer = {
      origin: 'loopback',
      capturedAt: 'connect',
      pid: 1,
      pidIsHint: false,
      uid: 0,
      gid: 0,
      groups: [],
    } as const;
    const establishing = establishOverDescriptor(
      native,
      near,
      peer,
      { side: 'accepting' },
      settingsOf(undefined, undefined),
      signal,
    );
    const shape = { capacity: 65_536, blockArea: 0, nonce: new Uint8Array(16) };
    native.send(
      far,
      encodeHello(checkLimits(undefined), { shape, features: 0 }, HelloFlag.descriptorFollows),
      0,
      -1,
    );
    native.send(far, encodeAnswer(Verdict.socketLane, 1), 0, -1);
    const session = await establishing;
    expect(session.lane).toBe('socket');
    // Before Linux 6.16 nothing is refused, and the peer declines.
    const isRefused = native.refuseDescriptors(far);
    expect(session.laneReason).toContain(isRefused ? 'could not be sent' : 'declined');
    native.closeDescriptor(far);
    await session.closed;
  });

  it.each([
    [{ ringBytes: 100_000 }, RangeError],
    [{ ringBytes: 32_768 }, RangeError],
    [{ ringBytes: 134_217_728 }, RangeError],
    [{ pollBudgetUs: -1 }, RangeError],
    [{ pollBudgetUs: 1001 }, RangeError],
    [{ pollBudgetUs: '50' }, TypeError],
  ])('throws for %j', async (options, kind) => {
    await expect(listen(options as never)).rejects.toThrow(kind);
  });

  it('configure() changes nothing where one of its options is wrong', () => {
    expect(() => configure({ pollBudgetUs: 10, ringMemoryMaxBytes: -1 })).toThrow(RangeError);
    expect(() => configure({ pollBudget: 10 } as never)).toThrow(TypeError);
    expect(pollBudgetOf(undefined)).toBe(ranges.pollBudgetUs.standard);
    expect(capabilities().lanes).toContain('ring');
  });
});

describe('SIDECALL_LANE', () => {
  afterEach(() => {
    delete process.env.SIDECALL_LANE;
  });

  it('chooses the lane of programs that do not', async () => {
    process.env.SIDECALL_LANE = 'socket';
    await using listener = await listen({ lane: 'auto' });
    await using session = await connect({ path: listener.path });
    expect(session.laneReason).toBe('the socket lane was asked for');
  });

  it('is named where it is wrong', async () => {
    process.env.SIDECALL_LANE = 'fast';
    await expect(listen()).rejects.toThrow('SIDECALL_LANE');
  });
});

describe('memory', () => {
  it('is made for nobody who has not said hello, or whom the policy refuses', async () => {
    const before = native.ringMemoryBytes();
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      onEvent: (event) => events.push(event),
      helloTimeoutMs: 60,
    });
    const silent = native.connectSocket(listener.path);
    native.send(silent, encodeHello(checkLimits(undefined)).subarray(0, 63), 0, -1);
    await until(() => events.length > 0);
    expect(native.ringMemoryBytes()).toBe(before);
    native.closeDescriptor(silent);
    await using strict = await listen({ authorize: () => false });
    const refused = native.connectSocket(strict.path);
    const shape = { capacity: 65_536, blockArea: 0, nonce: new Uint8Array(16) };
    const hello = encodeHello(
      checkLimits(undefined),
      { shape, features: 0 },
      HelloFlag.descriptorFollows,
    );
    native.send(refused, hello, 0, -1);
    await new Promise((done) => setTimeout(done, 30));
    expect(native.ringMemoryBytes()).toBe(before);
    native.closeDescriptor(refused);
  });
});

describe('a ring session', () => {
  it.each([
    [65_536, 65_536],
    [65_536, 4_194_304],
    [4_194_304, 131_072],
  ])('carries messages of every size with outboxes of %i and %i bytes', async (near, far) => {
    await using listener = await listen({ ringBytes: far });
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path, ringBytes: near });
    expect(session.lane).toBe('ring');
    const demo = session.client(Demo);
    const sizes = [0, 1, 8191, 8192, 8193, 32_640, 65_535, 65_536, 65_537, 1_000_003];
    const payloads = sizes.map((size) => Buffer.alloc(size, size % 251));
    const answers = await Promise.all(payloads.map((payload) => demo.echo(payload)));
    answers.forEach((answer, at) => expect(Buffer.compare(answer, payloads[at] as Buffer)).toBe(0));
  });

  it('refuses metadata and details that do not fit a record of a small ring, and lives on', async () => {
    const limits = { metadataMaxBytes: 65_536 };
    await using listener = await listen({ ringBytes: 65_536, limits });
    listener.serve(
      Demo,
      demoHandlers({
        same: () => {
          throw new RpcError('aborted', 'no', { details: 'x'.repeat(50_000) });
        },
      }),
    );
    await using session = await connect({ path: listener.path, ringBytes: 65_536, limits });
    const demo = session.client(Demo);
    const metadata = { text: 'x'.repeat(40_000) };
    await expect(demo.add({ a: 1, b: 1 }, { metadata })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
    });
    await expect(demo.same(1)).rejects.toMatchObject({ status: 'aborted', details: undefined });
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('costs nothing while it is idle: nothing is scheduled on either side', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    await session.client(Demo).add({ a: 1, b: 1 });
    await until(() => !process.getActiveResourcesInfo().includes('Immediate'));
    await new Promise((done) => setTimeout(done, 50));
    expect(process.getActiveResourcesInfo()).not.toContain('Immediate');
    expect(await session.client(Demo).add({ a: 2, b: 1 })).toEqual({ sum: 3 });
  });

  it.each([0, 1000])('works with a poll budget of %i', async (pollBudgetUs) => {
    await using listener = await listen({ pollBudgetUs });
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path, pollBudgetUs });
    const demo = session.client(Demo);
    for (let a = 0; a < 200; a += 1) expect(await demo.add({ a, b: 0 })).toEqual({ sum: a });
  });

  it("a stalled call stands in nobody's way", async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    const demo = session.client(Demo);
    const controller = new AbortController();
    const stalled = demo.hang(undefined, { signal: controller.signal });
    stalled.catch(() => undefined);
    for (let a = 0; a < 500; a += 1) expect(await demo.add({ a, b: 0 })).toEqual({ sum: a });
    controller.abort();
    await expect(stalled).rejects.toThrow();
  });

  it('a small call finds its way beside a message of 64 MiB', async () => {
    const limits = { receiveMaxBytes: 67_108_864 };
    await using listener = await listen({ limits });
    listener.serve(Demo, demoHandlers({ echo: (payload) => payload.subarray(0, 1) }));
    await using session = await connect({ path: listener.path, limits });
    const demo = session.client(Demo);
    let isDone = false;
    const upload = demo.echo(Buffer.alloc(67_108_864, 7)).then(() => {
      isDone = true;
    });
    let calls = 0;
    while (!isDone) {
      await demo.add({ a: calls, b: 0 });
      calls += 1;
    }
    await upload;
    console.log(`fairness: ${calls} small calls, one after the other, during an upload of 64 MiB`);
    expect(calls).toBeGreaterThan(20); // behind the upload there would have been one
  });

  it('two copies of the package in one process meet as two processes do', async () => {
    using scratch = scratchDirectory();
    const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
    for (const part of ['dist', 'build/Release/sidecall.node', 'package.json']) {
      cpSync(join(root, part), scratch.file(part), { recursive: true });
    }
    mkdirSync(scratch.file('node_modules'));
    const copy = await import(pathToFileURL(scratch.file('dist/index.js')).href);
    await using listener = await copy.listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    expect(session.lane).toBe('ring');
    const calls = Array.from({ length: 300 }, (_, a) => session.client(Demo).add({ a, b: 1 }));
    const sums = await Promise.all(calls);
    sums.forEach(({ sum }, a) => expect(sum).toBe(a + 1));
    const payload = Buffer.alloc(300_000, 9);
    expect(Buffer.compare(await session.client(Demo).echo(payload), payload)).toBe(0);
  });

  it('what a handler is given is a copy: later messages do not change it', async () => {
    await using listener = await listen();
    const kept: Uint8Array[] = [];
    listener.serve(
      Demo,
      demoHandlers({
        echo: (payload) => {
          kept.push(payload);
          return payload;
        },
      }),
    );
    await using session = await connect({ path: listener.path });
    const sizes = [10, 5000, 9000, 70_000];
    for (let value = 0; value < 40; value += 1) {
      for (const size of sizes) await session.client(Demo).echo(Buffer.alloc(size, value));
    }
    kept.forEach((payload, at) => {
      const value = Math.floor(at / sizes.length);
      expect(payload.every((byte) => byte === value)).toBe(true);
    });
  });

  it('memory of the pool is not shared by two messages on their way', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    await using session = await connect({ path: listener.path });
    const demo = session.client(Demo);
    const texts = Array.from({ length: 60 }, (_, at) =>
      String.fromCharCode(97 + (at % 26)).repeat(90_000 + at),
    );
    const answers = await Promise.all(texts.map((text) => demo.same(text)));
    answers.forEach((answer, at) => expect(answer === texts[at]).toBe(true));
  });
});
