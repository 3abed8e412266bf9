// The memory of a flight recorder: what is written is read, and noise in it is named, not believed.
import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import {
  FlightRecorder,
  type NamedMethod,
  SessionRecorder,
} from '../../src/wire/flight-recorder.ts';
import { CallKind, FrameFlag, HeaderWriter } from '../../src/wire/frame-header.ts';
import {
  FrameRecord,
  Head,
  namesBegin,
  RunningEntry,
  recorderBytes,
  recorderMagic,
  ticksPerMs,
} from '../../src/wire/recorder-layout.ts';
import { doingText, type Recording, readRecording } from '../../src/wire/recording.ts';
import { Random } from '../support/random.ts';

const header = new HeaderWriter();
const origin = { pid: 7, monotonicMs: 1_000, epochMs: 1_700_000_000_000 };
const methodOf = (method: string): NamedMethod => ({ method, nameNumber: 0 });

interface Made {
  readonly memory: Buffer;
  readonly recorder: FlightRecorder;
  readonly clock: { lastMs: number };
  /** The recorder as the session of this number uses it. */
  readonly of: (session: number) => SessionRecorder;
}

function made(): Made {
  const memory = Buffer.from(new ArrayBuffer(recorderBytes));
  memory.write(recorderMagic, 'latin1');
  const recorder = new FlightRecorder(memory, origin, true);
  const clock = { lastMs: 0 };
  return { memory, recorder, clock, of: (id) => new SessionRecorder(recorder, id, clock) };
}

/** Read as if the clock of the records were at `endMs`. */
function read(memory: Buffer, endMs = 0): Recording {
  const copy = Buffer.from(memory);
  copy.writeDoubleLE(origin.monotonicMs + endMs, Head.copiedAtMs);
  copy.writeDoubleLE(origin.epochMs + endMs, Head.copiedAtEpochMs);
  return readRecording(copy);
}

describe('a flight recorder', () => {
  it('keeps frames, sessions and names, with their times', () => {
    const { memory, clock, of } = made();
    const add = methodOf('Index.add');
    const session = of(3);
    const stream = { slot: 5, generation: 2 };
    clock.lastMs = 1;
    session.began(42);
    const flags = FrameFlag.fromOpener | FrameFlag.end;
    const open = Uint8Array.from(
      header.open({
        ...stream,
        kind: CallKind.unary,
        method: 9,
        timeoutMs: 0,
        metadataBytes: 0,
        messageBytes: 70,
        windowBytes: 0,
        sentAt: 0,
      }),
    );
    clock.lastMs = 2;
    session.received(open, 70);
    session.nameLast({ slot: 5, generation: 3 }, methodOf('Index.other'));
    session.nameLast(stream, add);
    clock.lastMs = 3.5;
    session.sentOn(stream, header.message(FrameFlag.end, 5, 2, 8), 8, add);
    session.sent(header.credit(0, 1, 0, 4_096), 0);
    clock.lastMs = 5;
    session.ended();
    const { events, faults, pid, running } = read(memory, 10);
    expect({ faults, pid, running }).toEqual({ faults: [], pid: 7, running: [] });
    const common = { session: 3, slot: 5, generation: 2 };
    expect(events).toMatchObject([
      { sequence: 1, event: 'sessionBegan', session: 3, slot: 42, beforeMs: 9, type: undefined },
      {
        ...common,
        event: 'received',
        type: 'open',
        header: [2, flags, CallKind.unary],
        method: 'Index.add',
        payloadBytes: 70,
        value: undefined,
        beforeMs: 8,
        atMs: origin.epochMs + 2,
      },
      {
        ...common,
        event: 'sent',
        type: 'message',
        method: 'Index.add',
        payloadBytes: 8,
        beforeMs: 6.5,
      },
      { event: 'sent', type: 'credit', slot: 1, method: undefined, payloadBytes: 0, value: 4_096 },
      { sequence: 5, event: 'sessionEnded', beforeMs: 5 },
    ]);
  });

  it('keeps the last 4,096 events', () => {
    const { memory, of } = made();
    for (let at = 1; at <= 10_000; at += 1) of(1).sent(header.ping(at), 0);
    const { events, faults } = read(memory, 10_000);
    expect(faults).toEqual([]);
    expect(events.map(({ slot }) => slot)).toEqual(
      Array.from({ length: FrameRecord.count }, (_, at) => 10_000 - FrameRecord.count + 1 + at),
    );
  });

  it('says which handlers run, and counts those beyond its table', () => {
    const { memory, recorder, clock, of } = made();
    const scan = methodOf('Index.scan');
    const stream = { slot: 1, generation: 1 };
    const entries: number[] = [];
    for (let at = 0; at < 600; at += 1) {
      entries.push(recorder.handlerStarted(1, { slot: at, generation: 4 }, 1, scan, at));
    }
    expect(read(memory, 600)).toMatchObject({ runningCount: 600, faults: [] });
    expect(read(memory, 600).running).toHaveLength(RunningEntry.count);
    expect(doingText(read(memory, 600))).toMatch(
      /^600 calls running: Index\.scan for 600 ms, .*, and 595 more$/,
    );
    for (const entry of entries) recorder.handlerSettled(entry);
    expect(doingText(read(memory))).toBe('no call was running');
    recorder.handlerStarted(1, stream, CallKind.bidi, methodOf('Index.add'), 100);
    clock.lastMs = 3_280;
    of(1).sent(header.ping(1), 0);
    expect(read(memory, 3_300).running).toEqual([
      { session: 1, id: '1.1', method: 'Index.add', kind: 'bidi', runningMs: 3_200 },
    ]);
    expect(doingText(read(memory, 3_300))).toBe(
      '1 call running: Index.add for 3.2 s; last frame 20 ms before the end',
    );
  });

  it('goes on without the names that find no room, and cuts a long one', () => {
    const { memory, of } = made();
    const stream = { slot: 1, generation: 1 };
    const message = header.message(0, 1, 1, 1);
    of(1).sentOn(stream, message, 1, methodOf('ä'.repeat(400)));
    const long = read(memory).events[0]?.method;
    expect(long?.slice(0, 127)).toBe('ä'.repeat(127));
    for (let at = 0; at < 4_000; at += 1) {
      const name = methodOf(`Service.method-with-a-long-name-${at}`);
      of(1).sentOn(stream, message, 1, name);
      of(1).sentOn(stream, message, 1, name);
    }
    const { events, faults } = read(memory);
    expect(faults).toEqual([]);
    expect(events.at(-1)?.method).toBeUndefined();
  });

  it('keeps the distance of times where its count goes round', () => {
    const { memory, clock, of } = made();
    const round = 2 ** 32 / ticksPerMs;
    clock.lastMs = round - 10;
    of(1).sent(header.ping(1), 0);
    clock.lastMs = round + 5;
    of(1).sent(header.ping(2), 0);
    expect(read(memory, 2 * round).events.map(({ beforeMs }) => beforeMs)).toEqual([
      round + 10,
      round - 5,
    ]);
  });
});

