// A simulated case as data: the processes, their acts and the faults. A case and its seed give the
// same run on each machine.
import type { SessionLimits } from '../../src/base/limits/option-limits.ts';
import type { Fault } from '../../src/testing/simulation/faults.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { type Act, type ActKind, actKinds, drawActs } from './act.ts';

/** A connection between two processes, by their names. */
export interface CaseConnection {
  readonly processes: readonly [string, string];
  readonly lane: 'ring' | 'socket';
  readonly limits: Partial<SessionLimits>;
  readonly blockAreaBytes: number;
  readonly pollBudgetUs: number;
  /** The programs serve this long after they were connected. */
  readonly servesAfterMs: number;
  /**
   * The second process is a helper that is started again: the points at which the first, the second
   * … are killed.
   */
  readonly lives?: readonly number[];
  /** The bytes of the second process are wrong now and then. */
  readonly isHostile: boolean;
}

/** A server of a path, behind the one before. */
export interface Generation {
  readonly atMs: number;
  /** Milliseconds until it is ready. */
  readonly readyMs: number;
  /** It takes the path over, or listens once the one before is gone. */
  readonly how: 'take-over' | 'listen';
  /** It is not healthy: it ends in place of listening. */
  readonly fails: boolean;
  /** It closes in order after this time; 0: never. */
  readonly endsAfterMs: number;
}

/** A program that asks for a shared helper. */
export interface Asker {
  readonly atMs: number;
  /** Times that it asks, calls once, and leaves. */
  readonly rounds: number;
  readonly pauseMs: number;
  readonly version: string;
}

export interface Case {
  readonly workload: WorkloadName;
  readonly seed: number;
  readonly connections: readonly CaseConnection[];
  readonly acts: readonly Act[];
  readonly faults: readonly Fault[];
  /** Of a path at which processes follow each other, in place of connections. */
  readonly generations?: readonly Generation[];
  /** Milliseconds that a server of a path gives its calls when it ends. Default 5,000. */
  readonly deadlineMs?: number;
  /** Of programs that share one helper. `lives`: the points at which helpers are killed. */
  readonly election?: {
    readonly askers: readonly Asker[];
    readonly lives: readonly number[];
    readonly idleTimeoutMs: number;
  };
}

interface Workload {
  readonly about: string;
  readonly kinds: readonly ActKind[];
  readonly acts: number;
  /** Faults that lose nothing: delays and shortages. */
  readonly delays: number;
  /** Faults that end a session. */
  readonly losses: number;
  readonly isHostile?: boolean;
  /** The helper is supervised, and killed. */
  readonly isSupervised?: boolean;
  /** Servers follow each other at a path. */
  readonly how?: Generation['how'];
  /** Programs ask for one shared helper. */
  readonly isElection?: boolean;
}

const { calls, nested, notes, streams, channels, byteStreams, leases, retries } = actKinds;
const { closes, deaths, abandoned } = actKinds;
const ofStreams = [...streams, ...channels, ...byteStreams];
const allKinds = [...calls, ...nested, ...notes, ...ofStreams, ...leases, ...retries];

