// Processes of our own user that lie to the one that looks into them.
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallFeed } from '../../src/cli/live/call-feed.ts';
import { inspectionName } from '../../src/rendezvous/inspection-paths.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { serverStream, service } from '../../src/rpc/contract/service.ts';
import { socketPath } from '../../src/uds/private-directory.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';
import { latency, reported, sampled } from '../support/reported.ts';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');
const Forged = service('sidecall.Forged', {
  sessions: serverStream<void, unknown>({ response: json<unknown>() }),
});
const wireName = {
  ...Forged,
  name: 'sidecall.Inspection',
  wireName: () => 'sidecall.Inspection.sessions',
};

let runtime: ReturnType<typeof scratchDirectory>;
const before = process.env.XDG_RUNTIME_DIR;

beforeEach(() => {
  runtime = scratchDirectory();
  process.env.XDG_RUNTIME_DIR = runtime.path;
});

afterEach(() => {
  runtime[Symbol.dispose]();
  if (before === undefined) delete process.env.XDG_RUNTIME_DIR;
  else process.env.XDG_RUNTIME_DIR = before;
});

/** A listener in this process that says `parts` where process `pid` is looked into. */
async function liar(pid: number, parts: () => AsyncIterable<unknown>): Promise<Listener> {
  const listener = await listen({ path: socketPath(inspectionName(pid, 0, 1)), lane: 'socket' });
  listener.serveOwn(wireName as typeof Forged, { sessions: parts });
  listener.beginServing();
  return listener;
}

async function inspect(pid: number): Promise<{ stderr: string; stdout: string }> {
  const child = spawn(process.execPath, [main, 'inspect', String(pid)]);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { stdout, stderr };
}

const thread = {
  sidecall: '9.\u001b[31m9',
  node: 'v20',
  pid: 1,
  threadId: 0,
  uptimeMs: 1,
  residentBytes: 1,
  sessions: 2,
};

const honest = reported(1, 0, { methods: { called: [latency('A.b', 1, 1)], served: [] } });
const { stats } = honest;
const stream = { id: '0.1', openedBy: 'us', method: 'A.b', kind: 'unary', state: 'open' };
const outbox = {
  ...{ capacityBytes: 1, blockAreaBytes: 0, publishedBytes: 0, moreRecords: 0, unseenBytes: 0 },
  ...{ sleepEpochs: [0, 0], records: [], sleepsForRecords: false, sleepsForRoom: true },
};
const forgeries: [string, unknown][] = [
  [
    'a method with a name of megabytes',
    { ...honest, streams: [{ ...stream, method: 'x'.repeat(1_000_000) }] },
  ],
  ['a call whose number is an object', { ...honest, streams: [{ ...stream, id: {} }] }],
  [
    'a wait for a text of megabytes',
    { ...honest, streams: [{ ...stream, waitsFor: 'x'.repeat(1_000_000) }] },
  ],
  ['a call that waits for an object', { ...honest, streams: [{ ...stream, waitsFor: {} }] }],
  ['a call whose age is a text', { ...honest, streams: [{ ...stream, ageMs: '<b>' }] }],
  [
    'a wait that is an object',
    { ...honest, streams: [{ ...stream, sending: { creditBytes: 1 } }] },
  ],
  ['a lease without bytes', { ...honest, leases: [{ id: 1, ageMs: 1, owner: 'A.b' }] }],
  ['a ring with a fault that is none', { ...honest, ring: { faults: [{}] } }],
  [
    'a ring without numbers',
    { ...honest, ring: { faults: [], sent: { ...outbox, capacityBytes: null } } },
  ],
  [
    'a record that is none',
    { ...honest, ring: { faults: [], sent: { ...outbox, records: [{ kind: 1 }] } } },
  ],
  [
    'a sleep that is a text',
    { ...honest, ring: { faults: [], sent: { ...outbox, sleepsForRoom: 'no' } } },
  ],
  ['a peer without an origin', { ...honest, peer: { pid: 1 } }],
  ['leases without numbers', { ...honest, stats: { ...stats, leases: {} } }],
  ['a session without an instant', { ...honest, atMs: null }],
  ['a lane that is no text', { ...honest, lane: {} }],
  ['no methods', { ...honest, stats: { ...stats, methods: { called: 1, served: [] } } }],
  ['a wait that is no number', { ...honest, stats: { ...stats, waits: { slot: '\u001b[2J' } } }],
  ['windows of null', { ...honest, stats: { ...stats, windows: { requests: null } } }],
  [
    'a number of calls that is a text',
    {
      ...honest,
      stats: {
        ...stats,
        methods: { called: [{ ...latency('A.b', 1, 1), started: '1' }], served: [] },
      },
    },
  ],
  [
    'a percentile that is no number',
    {
      ...honest,
      stats: {
        ...stats,
        methods: { called: [{ method: 'A.b', latencyMs: { p50: '1' } }], served: [] },
      },
    },
  ],
];

