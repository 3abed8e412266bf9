// SPDX-License-Identifier: MIT
// The memory of a flight recorder, read. Another process has written it, perhaps a hostile one: it
// is a copy, each field is checked, and what cannot be is left out and named as a fault.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../base/errors.ts';
import { printable } from '../base/printable.ts';
import { FrameType } from './frame-header.ts';
import { frameTypeName } from './frame-text.ts';
import { callKindNames, namesOf } from './number-names.ts';
import {
  endTextMaxBytes,
  FrameRecord,
  Head,
  nameMaxBytes,
  namesBegin,
  RecordEvent,
  RunningEntry,
  recorderBytes,
  recorderMagic,
  ticksPerMs,
} from './recorder-layout.ts';

/** A handler that ran when the memory was copied. */
export interface RunningHandler {
  /** `session.id` in the process that was recorded. */
  readonly session: number;
  /** Slot and generation of the call, as frames name it: `3.1`. */
  readonly id: string;
  /** Wire name of the method; undefined: it could not be read. */
  readonly method: string | undefined;
  /** A kind of call, such as `unary`, where it is a known one. */
  readonly kind: string;
  /** Milliseconds from its call to the end of the process, or to the copy. */
  readonly runningMs: number;
}

/** A frame, or the begin or end of a session. */
export interface RecordedEvent {
  /** 1, 2, 3 … for the life of the process. */
  readonly sequence: number;
  /** A frame that came or went, or a session that began or ended. */
  readonly event: keyof typeof RecordEvent;
  /** `session.id` in the process that was recorded. */
  readonly session: number;
  /**
   * Milliseconds before the end of the process, or before the copy. The process looks at the clock
   * once in each turn of its event loop: all events of a turn have one time.
   */
  readonly beforeMs: number;
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Type of the frame: `open`, `message`, `credit` …; undefined: it is no frame. */
  readonly type: string | undefined;
  /** The type as a number, its flags, and the 16 bits behind them: see `docs/protocol.md`. */
  readonly header: readonly [type: number, flags: number, detail: number];
  /** Slot of the call; of a `sessionBegan` the pid of the peer. */
  readonly slot: number;
  /** Number of the use of this slot, from 1 on; 0: the frame belongs to no call. */
  readonly generation: number;
  /** Wire name of the method, where the frame tells it. */
  readonly method: string | undefined;
  /** Bytes behind the header. */
  readonly payloadBytes: number;
  /** Of a `credit` the bytes that it grants, of a `clock` its time. */
  readonly value: number | undefined;
}

/** A copy of a flight recorder. */
export interface Recording {
  /** The process, as it says. */
  readonly pid: number;
  /** Milliseconds since 1970 when its end was seen, or when a process that runs was copied. */
  readonly copiedAtMs: number;
  /** Its end: `helper 123 ended with signal SIGKILL`; empty: it ran when it was copied. */
  readonly endText: string;
  /** Handlers that ran, the oldest first; 512 at most. */
  readonly running: readonly RunningHandler[];
  /** All handlers that ran. */
  readonly runningCount: number;
  /** The oldest first; 4,096 at most. Empty without `recorder: 'frames'`. */
  readonly events: readonly RecordedEvent[];
  /** Parts that no correct process leaves, in words; 64 at most. */
  readonly faults: readonly string[];
}

/** True: the bytes begin as the memory of a recorder does. */
export function isRecording(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(0, recorderMagic.length)).toString('latin1') === recorderMagic;
}

/**
 * Reads a copy.
 * @throws {SidecallError} `ERR_SIDECALL_RING_CORRUPT` where it is no memory of a recorder.
 */
export function readRecording(bytes: Uint8Array): Recording {
  if (!isRecording(bytes) || bytes.length !== recorderBytes) {
    const text = `the memory of a flight recorder has ${recorderBytes} bytes and begins with ${recorderMagic}; this has ${bytes.length}`;
    throw new SidecallError('ERR_SIDECALL_RING_CORRUPT', text);
  }
  return new RecordingReader(bytes).read();
}

/** The latest date of JavaScript, in milliseconds since 1970. */
const dateMaxMs = 8.64e15;
/** Faults that are named: a memory of noise has thousands. */
const faultsMax = 64;
const eventNames = namesOf(RecordEvent);

