// SPDX-License-Identifier: MIT
// The flight recorder of a helper: the headers of its last frames, and the handlers that run, in
// memory that its parent keeps. It is written without a system call, so that it is complete when
// the process is killed at any instant. Aircraft and Java (JFR) have one, for the same reason.
import { Buffer } from 'node:buffer';
import { FrameType, readU32 } from './frame-header.ts';
import {
  FrameRecord,
  Head,
  nameless,
  nameMaxBytes,
  namesBegin,
  RecordEvent,
  RunningEntry,
  recorderBytes,
  ticksPerMs,
} from './recorder-layout.ts';

/** The numbers of a method, which keep the number of its name. */
export interface NamedMethod {
  readonly method: string;
  /** 0: it has none yet. */
  nameNumber: number;
}

/** The stream of a call. */
export interface RecordedStream {
  readonly slot: number;
  readonly generation: number;
}

/** Clocks of a process when that of the records is 0, in milliseconds. */
export interface RecorderOrigin {
  readonly pid: number;
  readonly monotonicMs: number;
  readonly epochMs: number;
}

const { begin, count, words: recordWords } = FrameRecord;
const firstWord = begin / 4;
const endWord = firstWord + count * recordWords;

/** A handler without an entry: all are in use. */
const unlisted = -1;

export class FlightRecorder {
  /** False: only handlers are recorded. */
  readonly hasFrames: boolean;
  readonly #memory: Buffer;
  readonly #words: Uint32Array;
  readonly #floats: Float64Array;
  /** The word at which the next record begins. */
  #next = firstWord;
  #last = firstWord;
  #sequence = 0;
  readonly #free: number[] = [];
  readonly #names = new Map<string, number>();
  #nameEnd = namesBegin;

  /** NOTE: `memory` has {@link recorderBytes}, and begins at a multiple of 8. */
  constructor(memory: Buffer, { pid, monotonicMs, epochMs }: RecorderOrigin, hasFrames: boolean) {
    this.#memory = memory;
    this.hasFrames = hasFrames;
    const { buffer, byteOffset } = memory;
    this.#words = new Uint32Array(buffer, byteOffset, recorderBytes / 4);
    this.#floats = new Float64Array(buffer, byteOffset, recorderBytes / 8);
    this.#words[Head.pid / 4] = pid;
    this.#floats[Head.monotonicOriginMs / 8] = monotonicMs;
    this.#floats[Head.epochOriginMs / 8] = epochMs;
    for (let entry = RunningEntry.count - 1; entry >= 0; entry -= 1) this.#free.push(entry);
  }

  /** Three words of a header, and the bytes behind it. */
  write(
    event: number,
    session: number,
    first: number,
    slot: number,
    generation: number,
    bytes: number,
    name: number,
    nowMs: number,
  ): void {
    const words = this.#words;
    const at = this.#next;
    words[at] = 0;
    words[at + FrameRecord.event] = event | (session << 8);
    words[at + FrameRecord.header] = first;
    words[at + FrameRecord.header + 1] = slot;
    words[at + FrameRecord.header + 2] = generation;
    words[at + FrameRecord.bytes] = bytes;
    words[at + FrameRecord.ticks] = nowMs * ticksPerMs;
    this.#floats[Head.lastAtMs / 8] = nowMs;
    words[at + FrameRecord.name] = name;
    this.#sequence = this.#sequence === 0xffff_ffff ? 1 : this.#sequence + 1;
    words[at] = this.#sequence;
    this.#last = at;
    this.#next = at + recordWords === endWord ? firstWord : at + recordWords;
  }

