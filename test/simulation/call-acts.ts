// Acts of simulated programs: calls with one answer, notifications, leases, closes.
import { RpcError } from '../../src/base/errors.ts';
import type { Metadata } from '../../src/base/metadata.ts';
import type { Act } from './act.ts';
import { allOf, messageOf, same, sameMessage, wanted } from './contract.ts';
import type { SimulatedProgram } from './program.ts';

type Do = (program: SimulatedProgram, act: Act) => Promise<void>;

const get: Do = (program, act) =>
  program.ended('get', act, async (id, options) =>
    sameMessage(await program.client.get(wanted(id, act), options), id, act.length),
  );

const put: Do = (program, act) =>
  program.ended('put', act, async (id, options) => {
    const sent = messageOf(id, 0, act.length);
    const counted = await program.client.put(sent, options);
    same(counted, { id, messages: 1, bytes: sent.byteLength });
  });

const job: Do = (program, act) =>
  program.ended(
    'job',
    act,
    async (id, options) =>
      sameMessage(await program.retrying.job(wanted(id, act), options), id, act.length),
    true,
  );

const once: Do = (program, act) =>
  program.ended('once', act, async (id, options) =>
    sameMessage(await program.retrying.get(wanted(id, act), options), id, act.length),
  );

const note: Do = async (program, act) => {
  const id = program.nextId();
  const message = messageOf(id, 0, act.length);
  await program.client.note(message, { timeoutMs: 'none' });
  message.fill(0xee); // it was admitted: its memory is ours again
  if (program.isAlive) program.ledger.onAdmitted(program.peer.name, id);
};

function many(one: Do): Do {
  return (program, act) => allOf(Array.from({ length: act.count }, () => one(program, act)));
}

function lease(isKept: boolean): Do {
  return (program, act) =>
    program.ended('lease', act, async (id, options) => {
      const message = messageOf(id, 0, act.length);
      const block = program.session.allocate(message.byteLength);
      block.bytes.set(message);
      const answer = await program.client.lease(block, options);
      if (isKept) await program.pause(act.pauseMs);
      sameMessage(answer.bytes as unknown as Uint8Array, id, act.length);
      answer.release();
    });
}

const longBytes = 250_000;
const abandonedCount = 12;

export const callActs = {
  get,
  gets: many(get),
  /** More answers than a window holds, given up one after another while they are on their way. */
  getsLeft: (program, act) =>
    allOf(
      Array.from({ length: abandonedCount + act.count }, (_, at) =>
        get(program, { ...act, length: 150_000, giveUpMs: act.giveUpMs + at + 1 }),
      ),
    ),
  put,
  /** Long requests with short ones between them. */
  puts: (program, act) =>
    allOf(
      Array.from({ length: act.count }, (_, at) =>
        put(program, at % 2 === 0 ? { ...act, length: longBytes } : act),
      ),
    ),
  fail: (program, act) =>
    program.ended('fail', act, async (id, options) => {
      const error = await program.client.fail(wanted(id, act), options).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (!RpcError.is(error) || error.status !== 'not_found') throw error;
      same(error.details, { id });
    }),
  headers: (program, act) =>
    program.ended('headers', act, async (id, options) => {
      const told: Metadata[] = [];
      const answer = await program.client.headers(wanted(id, act), {
        ...options,
        metadata: { mark: `${id}` },
        onHeaders: (metadata) => told.push(metadata),
        onTrailers: (metadata) => told.push(metadata),
      });
      sameMessage(answer, id, act.length);
      same(told, [{ first: `${id}` }, { last: `${id}` }]);
    }),
  wait: (program, act) =>
    program.ended('wait', { ...act, giveUpMs: act.giveUpMs || 5 }, (id, options) =>
      program.client.wait(wanted(id, act), options),
    ),
  unserved: async ({ session }) => {
    const error = await session.call('Program.absent').catch((reason: unknown) => reason);
    if (!RpcError.is(error) || error.status !== 'unimplemented') throw error;
  },
  ping: async ({ session }) => {
    await session.ping();
  },
  liveness: async ({ session }) => {
    await session.liveness();
  },
  relay: (program, act) =>
    program.ended('relay', act, async (id, options) =>
      sameMessage(await program.client.relay(wanted(id, act), options), id, act.length),
    ),
  mutual: async (program, act) => {
    const { peer } = program;
    if (!peer.isAlive) return get(program, act);
    const peerDied = new Promise<void>((resolve) => peer.process.whenDead(resolve));
    await allOf([get(program, act), Promise.race([get(peer, act), peerDied])]);
  },
  note,
  notes: many(note),
  noteBack: (program, act) =>
    program.client.noteBack(wanted(program.nextId(), act), { timeoutMs: 'none' }),
  untyped: async ({ session }, act) => {
    await session.notify('Program.absent', act.length).catch((error: unknown) => {
      if (!RpcError.is(error)) throw error;
    });
  },
  job,
  jobs: many(job),
  once,
  onces: many(once),
  lease: lease(false),
  leaseKept: lease(true),
  leases: many(lease(false)),
  /** Leases that are given up while long answers, or requests before them, fill the lane. */
  leasesBeside: (program, act) =>
    allOf([
      ...Array.from({ length: 8 }, () => get(program, { ...act, length: 60_000, giveUpMs: 0 })),
      ...Array.from({ length: act.count * 8 }, () =>
        put(program, { ...act, length: 16_000, giveUpMs: 0 }),
      ),
      ...Array.from({ length: 8 }, () => lease(false)(program, { ...act, giveUpMs: 3 })),
    ]),
  leaseFreed: async (program, act) => {
    const block = program.session.allocate(act.length + 8);
    await program.pause(act.pauseMs);
    block.free();
  },
  close: async ({ session }) => {
    await session.close({ deadlineMs: 600_000 });
  },
  /** Closes when it learns that its peer is dead. */
  closeAtDeath: async (program, act) => {
    const { peer, process, session } = program;
    const closed = new Promise<void>((resolve) => {
      peer.process.whenDead(() => {
        process.setTimeout(() => void session.close().then(resolve), act.pauseMs / 10);
      });
    });
    await Promise.race([closed, program.pause(2_000)]);
  },
  /** Sends more than its peer hands out in some turns, and dies; its peer closes meanwhile. */
  floodAndDie: async (program, act) => {
    const { peer, process } = program;
    const notes = many(note)(program, { ...act, length: 0, count: 1_000 });
    peer.process.setTimeout(() => void peer.session.close({ deadlineMs: 0 }), act.giveUpMs / 10);
    process.setTimeout(() => process.kill(), act.count / 100);
    await notes;
  },
  closeSoon: async ({ session }, act) => {
    await session.close({ deadlineMs: act.giveUpMs });
  },
} satisfies Record<string, Do>;
