// The acts of simulated programs, as data.
import type { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';

/** One thing that a program does at one end of a connection. */
export interface Act {
  readonly kind: ActKind;
  /** The end that acts: ends 0 and 1 are those of the first connection. */
  readonly end: number;
  readonly atMs: number;
  /** Bytes of each message. */
  readonly length: number;
  /** Messages, or calls at once. */
  readonly count: number;
  /** Milliseconds that the handler works, or that the reader waits between two messages. */
  readonly pauseMs: number;
  /** Milliseconds after which the caller gives up, in the manner below; 0: it does not. */
  readonly giveUpMs: number;
  readonly giveUpBy: 'timeout' | 'abort';
  /** As of the options of a call; 0: the default. */
  readonly windowBytes: number;
}

/** Acts by what they use. */
export const actKinds = {
  calls: ['get', 'gets', 'put', 'puts', 'fail', 'wait', 'headers', 'unserved', 'ping', 'liveness'],
  nested: ['relay', 'mutual'],
  notes: ['note', 'notes', 'noteBack', 'untyped'],
  streams: ['download', 'downloadLeft', 'unread', 'upload', 'uploadLeft', 'echo', 'echoLeft'],
  channels: ['channel', 'channelLeft', 'channelEndedLeft', 'channelSubscribed', 'refusedChannel'],
  byteStreams: ['duplex', 'duplexLeft'],
  leases: ['lease', 'leases', 'leasesBeside', 'leaseKept', 'leaseFreed'],
  retries: ['job', 'jobs', 'once', 'onces'],
  /** A session is closed. */
  closes: ['close', 'closeSoon'],
  deaths: ['closeAtDeath', 'floodAndDie'],
  abandoned: ['getsLeft'],
} as const;

export type ActKind = (typeof actKinds)[keyof typeof actKinds][number];

const lengths = [0, 1, 100, 1_000, 4_090, 8_200, 16_384, 16_385, 40_000, 65_536, 65_537, 150_000];
const shortLengths = lengths.slice(0, 4);
const windows = [0, 0, 0, 1, 20_000];

/** Draws acts of these kinds within `withinMs`. */
export function drawActs(
  random: SeededRandom,
  kinds: readonly ActKind[],
  settings: { readonly count: number; readonly ends: number; readonly withinMs: number },
): Act[] {
  return Array.from({ length: settings.count }, (): Act => {
    const isShort = random.chance(60);
    return {
      kind: random.pick(kinds),
      end: random.below(settings.ends),
      atMs: random.chance(30) ? 0 : Math.round(random.fraction() * settings.withinMs * 10) / 10,
      length: random.pick(isShort ? shortLengths : lengths),
      count: random.chance(80) ? random.below(8) : random.below(30),
      pauseMs: random.chance(60) ? 0 : random.below(20),
      giveUpMs: random.chance(75) ? 0 : 1 + random.below(30),
      giveUpBy: random.chance(50) ? 'timeout' : 'abort',
      windowBytes: random.pick(windows),
    };
  });
}