  /** The method of a call is known: the last record gets its name, if that frame opens the call. */
  nameLast({ slot, generation }: RecordedStream, method: NamedMethod): void {
    const words = this.#words;
    const at = this.#last + FrameRecord.header;
    const isOpen = ((words[at] as number) & 0xff) === FrameType.open;
    if (!isOpen || words[at + 1] !== slot || words[at + 2] !== generation) return;
    words[this.#last + FrameRecord.name] = this.nameOf(method);
  }

  /** A handler is about to be called. Returns its entry, or {@link unlisted}. */
  handlerStarted(
    session: number,
    { slot, generation }: RecordedStream,
    kind: number,
    method: NamedMethod,
    nowMs: number,
  ): number {
    const words = this.#words;
    const entry = this.#free.pop();
    if (entry === undefined) {
      words[Head.unlisted / 4] = (words[Head.unlisted / 4] as number) + 1;
      return unlisted;
    }
    const at = RunningEntry.begin / 4 + entry * RunningEntry.words;
    words[at + RunningEntry.slot] = slot;
    words[at + RunningEntry.generation] = generation;
    words[at + RunningEntry.name] = this.nameOf(method);
    words[at + RunningEntry.kind] = kind;
    this.#floats[(at + RunningEntry.since) >>> 1] = nowMs;
    words[at + RunningEntry.session] = session;
    return entry;
  }

  /** The handler of this entry has settled. */
  handlerSettled(entry: number): void {
    if (entry === unlisted) {
      this.#words[Head.unlisted / 4] = (this.#words[Head.unlisted / 4] as number) - 1;
      return;
    }
    this.#words[RunningEntry.begin / 4 + entry * RunningEntry.words] = 0;
    this.#free.push(entry);
  }

  /** The number of its name, which is written where it is new. */
  nameOf(method: NamedMethod): number {
    if (method.nameNumber !== 0) return method.nameNumber;
    method.nameNumber = this.#names.get(method.method) ?? this.#addName(method.method);
    return method.nameNumber;
  }

  /** The names that came first may have all of the memory: then it is {@link nameless}. */
  #addName(name: string): number {
    const bytes = Buffer.from(name).subarray(0, nameMaxBytes);
    const at = this.#nameEnd;
    if (at + 4 + bytes.length > recorderBytes) return nameless;
    this.#memory.set(bytes, at + 2);
    this.#memory.writeUInt16LE(bytes.length, at);
    this.#nameEnd = at + 2 + bytes.length;
    this.#names.set(name, this.#names.size + 1);
    return this.#names.size;
  }
}

/** The recorder as one session uses it. */
export class SessionRecorder {
  readonly #recorder: FlightRecorder;
  readonly #session: number;
  readonly #clock: { readonly lastMs: number };

  constructor(recorder: FlightRecorder, session: number, clock: { readonly lastMs: number }) {
    this.#recorder = recorder;
    this.#session = session;
    this.#clock = clock;
  }

  began(peerPid = 0): void {
    this.#write(RecordEvent.sessionBegan, 0, peerPid, 0, 0, 0);
  }

  ended(): void {
    this.#write(RecordEvent.sessionEnded, 0, 0, 0, 0, 0);
  }

  /** A frame of a stream was sent, `bytes` behind its header. */
  sentOn(stream: RecordedStream, header: Uint8Array, bytes: number, method: NamedMethod): void {
    const name = this.#recorder.nameOf(method);
    const { slot, generation } = stream;
    this.#write(RecordEvent.sent, firstWordOf(header), slot, generation, bytes, name);
  }

  /** A frame without a message was sent. */
  sent(header: Uint8Array, bytes: number): void {
    this.#writeHeader(RecordEvent.sent, header, bytes);
  }

  /** A frame has arrived, `bytes` behind its header. */
  received(header: Uint8Array, bytes: number): void {
    this.#writeHeader(RecordEvent.received, header, bytes);
  }

  nameLast(stream: RecordedStream, method: NamedMethod): void {
    this.#recorder.nameLast(stream, method);
  }

  handlerStarted(stream: RecordedStream, kind: number, method: NamedMethod): number {
    const { lastMs } = this.#clock;
    return this.#recorder.handlerStarted(this.#session, stream, kind, method, lastMs);
  }

  handlerSettled(entry: number): void {
    this.#recorder.handlerSettled(entry);
  }

  #writeHeader(event: number, header: Uint8Array, bytes: number): void {
    const type = header[0] as number;
    const hasValue = type === FrameType.credit || type === FrameType.clock;
    const value = hasValue ? readU32(header, 12) : bytes;
    const slot = readU32(header, 4);
    this.#write(event, firstWordOf(header), slot, readU32(header, 8), value, 0);
  }

  #write(
    event: number,
    first: number,
    slot: number,
    generation: number,
    bytes: number,
    name: number,
  ): void {
    const { lastMs } = this.#clock;
    this.#recorder.write(event, this.#session, first, slot, generation, bytes, name, lastMs);
  }
}

/** Type, flags and the 16 bits behind them, of which the upper eight are never set. */
function firstWordOf(header: Uint8Array): number {
  return (header[0] as number) | ((header[1] as number) << 8) | ((header[2] as number) << 16);
}
