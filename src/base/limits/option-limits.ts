// SPDX-License-Identifier: MIT
// Every number that users set: its unit, default and range. docs/security.md lists them too, and a
// test compares the two.
import { checkInteger, checkKeys, nodeError } from '../misuse.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

interface Range {
  readonly standard: number;
  readonly min: number;
  readonly max: number;
}

/** Limits of one session that its owner may set. */
export const sessionRanges = {
  receiveMaxBytes: { standard: 4 * MiB, min: KiB, max: GiB },
  jsonMaxBytes: { standard: MiB, min: KiB, max: GiB },
  metadataMaxBytes: { standard: 8 * KiB, min: 0, max: 64 * KiB },
  streamsMax: { standard: 4096, min: 1, max: 1_048_576 },
  streamWindowBytes: { standard: 256 * KiB, min: 16 * KiB, max: GiB },
  sessionWindowBytes: { standard: 16 * MiB, min: 16 * KiB, max: 4 * GiB },
  sendQueueMaxBytes: { standard: MiB, min: 64 * KiB, max: GiB },
} as const satisfies Record<string, Range>;

/** Durations and counts outside a session. */
export const ranges = {
  helloTimeoutMs: { standard: 10_000, min: 10, max: 60_000 },
  connectTimeoutMs: { standard: 5_000, min: 10, max: 60_000 },
  startTimeoutMs: { standard: 30_000, min: 100, max: 600_000 },
  timeoutMs: { standard: 0, min: 0, max: 2_147_483_647 },
  idleTimeoutMs: { standard: 0, min: 1, max: 2_147_483_647 },
  windowBytes: { standard: 256 * KiB, min: 1, max: GiB },
  closeDeadlineMs: { standard: 5_000, min: 0, max: 600_000 },
  monitorIntervalMs: { standard: 30_000, min: 100, max: 86_400_000 },
  stalledAfterMs: { standard: 10_000, min: 10, max: 600_000 },
  keepAliveIntervalMs: { standard: 10_000, min: 1_000, max: 3_600_000 },
  keepAliveTimeoutMs: { standard: 5_000, min: 10, max: 600_000 },
  stallTimeoutMs: { standard: 0, min: 1_000, max: 2_147_483_647 },
  livenessWaitMs: { standard: 250, min: 0, max: 600_000 },
  killGraceMs: { standard: 2_000, min: 0, max: 600_000 },
  backlog: { standard: 511, min: 1, max: 65_535 },
  hellosMax: { standard: 1_024, min: 1, max: 16_384 },
  sessionsMax: { standard: 4_096, min: 1, max: 65_536 },
  sessionsPerUidMax: { standard: 1_280, min: 1, max: 65_536 },
  sessionsPerProcessMax: { standard: 1_024, min: 1, max: 65_536 },
  ringBytes: { standard: MiB, min: 64 * KiB, max: 64 * MiB },
  /** `ringBytes` of sessions at a path (ADR 0027). */
  pathRingBytes: { standard: 256 * KiB, min: 64 * KiB, max: 64 * MiB },
  socketBufferBytes: { standard: 0, min: 4 * KiB, max: 64 * MiB },
  blockAreaBytes: { standard: 0, min: 0, max: GiB },
  blockBytes: { standard: 0, min: 0, max: GiB },
  ringMemoryMaxBytes: { standard: GiB, min: 0, max: 64 * GiB },
  pollBudgetUs: { standard: 50, min: 0, max: 1_000 },
  payloadMaxBytes: { standard: 0, min: 0, max: 65_536 },
  unreadMaxBytes: { standard: 64 * MiB, min: 0, max: 64 * MiB },
  restartFirstMs: { standard: 10, min: 1, max: 600_000 },
  restartMaxMs: { standard: 1_000, min: 1, max: 600_000 },
  maxRestarts: { standard: 5, min: 0, max: 1_000_000 },
  reconnectFirstMs: { standard: 50, min: 1, max: 600_000 },
  reconnectMaxMs: { standard: 1_000, min: 1, max: 600_000 },
  reconnectGiveUpMs: { standard: 600_000, min: 0, max: 86_400_000 },
  retryAttempts: { standard: 4, min: 2, max: 100 },
  retryFirstMs: { standard: 10, min: 1, max: 600_000 },
  retryMaxMs: { standard: 1_000, min: 1, max: 600_000 },
  retryBudget: { standard: 10, min: 1, max: 1_000_000 },
  sharedIdleTimeoutMs: { standard: 60_000, min: 100, max: 2_147_483_647 },
  poolSize: { standard: 0, min: 1, max: 1_024 },
  callsPerMember: { standard: 0, min: 1, max: 1_048_576 },
  mapConcurrency: { standard: 0, min: 1, max: 131_072 },
  recycleCalls: { standard: 0, min: 1, max: 2_147_483_647 },
  recycleAgeMs: { standard: 0, min: 1_000, max: 2_147_483_647 },
  recycleMemoryBytes: { standard: 0, min: MiB, max: 1_024 * GiB },
  restartWindowMs: { standard: 60_000, min: 100, max: 86_400_000 },
} as const satisfies Record<string, Range>;