/** An event whose time is not known yet. */
type TickedEvent = Omit<RecordedEvent, 'beforeMs' | 'atMs'> & { readonly ticks: number };

class RecordingReader {
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  readonly #names: string[];
  readonly #faults: string[] = [];
  /** The end on the clock of the records. */
  readonly #end: number;
  /** The end in milliseconds since 1970, by the clock of the parent. */
  readonly #copiedAt: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const origin = this.#instant(Head.monotonicOriginMs, 'the origin of its clock');
    const epochOrigin = this.#instant(Head.epochOriginMs, 'the origin of its wall clock');
    const copiedAt = this.#instant(Head.copiedAtMs, 'the time of the copy');
    this.#copiedAt = this.#instant(Head.copiedAtEpochMs, 'the wall time of the copy');
    const isShared = origin !== 0 && copiedAt !== 0;
    this.#end = isShared ? copiedAt - origin : this.#copiedAt - epochOrigin;
    this.#names = this.#readNames();
  }

  read(): Recording {
    const endText = this.#endText();
    const running = this.#running();
    const events = this.#events();
    return {
      pid: this.#u32(Head.pid),
      copiedAtMs: this.#copiedAt,
      endText,
      running,
      runningCount: running.length + this.#u32(Head.unlisted),
      events,
      faults: this.#faults,
    };
  }

  #running(): RunningHandler[] {
    const running: RunningHandler[] = [];
    for (let entry = 0; entry < RunningEntry.count; entry += 1) {
      const at = RunningEntry.begin + entry * RunningEntry.words * 4;
      const session = this.#u32(at);
      if (session === 0) continue;
      const since = this.#instant(at + RunningEntry.since * 4, `entry ${entry}: its time`);
      const kind = this.#u32(at + RunningEntry.kind * 4);
      running.push({
        session,
        id: `${this.#u32(at + RunningEntry.slot * 4)}.${this.#u32(at + RunningEntry.generation * 4)}`,
        method: this.#nameAt(at + RunningEntry.name * 4, `entry ${entry}`),
        kind: callKindNames.get(kind) ?? this.#unknown(`entry ${entry}: kind ${kind}`),
        runningMs: this.#before(since),
      });
    }
    return running.sort((a, b) => b.runningMs - a.runningMs);
  }

  #events(): RecordedEvent[] {
    const events: TickedEvent[] = [];
    for (let record = 0; record < FrameRecord.count; record += 1) {
      const at = FrameRecord.begin + record * FrameRecord.words * 4;
      const sequence = this.#u32(at);
      if (sequence === 0) continue;
      const word = this.#u32(at + FrameRecord.event * 4);
      const event = eventNames.get(word & 0xff);
      if (event === undefined) {
        this.#fault(`record ${sequence}: event ${word & 0xff} is unknown`);
        continue;
      }
      events.push(this.#event(at, sequence, event, word >>> 8));
    }
    // Behind 4,294,967,295 comes 1: the numbers are compared as distances.
    events.sort((a, b) => (a.sequence - b.sequence) | 0);
    this.#checkOrder(events);
    return this.#dated(events);
  }

  /** Ticks go round once in three days: from the last event on backwards, distances are added. */
  #dated(events: readonly TickedEvent[]): RecordedEvent[] {
    const lastAt = this.#instant(Head.lastAtMs, 'the time of its last record');
    let last = events.at(-1)?.ticks ?? 0;
    // The last record may be missing in the copy of a process that runs, or be younger.
    const missingMs = ((lastAt * ticksPerMs - last) | 0) / ticksPerMs;
    let beforeMs = Math.max(this.#before(lastAt) + missingMs, 0);
    const dated: RecordedEvent[] = [];
    for (const { ticks, ...event } of events.toReversed()) {
      beforeMs += ((last - ticks) >>> 0) / ticksPerMs;
      last = ticks;
      dated.push({ ...event, beforeMs, atMs: this.#copiedAt - beforeMs });
    }
    return dated.reverse();
  }

  #event(
    at: number,
    sequence: number,
    event: keyof typeof RecordEvent,
    session: number,
  ): TickedEvent {
    const isFrame = event === 'sent' || event === 'received';
    const header = at + FrameRecord.header * 4;
    const type = this.#bytes[header] as number;
    if (isFrame && !(type >= FrameType.method && type <= FrameType.clock)) {
      this.#fault(`record ${sequence}: frames have no type ${type}`);
    }
    const bytes = this.#u32(at + FrameRecord.bytes * 4);
    const hasValue = type === FrameType.credit || type === FrameType.clock;
    return {
      sequence,
      event,
      session,
      ticks: this.#u32(at + FrameRecord.ticks * 4),
      type: isFrame ? frameTypeName(type) : undefined,
      header: [type, this.#bytes[header + 1] as number, this.#view.getUint16(header + 2, true)],
      slot: this.#u32(header + 4),
      generation: this.#u32(header + 8),
      method: this.#nameAt(at + FrameRecord.name * 4, `record ${sequence}`),
      payloadBytes: hasValue ? 0 : bytes,
      value: hasValue ? bytes : undefined,
    };
  }

  #checkOrder(events: readonly TickedEvent[]): void {
    for (const [index, { sequence }] of events.entries()) {
      const before = events[index - 1]?.sequence;
      if (before === sequence) this.#fault(`record ${sequence}: written twice`);
    }
  }

  #readNames(): string[] {
    const names: string[] = [];
    for (let at = namesBegin; at + 2 <= recorderBytes; ) {
      const length = this.#view.getUint16(at, true);
      if (length === 0) return names;
      if (length > nameMaxBytes || at + 2 + length > recorderBytes) {
        this.#fault(`name ${names.length + 1}: ${length} bytes`);
        return names;
      }
      names.push(printable(Buffer.from(this.#bytes.subarray(at + 2, at + 2 + length)).toString()));
      at += 2 + length;
    }
    return names;
  }

  #nameAt(at: number, where: string): string | undefined {
    const number = this.#u32(at);
    if (number === 0 || number === 0xffff_ffff) return undefined;
    const name = this.#names[number - 1];
    if (name === undefined) this.#fault(`${where}: there is no name ${number}`);
    return name;
  }

  #endText(): string {
    const length = this.#u32(Head.endText);
    if (length > endTextMaxBytes) return this.#unknown(`the text of its end has ${length} bytes`);
    const begin = Head.endText + 4;
    return printable(Buffer.from(this.#bytes.subarray(begin, begin + length)).toString());
  }

  /** Milliseconds from an instant to the end: the end was seen a moment later. */
  #before(time: number): number {
    return Math.max(this.#end - time, 0);
  }

  #unknown(fault: string): string {
    this.#fault(fault);
    return 'unknown';
  }

  #fault(text: string): void {
    if (this.#faults.length < faultsMax) this.#faults.push(text);
  }

  #u32(at: number): number {
    return this.#view.getUint32(at, true);
  }

  /** An instant in milliseconds that a date can have. */
  #instant(at: number, what: string): number {
    const value = this.#view.getFloat64(at, true);
    if (Math.abs(value) <= dateMaxMs) return value;
    this.#fault(`${what} is ${value}`);
    return 0;
  }
}

const shownMax = 5;

/**
 * The handlers that ran, and the age of the last frame: `2 calls running: Index.add for 3.2 s,
 * Index.scan for 18 ms; last frame 4 ms before the end`.
 */
export function doingText({ running, runningCount, events }: Recording): string {
  const shown = running
    .slice(0, shownMax)
    .map(
      ({ method, runningMs }) => `${method ?? 'an unnamed method'} for ${durationText(runningMs)}`,
    );
  const more = runningCount - shown.length;
  if (more > 0 && shown.length > 0) shown.push(`and ${more} more`);
  const calls = runningCount === 1 ? '1 call running' : `${runningCount} calls running`;
  const doing = runningCount === 0 ? 'no call was running' : [calls, shown.join(', ')].join(': ');
  const last = events.findLast(({ type }) => type !== undefined);
  if (last === undefined) return doing;
  return `${doing}; last frame ${durationText(last.beforeMs)} before the end`;
}

/** Milliseconds, with the unit that suits them. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}
