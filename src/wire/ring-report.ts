// SPDX-License-Identifier: MIT
// The memory of a ring in words: cursors, sleep, the records that are unread with the headers of
// their frames, and states that no correct process leaves. It reads copies, and no field of them
// is trusted. docs/protocol.md draws the memory.
import { type Control, type RecordReport, RecordWalk, recordAlign } from './record-walk.ts';

const magic = 0x6c61_6373;
const version = 1;
const controlBytes = 16_384;
const headerEnd = 40;
/** Bytes of the control page that are used. */
const controlEnd = 640;
const capacityMin = 64n * 1024n;
const capacityMax = 64n * 1024n * 1024n;
const blockAreaMax = 1024n * 1024n * 1024n;
const blockAreaUnit = 16_384n;

/** Offsets of the words of the control page. */
const Word = {
  capacity: 8,
  blockArea: 16,
  producer: 128,
  consumer: 256,
  dataSleep: 384,
  spaceSleep: 512,
} as const;

/** A direction of a ring, as the memory of its sender has it. */
export interface OutboxReport {
  /** Bytes of the memory for records. */
  readonly capacityBytes: number;
  /** Bytes of the memory for blocks; 0: there is none. */
  readonly blockAreaBytes: number;
  /** Bytes that were published, ever. */
  readonly publishedBytes: number;
  /** Bytes of them that the reader has consumed; undefined: its memory was not given. */
  readonly consumedBytes: number | undefined;
  /** Bytes that were published and not consumed; undefined: unknown. */
  readonly unreadBytes: number | undefined;
  /** The owner of this memory sleeps until records arrive. */
  readonly sleepsForRecords: boolean;
  /** The owner of this memory sleeps until there is room for what it sends. */
  readonly sleepsForRoom: boolean;
  /** How often it has fallen asleep or woken: waiting for records, and for room. */
  readonly sleepEpochs: readonly [number, number];
  /**
   * Unread records, the first 64. Empty where one of them has a fault: what lies at the cursor of a
   * process that lies may be payload.
   */
  readonly records: readonly RecordReport[];
  /** Unread records beyond those that are shown; 100,000 are counted at most. */
  readonly moreRecords: number;
  /** Unread bytes behind those that the report was to look at. 0: it has looked at all. */
  readonly unseenBytes: number;
}

/** Both directions of a ring. */
export interface RingReport {
  /** The direction in which the owner of the first memory sends; undefined: unreadable. */
  readonly sent: OutboxReport | undefined;
  /** The direction in which it receives; undefined: no memory of the peer, or unreadable. */
  readonly received: OutboxReport | undefined;
  /** States that no correct process leaves, in words. Empty: none was found. */
  readonly faults: readonly string[];
}

/** The memories of both sides of a ring, each from its control page to the end of its data. */
export interface RingCopies {
  readonly mine: Uint8Array;
  readonly peer: Uint8Array | undefined;
  /**
   * Each memory ends with its unread part, of which it has so many bytes at most. undefined: both
   * are whole.
   */
  readonly unreadMaxBytes?: number | undefined;
}

/** A copy with zeros up to the end of the memory, so that the copy of the other one can follow. */
export function wholeCopy(copy: Uint8Array): Uint8Array {
  const whole = new Uint8Array(sizeOf(copy) ?? copy.length);
  whole.set(copy.subarray(0, whole.length));
  return whole;
}

/** True: the bytes begin as the memory of a ring does. */
export function isRingCopy(copy: Uint8Array): boolean {
  return copy.length >= 4 && viewOf(copy).getUint32(0, true) === magic;
}

/** The two memories of a saved copy, which follow each other. */
export function splitRingCopy(copy: Uint8Array): RingCopies {
  const size = sizeOf(copy);
  if (size === undefined || copy.length <= size) return { mine: copy, peer: undefined };
  return { mine: copy.subarray(0, size), peer: copy.subarray(size) };
}

/**
 * Reports a ring by copies of its memories. Never throws, whatever the copies hold.
 * `payloadMaxBytes`: bytes of each unread payload that are reported.
 */