const ForgedCalls = service('sidecall.ForgedCalls', {
  calls: serverStream<void, unknown>({ response: json<unknown>() }),
});
const callsName = {
  ...ForgedCalls,
  name: 'sidecall.Inspection',
  wireName: () => 'sidecall.Inspection.calls',
};

const call = sampled(1);
const forgedCalls: [string, unknown][] = [
  ['null', null],
  ['no list', { atMs: 1, missed: 0, calls: 7 }],
  ['more calls than a process keeps', { atMs: 1, missed: 0, calls: Array(1_001).fill(call) }],
  ['an instant that is no number', { atMs: '1', missed: 0, calls: [] }],
  ['a call of a third', { atMs: 1, missed: 0, calls: [{ ...call, openedBy: 'you' }] }],
  ['a name that is none', { atMs: 1, missed: 0, calls: [{ ...call, method: {} }] }],
  ['bytes below 0', { atMs: 1, missed: 0, calls: [{ ...call, sentBytes: -1 }] }],
  ['a number beyond all', { atMs: 1e308, missed: 0, calls: [] }],
  ['an end that is a text', { atMs: 1, missed: 0, calls: [{ ...call, endedMs: '\u001b[2J' }] }],
];

it.each(forgedCalls)('calls with %s are not shown, and the reason is', async (_what, part) => {
  await using listener = await liar(process.pid, async function* () {
    yield { thread };
  });
  listener.serveOwn(callsName as typeof ForgedCalls, {
    async *calls() {
      yield { atMs: 1, missed: 0, calls: [call] };
      yield part;
    },
  });
  const feed = new CallFeed(process.pid, 3_000);
  feed.start();
  await until(() => !feed.isOn);
  expect(feed.problem).toContain('the report cannot be read');
  expect(feed.calls.since(0)).toMatchObject([{ method: call.method }]);
});

it('calls with fields that are not known are kept without them', async () => {
  await using listener = await liar(process.pid, async function* () {
    yield { thread };
  });
  listener.serveOwn(callsName as typeof ForgedCalls, {
    async *calls() {
      yield { atMs: 1, missed: 0, calls: [{ ...call, junk: 'x'.repeat(100_000) }] };
    },
  });
  const feed = new CallFeed(process.pid, 3_000);
  await feed.start();
  await until(() => feed.calls.since(0).length === 1);
  await feed.close();
  expect(feed.calls.since(0)[0]).not.toHaveProperty('junk');
  await feed.start();
  expect(feed.isOn).toBe(false);
});

describe('a process that lies to the one that looks into it', () => {
  it('is not taken for another process, whose number its socket has', async () => {
    await using asleep = startProgram('60', ['60'], { command: 'sleep' });
    await using _listener = await liar(asleep.pid, async function* () {
      yield { thread };
    });
    const { stdout, stderr } = await inspect(asleep.pid);
    expect(stdout).toBe('');
    expect(stderr).toContain(`belongs to process ${process.pid}, which says it is that one`);
  });

  it.each<[string, readonly unknown[]]>([
    ['nothing', []],
    ['null', [null]],
    ['a thread without numbers', [{ thread: { ...thread, sessions: '\u001b]0;title\u0007' } }]],
    ['a session before its thread', [{ sessions: [{}] }]],
    ['a session without stats', [{ thread }, { sessions: [{ id: 1 }] }]],
    ['a session that is null', [{ thread }, { sessions: [null] }]],
    ['an empty part without an end', Array(1_000).fill({ sessions: [] })],
    ['its thread again and again', Array(1_000).fill({ thread })],
    ['more sessions than any process', [{ thread: { ...thread, sessions: 2 ** 50 } }]],
    ['no list of sessions', [{ thread }, { sessions: 5 }]],
    ...forgeries.map(
      ([what, session]) => [what, [{ thread }, { sessions: [session] }]] as [string, unknown[]],
    ),
    [
      'more sessions than it has',
      [
        { thread },
        ...Array.from({ length: 100_000 }, () => ({ sessions: [] })),
        { sessions: [{}, {}, {}] },
      ],
    ],
  ])('is told apart from an honest one where it says %s', async (_what, parts) => {
    await using _listener = await liar(process.pid, async function* () {
      yield* parts;
    });
    const { stdout, stderr } = await inspect(process.pid);
    expect(stdout).toBe('');
    expect(stderr).toContain('the report cannot be read: the process has version');
    expect(stderr).not.toContain('\u001b');
  });
});
