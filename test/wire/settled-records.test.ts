// A copy of a flight recorder that is written meanwhile has no record of two halves.
import { Buffer } from 'node:buffer';
import { expect, it } from 'vitest';
import { FlightRecorder, SessionRecorder } from '../../src/wire/flight-recorder.ts';
import { CallKind, HeaderWriter } from '../../src/wire/frame-header.ts';
import {
  FrameRecord,
  Head,
  RunningEntry,
  recorderBytes,
  recorderMagic,
} from '../../src/wire/recorder-layout.ts';
import { readRecording } from '../../src/wire/recording.ts';
import { keepSettled } from '../../src/wire/settled-records.ts';

const header = new HeaderWriter();

function made() {
  const memory = Buffer.from(new ArrayBuffer(recorderBytes));
  memory.write(recorderMagic, 'latin1');
  const origin = { pid: 7, monotonicMs: 1_000, epochMs: 1_700_000_000_000 };
  const recorder = new FlightRecorder(memory, origin, true);
  const clock = { lastMs: 1 };
  const session = new SessionRecorder(recorder, 1, clock);
  const short = { method: 'Work.short', nameNumber: 0 };
  const long = { method: 'Work.long', nameNumber: 0 };
  const send = (method: typeof short, slot: number): void => {
    const frame = header.message(0, slot, 1, 10);
    session.sentOn({ slot, generation: 1 }, frame, method === short ? 10 : 1_000, method);
  };
  const copy = (): Buffer => {
    const bytes = Buffer.from(new ArrayBuffer(recorderBytes));
    memory.copy(bytes);
    bytes.writeDoubleLE(1_005, Head.copiedAtMs);
    bytes.writeDoubleLE(1_700_000_000_005, Head.copiedAtEpochMs);
    return bytes;
  };
  return { session, clock, short, long, send, copy };
}

const bytesOf = { 'Work.short': 10, 'Work.long': 1_000 } as Record<string, number>;
const isWhole = ({
  method = '',
  payloadBytes,
}: {
  method?: string | undefined;
  payloadBytes: number;
}) => bytesOf[method] === payloadBytes;

it('leaves out a record that was written while it was copied, wherever the copy was', () => {
  for (let cut = 1; cut < FrameRecord.words; cut += 1) {
    const { short, long, send, copy } = made();
    for (let slot = 0; slot < FrameRecord.count; slot += 1) send(short, slot);
    const torn = copy();
    for (let slot = 0; slot < 3; slot += 1) send(long, slot); // over the oldest ones
    const later = copy();
    // The copy was at this word of the second record when the record was written.
    const at = FrameRecord.begin + FrameRecord.words * 4;
    later.copy(torn, at + cut * 4, at + cut * 4, at + FrameRecord.words * 4);
    const isTorn = readRecording(torn).events.some((event) => !isWhole(event));
    expect(isTorn, `word ${cut}`).toBe(cut <= FrameRecord.name);
    for (const [earlier, read] of [
      [torn, later],
      [later, torn],
    ] as const) {
      const settled = Buffer.from(read);
      keepSettled(earlier, settled);
      const { events, faults } = readRecording(settled);
      expect(events).toHaveLength(FrameRecord.count - 3);
      expect(events.every(isWhole)).toBe(true);
      expect(faults).toEqual([]);
    }
  }
});

it('keeps all of a process that writes nothing meanwhile, with its times', () => {
  const { short, long, send, session, clock, copy } = made();
  send(short, 0);
  clock.lastMs = 3;
  send(long, 1);
  session.handlerStarted({ slot: 3, generation: 1 }, CallKind.unary, long);
  const [earlier, read] = [copy(), copy()];
  keepSettled(earlier, read);
  const { events, running } = readRecording(read);
  expect(events.map(({ beforeMs }) => beforeMs)).toEqual([4, 2]);
  expect(running).toMatchObject([{ method: 'Work.long', runningMs: 2 }]);
});

it('dates the records that are left where the last ones are missing, or are younger', () => {
  const { short, long, send, clock, copy } = made();
  send(short, 0);
  const earlier = copy();
  clock.lastMs = 4;
  send(long, 1);
  const read = copy();
  keepSettled(earlier, read);
  expect(readRecording(read).events.map(({ beforeMs }) => beforeMs)).toEqual([4]);
  const younger = copy();
  younger.writeDoubleLE(1, Head.lastAtMs); // copied before the last record was written
  expect(readRecording(younger).events.map(({ beforeMs }) => beforeMs)).toEqual([4, 1]);
});

it('leaves out a handler that began or ended meanwhile', () => {
  const { short, long, session, copy } = made();
  const first = session.handlerStarted({ slot: 1, generation: 1 }, CallKind.unary, short);
  session.handlerStarted({ slot: 2, generation: 1 }, CallKind.unary, short);
  const earlier = copy();
  session.handlerSettled(first);
  session.handlerStarted({ slot: 3, generation: 1 }, CallKind.unary, long);
  const read = copy();
  expect(read.equals(earlier)).toBe(false);
  keepSettled(earlier, read);
  expect(readRecording(read).running).toMatchObject([{ id: '2.1', method: 'Work.short' }]);
  expect(read.readUInt32LE(RunningEntry.begin)).toBe(0);
});