export function reportRing(
  { mine, peer, unreadMaxBytes }: RingCopies,
  payloadMaxBytes = 0,
): RingReport {
  const faults: string[] = [];
  const isWhole = unreadMaxBytes === undefined;
  const near = readControl('the first memory', mine, isWhole, faults);
  const far = peer && readControl('the second memory', peer, isWhole, faults);
  const most = unreadMaxBytes ?? Number.POSITIVE_INFINITY;
  const bounds = { unreadMaxBytes: most, payloadMaxBytes };
  return {
    sent: near && outboxReport('the first memory', near, far?.consumed, bounds, faults),
    received: far && outboxReport('the second memory', far, near?.consumed, bounds, faults),
    faults,
  };
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function isCapacity(bytes: bigint): boolean {
  return bytes >= capacityMin && bytes <= capacityMax && (bytes & (bytes - 1n)) === 0n;
}

/** Bytes of the memory at the beginning of a copy; undefined: it does not begin with one. */
function sizeOf(copy: Uint8Array): number | undefined {
  if (copy.length < headerEnd) return undefined;
  const view = viewOf(copy);
  const capacity = view.getBigUint64(Word.capacity, true);
  if (view.getUint32(0, true) !== magic || !isCapacity(capacity)) return undefined;
  return controlBytes + Number(capacity);
}

function readControl(
  name: string,
  memory: Uint8Array,
  isWhole: boolean,
  faults: string[],
): Control | undefined {
  if (memory.length < (isWhole ? controlBytes : controlEnd)) {
    faults.push(`${name} ends after ${memory.length} bytes, within its control page`);
    return undefined;
  }
  const view = viewOf(memory);
  const word = (at: number): bigint => view.getBigUint64(at, true);
  const found = view.getUint32(0, true);
  if (found !== magic) {
    faults.push(`${name} is no memory of a ring: it begins with 0x${found.toString(16)}`);
    return undefined;
  }
  const ofVersion = view.getUint32(4, true);
  if (ofVersion !== version) faults.push(`${name} has version ${ofVersion}, not ${version}`);
  const capacity = word(Word.capacity);
  if (!isCapacity(capacity)) {
    faults.push(`${name} has a capacity of ${capacity} bytes, which no ring has`);
    return undefined;
  }
  const blockArea = word(Word.blockArea);
  if (blockArea > blockAreaMax || blockArea % blockAreaUnit !== 0n) {
    faults.push(`${name} has a block area of ${blockArea} bytes, which no ring has`);
  }
  const whole = controlBytes + Number(capacity);
  if (isWhole && memory.length < whole) {
    faults.push(`${name} ends after ${memory.length} of ${whole} bytes`);
  }
  return {
    capacity: Number(capacity),
    blockArea: Number(blockArea),
    published: word(Word.producer),
    consumed: word(Word.consumer),
    epochs: [word(Word.dataSleep), word(Word.spaceSleep)],
    data: viewOf(memory.subarray(controlBytes, whole)),
  };
}

function outboxReport(
  name: string,
  control: Control,
  consumed: bigint | undefined,
  { unreadMaxBytes, payloadMaxBytes }: { unreadMaxBytes: number; payloadMaxBytes: number },
  faults: string[],
): OutboxReport {
  const { capacity, blockArea, published, epochs } = control;
  const unread = consumed === undefined ? undefined : unreadOf(name, control, consumed, faults);
  const walk = new RecordWalk(control, unreadMaxBytes, payloadMaxBytes);
  const fault =
    consumed === undefined || unread === undefined ? undefined : walk.from(consumed, unread);
  if (fault !== undefined) faults.push(`${fault} (${name})`);
  return {
    capacityBytes: capacity,
    blockAreaBytes: blockArea,
    publishedBytes: Number(published),
    consumedBytes: consumed === undefined ? undefined : Number(consumed),
    unreadBytes: unread,
    sleepsForRecords: epochs[0] % 2n === 1n,
    sleepsForRoom: epochs[1] % 2n === 1n,
    sleepEpochs: [Number(epochs[0]), Number(epochs[1])],
    records: fault === undefined ? walk.records : [],
    moreRecords: fault === undefined ? walk.more : 0,
    unseenBytes: fault === undefined ? walk.unseenBytes : 0,
  };
}

/** Bytes between the cursors; undefined: the cursors are of no correct ring. */
function unreadOf(
  name: string,
  { published, capacity }: Control,
  consumed: bigint,
  faults: string[],
): number | undefined {
  const of = `of ${name}`;
  for (const [what, cursor] of [
    ['published', published],
    ['consumed', consumed],
  ] as const) {
    if (cursor % BigInt(recordAlign) === 0n) continue;
    faults.push(`the ${what} bytes ${of} are ${cursor}, no multiple of ${recordAlign}`);
    return undefined;
  }
  if (consumed > published) {
    faults.push(`the consumed bytes ${of} are ${consumed}, beyond the published ${published}`);
    return undefined;
  }
  if (published - consumed > BigInt(capacity)) {
    faults.push(`${published - consumed} bytes ${of} are unread, of a capacity of ${capacity}`);
    return undefined;
  }
  return Number(published - consumed);
}