/** The workloads, by their names. */
export const workloads = {
  calls: {
    about:
      'calls with one answer and notifications, nested and mutual ones too; given up, too late',
    kinds: [...calls, ...nested, ...notes],
    acts: 24,
    delays: 1,
    losses: 0,
  },
  streams: {
    about: 'streams in each direction, read slowly, and left',
    kinds: [...streams, ...calls],
    acts: 14,
    delays: 1,
    losses: 0,
  },
  channels: {
    about: 'channels and byte streams, read slowly, and left',
    kinds: [...channels, ...byteStreams, ...notes],
    acts: 12,
    delays: 1,
    losses: 0,
  },
  leases: {
    about: 'messages in leased memory, with none left now and then',
    kinds: [...leases, ...leases, 'gets', 'puts', 'download'],
    acts: 16,
    delays: 2,
    losses: 0,
  },
  abandoned: {
    about: 'calls and streams are given up, many at once, while their messages are on their way',
    kinds: [
      ...abandoned,
      ...abandoned,
      ...retries,
      'put',
      'uploadLeft',
      'downloadLeft',
      'echoLeft',
    ],
    acts: 12,
    delays: 2,
    losses: 0,
  },
  closes: {
    about: 'sessions are closed by either side, or by both, in the middle of everything',
    kinds: [...allKinds, ...closes, ...closes, ...closes],
    acts: 16,
    delays: 1,
    losses: 0,
  },
  shortages: {
    about: 'processes are stopped, blocked, short of memory; the machine sleeps',
    kinds: allKinds,
    acts: 14,
    delays: 5,
    losses: 0,
  },
  crashes: {
    about: 'a process is killed, at any record, or a connection is lost',
    kinds: [...allKinds, 'close', ...deaths, ...deaths, 'notes', 'notes'],
    acts: 16,
    delays: 1,
    losses: 1,
  },
  restarts: {
    about: 'a supervised helper is killed, at any record, and calls may be repeated',
    kinds: [...retries, ...retries, 'get', 'gets', 'put', 'download', 'upload', 'echo', 'notes'],
    acts: 16,
    delays: 1,
    losses: 0,
    isSupervised: true,
  },
  reconnects: {
    about: 'servers of a path end or are killed, and clients connect again',
    kinds: [...retries, ...retries, 'get', 'gets', 'put'],
    acts: 24,
    delays: 2,
    losses: 2,
    how: 'listen',
  },
  handovers: {
    about: 'servers of a path hand it over, or are killed midway, and clients move',
    kinds: [...retries, ...retries, 'get', 'gets', 'put'],
    acts: 24,
    delays: 2,
    losses: 1,
    how: 'take-over',
  },
  elections: {
    about: 'many programs ask for one shared helper at once; some, and helpers, are killed',
    kinds: [],
    acts: 0,
    delays: 2,
    losses: 2,
    isElection: true,
  },
  hostile: {
    about:
      'one process writes wrong bytes; its peer must end with it in order, and serve others on',
    kinds: [...calls, ...notes, ...ofStreams, ...leases],
    acts: 16,
    delays: 0,
    losses: 0,
    isHostile: true,
  },
} as const satisfies Record<string, Workload>;

export type WorkloadName = keyof typeof workloads;

const narrow = {
  receiveMaxBytes: 262_144,
  streamWindowBytes: 16_384,
  sessionWindowBytes: 557_056,
  sendQueueMaxBytes: 65_536,
};

/** The case of a workload and a seed. */
export function caseOf(workload: WorkloadName, seed: number): Case {
  const random = new SeededRandom(seed).fork();
  const settings: Workload = workloads[workload];
  if (settings.isElection === true) return electionCaseOf(workload, seed, random, settings);
  if (settings.how !== undefined) return pathCaseOf(workload, seed, random, settings);
  const isHostile = settings.isHostile === true;
  const isSupervised = settings.isSupervised === true;
  const hasThird = !isSupervised && (isHostile || random.chance(30));
  const processes = hasThird ? ['app', 'helper', 'third'] : ['app', 'helper'];
  const few = random.chance(25);
  const limits = {
    ...random.pick([{}, narrow, narrow, { ...narrow, sessionWindowBytes: 1_200_000 }]),
    ...(few ? { streamsMax: 3 } : {}),
  };
  const connections = processes.slice(1).map(
    (name, at): CaseConnection => ({
      processes: ['app', name],
      lane: random.chance(55) ? 'ring' : 'socket',
      limits,
      blockAreaBytes: random.chance(50) ? 0 : 1_048_576,
      pollBudgetUs: random.pick([0, 50, 50, 300]),
      servesAfterMs: random.chance(70) ? 0 : random.below(8),
      isHostile: isHostile && at === 0,
      ...(isSupervised ? { lives: drawLives(random) } : {}),
    }),
  );
  const withinMs = random.pick([1, 20, 60]);
  // Handlers that call back, and unread streams, need more slots than there are calls at once.
  const kinds = settings.kinds.filter(
    (kind) => !few || !['relay', 'noteBack', 'unread'].includes(kind),
  );
  const acts = drawActs(random, kinds, {
    count: 1 + random.below(settings.acts),
    ends: isSupervised ? 1 : 2 * connections.length,
    withinMs,
  });
  const delays = Array.from({ length: random.below(settings.delays + 1) }, () =>
    drawDelay(random, isSupervised ? ['app'] : processes, withinMs),
  );
  const faults = [
    ...delays.filter((delay, at) => !isSecondNoBell(delay, delays.slice(0, at))),
    ...Array.from({ length: settings.losses }, () => drawLoss(random, processes, withinMs)),
  ];
  return { workload, seed, connections, acts, faults };
}