/** Bounds of one session, announced to the peer in the hello where they concern it. */
export interface SessionLimits {
  /** Largest message accepted, in bytes. Default 4 MiB; 1 KiB to 1 GiB. */
  readonly receiveMaxBytes: number;
  /**
   * Longest JSON text that is parsed whatever it holds, in bytes, since the event loop stands still
   * meanwhile. A longer one may have an eighth as many objects, arrays and keys: a long text is
   * quick. Bytes beside the text do not count, and JSON-RPC has no such limit. A request that has
   * more is answered with `invalid_argument`, an answer or message rejects with
   * `ERR_SIDECALL_DECODE`. Default 1 MiB; 1 KiB to 1 GiB.
   */
  readonly jsonMaxBytes: number;
  /** Largest metadata of one call accepted, in bytes. Default 8 KiB; 0 to 64 KiB. */
  readonly metadataMaxBytes: number;
  /** Handlers running at once for this peer. Default 4,096; 1 to 1,048,576. */
  readonly streamsMax: number;
  /** Bytes of one stream that may wait for the application. Default 256 KiB; 16 KiB to 1 GiB. */
  readonly streamWindowBytes: number;
  /**
   * Bytes that may wait at this end, for requests, for answers and for streams each. Default 16
   * MiB, or 2 × (stream window + message limit) where that is more, which is also the least; at
   * most 4 GiB.
   */
  readonly sessionWindowBytes: number;
  /**
   * Bytes of ours that may wait for the transport before calls wait; small messages and those
   * longer than 64 KiB count apart. Default 1 MiB; 64 KiB to 1 GiB.
   */
  readonly sendQueueMaxBytes: number;
}

/** Checks, completes and freezes the limits of a session; never changes what the caller passed. */
export function checkLimits(limits: Partial<SessionLimits> | undefined): SessionLimits {
  const given: { readonly [Name in keyof SessionLimits]?: number | undefined } =
    limits === undefined ? {} : limits;
  checkKeys('limits', given, Object.keys(sessionRanges) as (keyof SessionLimits)[]);
  const checked = { ...givenOrStandard(given) };
  const least = minSessionWindow(checked);
  if (given.sessionWindowBytes === undefined) {
    checked.sessionWindowBytes = Math.max(checked.sessionWindowBytes, least);
  }
  if (checked.sessionWindowBytes < least) {
    const text = `sessionWindowBytes must be at least ${least}, which is twice streamWindowBytes + receiveMaxBytes, got ${checked.sessionWindowBytes}`;
    throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
  }
  return Object.freeze(checked);
}

/**
 * The least size of a session window, which a sender may assume before it was told.
 */
export function minSessionWindow(
  limits: Pick<SessionLimits, 'streamWindowBytes' | 'receiveMaxBytes'>,
): number {
  return 2 * (limits.streamWindowBytes + limits.receiveMaxBytes);
}

function givenOrStandard(
  given: {
    readonly [Name in keyof SessionLimits]?: number | undefined;
  },
): { -readonly [Name in keyof SessionLimits]: number } {
  const checked = {} as { -readonly [Name in keyof SessionLimits]: number };
  for (const name of Object.keys(sessionRanges) as (keyof SessionLimits)[]) {
    checked[name] = checkInteger(`limits.${name}`, given[name], sessionRanges[name]);
  }
  return checked;
}
