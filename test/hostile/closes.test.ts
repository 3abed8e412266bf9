// Every close settles, in each state of the session and during each act of its peer.
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { notification, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { Demo, demoHandlers, Flow, flowHandlers, turns, until } from '../support/contract.ts';
import { lanes, type Pair } from '../support/pairs.ts';
import { programPath, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const Victim = service('Victim', {
  hang: unary<void, void>(),
  note: notification<string>(),
  download: serverStream<void, string>(),
});
const Closing = service('Closing', {
  enter: unary<string, void>(),
  hang: unary<void, void>(),
  note: notification<string>(),
});

const victimHandlers = {
  hang: () => new Promise<void>(() => undefined),
  note: () => undefined,
  async *download() {
    for (;;) yield 'x'.repeat(1000);
  },
};

type Table = readonly (readonly [string, ...string[]])[];

/** All rows of several columns. */
function rowsOf(...columns: readonly (readonly string[])[]): Table {
  const rows = columns.reduce<string[][]>(
    (before, column) => before.flatMap((row) => column.map((cell) => [...row, cell])),
    [[]],
  );
  return rows as unknown as Table;
}

/** States of a session of this process. */
const states: Record<string, (pair: Pair) => unknown> = {
  idle: () => undefined,
  'calls in flight': ({ near, far }) => {
    for (const session of [near, far]) {
      for (let at = 0; at < 20; at += 1) void session.client(Demo).hang();
    }
  },
  'notifications unread': ({ near, far }) => {
    for (const session of [near, far]) {
      for (let at = 0; at < 3000; at += 1) void session.client(Demo).log('x'.repeat(200));
    }
  },
  'a long message half-way': ({ near }) => {
    for (let at = 0; at < 3; at += 1) void near.client(Demo).echo(new Uint8Array(4_000_000));
  },
  'streams open': async ({ near }) => {
    for (let at = 0; at < 5; at += 1) await near.client(Flow).count({ to: 1_000_000 }).next();
  },
  'channels and byte streams open': async ({ near, far }) => {
    const accepted = far.channels(json(), { name: 'c' });
    const streams = far.duplexes({ name: 'd' });
    for (let at = 0; at < 5; at += 1) {
      const channel = near.openChannel(json(), { name: 'c' });
      for (const end of [channel, (await accepted.next()).value])
        end?.closed.catch(() => undefined);
      const ours = near.openDuplex({ name: 'd' });
      for (const end of [ours, (await streams.next()).value]) end?.on('error', () => undefined);
      ours.write(Buffer.alloc(300_000));
    }
  },
  'the other side closing': ({ near, far }) => {
    void near.client(Demo).hang();
    void far.close({ deadlineMs: 60_000 });
  },
  'closing already': ({ near }) => {
    void near.client(Demo).hang();
    void near.close({ deadlineMs: 60_000 });
  },
};

/** Fates of the other end. */
const fates: Record<string, (pair: Pair) => unknown> = {
  'stays open': () => undefined,
  'is gone before': async ({ cut }) => {
    cut();
    await turns(1);
  },
  'is gone in the same turn': ({ cut }) => cut(),
  'is gone a turn later': ({ cut }) => void turns(1).then(cut),
  'closes, too': ({ far }) => void far.close({ deadlineMs: 100 }),
};

const endings: Record<string, (session: Session) => Promise<unknown>> = {
  'close()': (session) => session.close({ deadlineMs: 100 }),
  'close({ deadlineMs: 0 })': (session) => session.close({ deadlineMs: 0 }),
  'close() twice': (session) =>
    Promise.all([session.close({ deadlineMs: 60_000 }), session.close({ deadlineMs: 50 })]),
};

/** In `npm test` two of three rows: each lane leaves out others. */
function sessionRows(lane: string): Table {
  const rows = rowsOf(Object.keys(states), Object.keys(fates), Object.keys(endings));
  const left = lanes.findIndex((each) => each.lane === lane);
  return rows.filter((_, at) => rounds(1, 0) === 1 || (at + Math.floor(at / 3)) % 3 !== left);
}

describe.each(lanes)('a session over the $lane', ({ lane, openPair }) => {
  it.each(sessionRows(lane))('%s, its peer %s, ends by %s', async (state, fate, ending) => {
    const pair = await openPair();
    for (const session of [pair.near, pair.far]) {
      session.serve(Demo, demoHandlers({ hang: () => new Promise(() => undefined) }));
      session.serve(Flow, flowHandlers());
    }
    await states[state]?.(pair);
    await turns(1);
    await fates[fate as string]?.(pair);
    await endings[ending as string]?.(pair.near);
    await pair.near.closed;
    await pair.far.close({ deadlineMs: 0 });
    await pair.far.closed;
    expect([pair.near.state, pair.far.state]).toEqual(['closed', 'closed']);
  });
});

type Side = 'helper' | 'client';
type ProcessCell = [state: string, fate: string, lane: 'ring' | 'socket', deadlineMs: number];

/**
 * Each state with each fate, over a lane and with a deadline. The long run has all of them at both
 * sides, and `npm test` each at one side, with one of each, so that every two of the five meet.
 */
function processCells(side: Side): ProcessCell[] {
  const cells = processStates.flatMap((state, s) =>
    Object.keys(processFates).map((fate, f) => ({ state, fate, s, f })),
  );
  const all = cells.flatMap(({ state, fate }) =>
    (['ring', 'socket'] as const).flatMap((lane) =>
      [0, 100].map((deadlineMs): ProcessCell => [state, fate, lane, deadlineMs]),
    ),
  );
  const few = cells
    .filter(({ s, f }) => (s + f) % 2 === (side === 'helper' ? 0 : 1))
    .map(({ state, fate, s, f }): ProcessCell => {
      const lane = ((s >> 1) + f) % 2 === 0 ? 'ring' : 'socket';
      return [state, fate, lane, ((s >> 2) + (f >> 1)) % 2 === 0 ? 0 : 100];
    });
  return rounds(1, 0) === 1 ? all : few;
}

/** States of a process at the other end. */
const processStates = [
  'idle',
  'busy',
  'calling',
  'flooding',
  'burst',
  'leaving',
  'streaming',
  'channels',
];

/** Fates of a process. */
const processFates: Record<string, (pid: number) => unknown> = {
  lives: () => undefined,
  'is stopped': (pid) => process.kill(pid, 'SIGSTOP'),
  'is killed': (pid) => process.kill(pid, 'SIGKILL'),
  'is killed while we stand still': async (pid) => {
    process.kill(pid, 'SIGKILL');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    await turns(1); // we know that it is gone, and have not read all that it had sent
  },
  'is killed a moment later': (pid) => {
    setTimeout(() => {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it has ended already
      }
    }, 20);
  },
};

/** The state is entered, and what comes of it has begun to arrive. */
async function enter(session: Session, state: string): Promise<void> {
  const closing = session.client(Closing);
  for (let at = 0; at < 5; at += 1) void closing.hang();
  await closing.enter(state);
  if (state !== 'burst') await turns(3); // of a burst nothing has been read
}

describe('a helper', () => {
  it.each(processCells('helper'))(
    '%s, which %s, over the %s, is stopped within %d ms',
    async (state, fate, lane, deadlineMs) => {
      const helper = await spawnHelper(
        process.execPath,
        [programPath('closing.mjs'), JSON.stringify({ lane })],
        { lane },
      );
      helper.serve(Victim, victimHandlers);
      await enter(helper.session, state);
      await processFates[fate]?.(helper.pid);
      await helper.stop({ deadlineMs, killGraceMs: 20 });
      await helper.session.closed;
      await helper.exited;
      expect(helper.state.state).toBe('ended');
    },
  );
});

describe('a listener', () => {
  it.each(processCells('client'))(
    'with a client that is %s, and %s, over the %s, is closed within %d ms',
    async (state, fate, lane, deadlineMs) => {
      const listener = await listen({ lane });
      const sessions = listener[Symbol.asyncIterator]();
      const settings = JSON.stringify({ path: listener.path, lane });
      await using client = startProgram('closing.mjs', [settings]);
      const { value: session } = await sessions.next();
      listener.serve(Victim, victimHandlers);
      await enter(session as Session, state);
      await processFates[fate]?.(client.pid);
      await listener.close({ deadlineMs });
      await session?.closed;
      await listener.closed;
      expect(listener.sessionCount).toBe(0);
    },
  );
});

describe.each(['ring', 'socket'] as const)('a listener over the %s', (lane) => {
  it('is closed while clients are in their hello', async () => {
    const listener = await listen({ lane });
    const silent = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const { createConnection } = await import('node:net');
        const socket = createConnection({ path: listener.path });
        await once(socket, 'connect');
        if (at % 2 === 0) socket.write('sca');
        socket.on('error', () => undefined).resume();
        return socket;
      }),
    );
    await turns(5);
    await listener.close({ deadlineMs: 0 });
    await until(() => silent.every(({ closed }) => closed));
  });
});
