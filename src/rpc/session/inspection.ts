// SPDX-License-Identifier: MIT
// The inside of a session at one moment, for people who look for the reason why it stands still.
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { writeNew } from '../../base/new-file.ts';
import type { Peer } from '../../base/peer.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import { CallKind, type CallKindName } from '../../wire/frame-header.ts';
import { callKindNames } from '../../wire/number-names.ts';
import { type RingCopies, type RingReport, reportRing, wholeCopy } from '../../wire/ring-report.ts';
import type { HeldLease, Lane } from '../../wire/transport.ts';
import type { IncomingState, OutgoingState } from '../call-states.ts';
import type { Caller } from '../calling/caller.ts';
import type { OutgoingCall } from '../calling/outgoing-call.ts';
import { neverBegun } from '../counting/moments.ts';
import type { SessionShared, SessionState } from '../sending/session-shared.ts';
import type { Callee } from '../serving/callee.ts';
import type { StreamReader } from '../streams/stream-reader.ts';
import type { StreamWriter } from '../streams/stream-writer.ts';
import type { SessionStats } from './session-stats.ts';

/** A call or stream that has not ended. */
export interface InspectedStream {
  /** Slot and generation, as frames name it: `3.1`. undefined: it waits, and has none yet. */
  readonly id: string | undefined;
  /** The side that has called; of a channel, the one that has opened it. */
  readonly openedBy: 'us' | 'peer';
  /** Wire name of the method, or the name of the channel. */
  readonly method: string;
  readonly kind: CallKindName;
  /**
   * Of a call of ours: `waiting` until it is sent, `open`, or `given-up` where it waits for the
   * peer's last frame. Of a call of the peer's: `waiting` until its handler is called, then
   * `open`; `answered`, `cancelled` or `failed` where it is over and its handler still runs.
   */
  readonly state: OutgoingState | IncomingState;
  /**
   * Of a call of ours, why the first one of its queue was not sent. Of a call of the peer's, why
   * its handler was not called, or its answer not sent. undefined: nothing of Sidecall's on this
   * side holds it back.
   */
  readonly waitsFor: WaitReason | undefined;
  /**
   * Milliseconds since it was sent or began to wait, or had arrived; undefined: unknown, as of a
   * notification that did not wait.
   */
  readonly ageMs: number | undefined;
  /** Milliseconds until its deadline, below 0 where that has passed; undefined: it has none. */
  readonly deadlineInMs: number | undefined;
  /** Of what we send on it; undefined: we send no stream of messages. */
  readonly sending: InspectedWriter | undefined;
  /** Bytes that have arrived and were not taken; undefined: no stream of messages arrives. */
  readonly untakenBytes: number | undefined;
}

/** The half of a stream that sends. */
export interface InspectedWriter {
  /** Bytes that we may send before the peer grants more; below 0: the last message was longer. */
  readonly creditBytes: number;
  /** Messages that wait to be admitted, or to leave. */
  readonly waiting: number;
  /** Bytes that wait to be admitted. */
  readonly waitingBytes: number;
  /** Why the first of them waits; undefined: none waits. */
  readonly waitsFor: WaitReason | undefined;
}

/** The result of `session.inspect()`. It has no payload unless that is asked for. */
export interface SessionInspection {
  /** As `session.id`: 1, 2, 3 … for the life of the thread. */
  readonly id: number;
  /** As `session.state`. */
  readonly state: SessionState;
  /** The lane that carries the messages: `ring` or `socket`. */
  readonly lane: Lane;
  /** The reason for this lane, in words. */
  readonly laneReason: string;
  /** The process at the other end, as the kernel says. */
  readonly peer: Peer;
  /** The numbers of the session at this moment. */
  readonly stats: SessionStats;
  /**
   * Calls and streams of both sides that have not ended. Calls of ours that wait to begin come
   * last, at most 1,000 of them; `stats.calls.waiting` counts all that wait to begin.
   */
  readonly streams: readonly InspectedStream[];
  /** Leases in the peer's memory that were not released. */
  readonly leases: readonly HeldLease[];
  /**
   * Cursors, sleep and unread records of both directions, and states that no correct process
   * leaves. undefined: another lane, or the session is over.
   */
  readonly ring: RingInspection | undefined;
}

/** A ring at one moment. */
export interface RingInspection extends RingReport {
  /**
   * Saves the copies that the report was made from to a new file of mode 0600, which
   * `npx sidecall inspect FILE` reads. NOTE: they contain the unread messages, and of those that
   * were read nothing.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_SYSTEM` where the file exists or cannot be
   * made; `TypeError` where `unreadMaxBytes` has left out a part of what is unread.
   */
  save(file: string): Promise<void>;
}

/** Calls that wait to begin, of which there may be any number. */
const waitingCallsMax = 1_000;