function pathCaseOf(
  workload: WorkloadName,
  seed: number,
  random: SeededRandom,
  { kinds, acts, delays, losses, how = 'listen' }: Workload,
): Case {
  const withinMs = random.pick([20, 200, 2_000]);
  const count = 2 + random.below(3);
  const generations = Array.from(
    { length: count },
    (_, at): Generation => ({
      atMs: at === 0 ? 0 : random.fraction() * withinMs,
      readyMs: random.pick([0, 1, 20, 300]),
      how,
      fails: how === 'take-over' && at > 0 && random.chance(15),
      endsAfterMs: how === 'listen' && at < count - 1 ? 1 + random.below(withinMs) : 0,
    }),
  );
  const servers = generations.map((_, at) => `server ${at + 1}`);
  const all = [...servers, 'client 1', 'client 2', 'client 3'];
  const hasLoss = random.chance(70);
  return {
    workload,
    seed,
    connections: [],
    acts: drawActs(random, kinds, { count: 1 + random.below(acts), ends: 3, withinMs }),
    faults: [
      ...Array.from({ length: random.below(delays + 1) }, () => drawDelay(random, all, withinMs)),
      ...Array.from({ length: hasLoss ? losses : 0 }, () => drawDeath(random, servers, withinMs)),
    ],
    generations,
    deadlineMs: random.pick([20, 500, 5_000]),
  };
}

function electionCaseOf(
  workload: WorkloadName,
  seed: number,
  random: SeededRandom,
  { delays, losses }: Workload,
): Case {
  const withinMs = random.pick([1, 50, 500]);
  const count = 2 + random.below(9);
  const isUpgrade = random.chance(30);
  const idleTimeoutMs = random.pick([100, 100, 300, 2_000]);
  const askers = Array.from({ length: count }, (): Asker => {
    // Some come back at the moment at which the helper ends.
    const pauseMs = random.chance(50) ? random.below(50) : idleTimeoutMs + random.below(120);
    return {
      atMs: random.fraction() * withinMs,
      rounds: 1 + random.below(5),
      pauseMs,
      version: isUpgrade && random.chance(50) ? '1.1.0' : '1.0.0',
    };
  });
  const programs = askers.map((_, at) => `program ${at + 1}`);
  const hasLoss = random.chance(60);
  return {
    workload,
    seed,
    connections: [],
    acts: [],
    faults: [
      ...Array.from({ length: random.below(delays + 1) }, () =>
        drawDelay(random, programs, withinMs),
      ).filter(({ kind }) => kind !== 'sleep'),
      ...Array.from({ length: hasLoss ? losses : 0 }, () => drawDeath(random, programs, withinMs)),
    ],
    election: {
      askers,
      lives: hasLoss ? Array.from({ length: 2 }, () => 1 + random.below(60)) : [],
      idleTimeoutMs,
    },
  };
}

function drawDeath(random: SeededRandom, servers: readonly string[], withinMs: number): Fault {
  const process = random.pick(servers);
  if (random.chance(60)) return { kind: 'kill-at-point', process, point: 1 + random.below(60) };
  return { kind: 'kill', process, atMs: random.fraction() * withinMs };
}

/** Fewer than the attempts of a call, and than what makes a crash loop. */
function drawLives(random: SeededRandom): number[] {
  return Array.from({ length: 1 + random.below(3) }, () => 1 + random.below(100));
}

function drawDelay(random: SeededRandom, processes: readonly string[], withinMs: number): Fault {
  const atMs = random.fraction() * withinMs;
  const process = random.pick(processes);
  const kind = random.pick(['stop', 'block', 'sleep', 'no-memory', 'no-bell', 'no-room'] as const);
  if (kind === 'sleep') return { kind, atMs, forMs: random.pick([100, 20_000, 86_400_000]) };
  // A doorbell that is owed for 100 ms ends the session.
  const forMs = kind === 'no-bell' ? random.below(80) : random.pick([1, 30, 400]);
  return { kind, process, atMs, forMs };
}

/** Two shortages of doorbells in one process may follow each other, and last too long together. */
function isSecondNoBell(delay: Fault, before: readonly Fault[]): boolean {
  if (delay.kind !== 'no-bell') return false;
  return before.some(
    ({ kind, ...of }) => kind === 'no-bell' && 'process' in of && of.process === delay.process,
  );
}

function drawLoss(random: SeededRandom, processes: readonly string[], withinMs: number): Fault {
  const process = random.pick(processes);
  const atMs = random.fraction() * withinMs;
  if (random.chance(60)) return { kind: 'kill-at-point', process, point: 1 + random.below(120) };
  if (random.chance(50)) return { kind: 'kill', process, atMs };
  const end = random.pick(['near', 'far'] as const);
  return { kind: 'socket-error', connection: random.below(processes.length - 1), end, atMs };
}