/** A memory with two frames and a handler, as a hostile or broken process may leave it. */
const corruptions: readonly (readonly [string, (memory: Buffer) => void, RegExp])[] = [
  ['an unknown event', (m) => m.writeUInt8(9, FrameRecord.begin + 4), /event 9 is unknown/],
  ['an unknown type', (m) => m.writeUInt8(200, FrameRecord.begin + 8), /no type 200/],
  ['an endless wall clock', (m) => m.writeDoubleLE(Infinity, Head.epochOriginMs), /is Infinity/],
  ['no last time', (m) => m.writeDoubleLE(Number.NaN, Head.lastAtMs), /last record is NaN/],
  ['a date that no one has', (m) => m.writeDoubleLE(1e300, Head.monotonicOriginMs), /1e\+300/],
  ['a name that is not there', (m) => m.writeUInt32LE(77, FrameRecord.begin + 28), /no name 77/],
  ['two records with a number', (m) => m.writeUInt32LE(2, FrameRecord.begin), /2: written twice/],
  ['a name that is too long', (m) => m.writeUInt16LE(9_999, namesBegin), /name 1: 9999 bytes/],
  ['a clock without an origin', (m) => m.writeDoubleLE(Number.NaN, Head.monotonicOriginMs), /NaN/],
  ['an end that is too long', (m) => m.writeUInt32LE(5_000, Head.endText), /has 5000 bytes/],
  ['an unknown kind', (m) => m.writeUInt32LE(99, RunningEntry.begin + 24), /kind 99/],
  [
    'a handler since NaN',
    (m) => m.writeDoubleLE(Number.NaN, RunningEntry.begin + 16),
    /time is NaN/,
  ],
];

describe('a memory that no correct process leaves', () => {
  it.each(corruptions)('%s is named, and the rest is read', (_, corrupt, fault) => {
    const { memory, recorder, of } = made();
    const add = methodOf('Index.add');
    const stream = { slot: 2, generation: 1 };
    of(1).sentOn(stream, header.message(0, 2, 1, 1), 1, add);
    of(1).sentOn(stream, header.message(0, 2, 1, 1), 1, add);
    recorder.handlerStarted(1, { slot: 1, generation: 1 }, 1, add, 3);
    corrupt(memory);
    const { faults, events, running } = read(memory, 10);
    expect(faults.join('\n')).toMatch(fault);
    expect(events.some(({ slot }) => slot === 2)).toBe(true);
    expect(running).toHaveLength(1);
  });

  it.each([
    ['cut', (m: Buffer) => m.subarray(0, 1_000)],
    ['empty', () => Buffer.alloc(0)],
    ['another file', () => Buffer.alloc(recorderBytes, 'x')],
    ['too long', (m: Buffer) => Buffer.concat([m, Buffer.alloc(1)])],
  ])('%s is refused in words', (_, change) => {
    expect(() => readRecording(change(made().memory))).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_RING_CORRUPT' }),
    );
  });

  it('noise never breaks the reader, nor fills memory', () => {
    const random = Random.fromEnvironment();
    for (let round = 0; round < 50; round += 1) {
      const { memory } = made();
      for (let at = recorderMagic.length; at < recorderBytes; at += 4) {
        memory.writeUInt32LE(random.next(0x1_0000_0000), at);
      }
      const recording = read(memory);
      expect(recording.faults.length).toBeLessThanOrEqual(64);
      expect(recording.events.length).toBeLessThanOrEqual(FrameRecord.count);
      expect(recording.running.length).toBeLessThanOrEqual(RunningEntry.count);
      expect(doingText(recording).length).toBeLessThan(2_000);
    }
  });

  it('names cannot move the cursor of a terminal', () => {
    const { memory, recorder } = made();
    recorder.handlerStarted(1, { slot: 1, generation: 1 }, 1, methodOf('a\u001b[2Jb\nc'), 0);
    expect(read(memory).running[0]?.method).toBe('a\ufffd[2Jb\ufffdc');
  });
});