/** The parts of a session that are looked into. */
interface Inside {
  readonly shared: SessionShared;
  readonly caller: Caller;
  readonly callee: Callee;
}

/** The session as its program sees it. */
type Face = Pick<SessionInspection, 'id' | 'state' | 'lane' | 'laneReason' | 'peer'> & {
  stats(): SessionStats;
};

/** Options of `session.inspect()`. */
export interface InspectOptions {
  /**
   * Unread bytes of a ring that are looked at, in each direction, from the first one on. Default:
   * all of them; 0 to 64 MiB.
   */
  readonly unreadMaxBytes?: number | undefined;
  /**
   * Bytes of the payload of each unread record of a ring that the report has, in base64. Default 0:
   * it has no payload; 0 to 65,536.
   */
  readonly payloadMaxBytes?: number | undefined;
}

/**
 * The inside of a session at this moment.
 * @throws {TypeError | RangeError} for misuse of the options.
 */
export function inspected(
  face: Face,
  { shared, caller, callee }: Inside,
  options: InspectOptions = {},
): SessionInspection {
  checkKeys('inspect()', options, ['unreadMaxBytes', 'payloadMaxBytes']);
  const range = ranges.unreadMaxBytes;
  const unreadMaxBytes = checkInteger('unreadMaxBytes', options.unreadMaxBytes, range);
  const { payloadMaxBytes: most } = options;
  const payloadMaxBytes = checkInteger('payloadMaxBytes', most, ranges.payloadMaxBytes);
  const { id, state, lane, laneReason, peer } = face;
  const { transport, clock } = shared;
  const { memory, leases = [] } = transport.inspect?.(unreadMaxBytes) ?? {};
  shared.moments.settle();
  const now = clock.nowMs();
  const ourStream = (call: OutgoingCall): InspectedStream => {
    const { method, kind } = call;
    return inspectedStream('us', call, { method, kind, deadline: call.deadline }, now);
  };
  const ours = caller.openCalls.map(ourStream);
  const waiting = caller.waitingCalls(waitingCallsMax).map(ourStream);
  const theirs = callee.openCalls.map((call) => inspectedStream('peer', call, call.opening, now));
  return {
    id,
    state,
    lane,
    laneReason,
    peer,
    stats: face.stats(),
    streams: [...ours, ...theirs, ...waiting],
    leases,
    ring: memory && ringInspection(memory, payloadMaxBytes),
  };
}

interface Halves {
  /** -1: none. */
  readonly slot: number;
  readonly generation: number;
  readonly state: OutgoingState | IncomingState;
  /** The place where it waits. */
  readonly place: { readonly waitReason: WaitReason } | undefined;
  /** The instant at which it began. */
  readonly begun: number;
  readonly reader: StreamReader | undefined;
  readonly writer: StreamWriter | undefined;
}

interface Named {
  readonly method: string;
  readonly kind: number;
  readonly deadline: number | undefined;
}

function inspectedStream(
  openedBy: 'us' | 'peer',
  { slot, generation, state, place, begun, reader, writer }: Halves,
  { method, kind, deadline }: Named,
  now: number,
): InspectedStream {
  // A channel has no handler that could be called.
  const isChannel = slot >= 0 && kind >= CallKind.channel;
  const isAccepted = isChannel && state === 'waiting' && place === undefined;
  return {
    id: slot < 0 ? undefined : `${slot}.${generation}`,
    openedBy,
    method,
    kind: callKindNames.get(kind) as CallKindName,
    state: isAccepted ? 'open' : state,
    waitsFor: place?.waitReason,
    ageMs: begun === neverBegun ? undefined : now - begun,
    deadlineInMs: deadline === undefined ? undefined : deadline - now,
    sending: writer && {
      creditBytes: writer.creditBytes,
      waiting: writer.waiting,
      waitingBytes: writer.waitingBytes,
      waitsFor: writer.waiting > 0 ? writer.waitReason : undefined,
    },
    untakenBytes: reader?.queuedBytes,
  };
}

function ringInspection(memory: RingCopies, payloadMaxBytes: number): RingInspection {
  const report = reportRing(memory, payloadMaxBytes);
  const isCut = [report.sent, report.received].some((each) => (each?.unseenBytes ?? 0) > 0);
  return { ...report, save: (file) => (isCut ? refuseCut() : saveRing(memory, file)) };
}

/** A file with a part of what is unread would look as if the ring had a fault. */
async function refuseCut(): Promise<never> {
  const text =
    'inspect() looked at a part of what is unread: call it without unreadMaxBytes to save';
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

async function saveRing({ mine, peer = noBytes }: RingCopies, file: string): Promise<void> {
  try {
    await writeNew(file, [wholeCopy(mine), wholeCopy(peer)]);
  } catch (cause) {
    const text = `the memory could not be saved to ${file}: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}
