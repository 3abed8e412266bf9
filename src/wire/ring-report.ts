// SPDX-License-Identifier: MIT
// The memory of a ring in words: cursors, sleep, the records that are unread with the headers of
// their frames, and states that no correct process leaves. It reads copies, and no field of them
// is trusted. docs/protocol.md draws the memory.
import { headerBytes } from './frame-header.ts';
import { frameText } from './frame-text.ts';

const magic = 0x6c61_6373;
const version = 1;
const controlBytes = 16_384;
const headerEnd = 40;
const capacityMin = 64n * 1024n;
const capacityMax = 64n * 1024n * 1024n;
const blockAreaMax = 1024n * 1024n * 1024n;
const blockAreaUnit = 16_384n;
const recordHeaderBytes = 8;
const recordAlign = 8;
const recordMaxBytes = 64 * 1024 + 128;
const referenceBytes = 24;
const releasesMax = 128;

/** Offsets of the words of the control page. */
const Word = {
  capacity: 8,
  blockArea: 16,
  producer: 128,
  consumer: 256,
  dataSleep: 384,
  spaceSleep: 512,
} as const;

/** The beginning of what {@link frameText} says of a frame that is none. */
const invalidFrame = 'an invalid frame';

const kindNames = ['', 'padding', 'frame', 'block frame', 'block release'] as const;
const Kind = { padding: 1, frame: 2, blockFrame: 3, blockRelease: 4 } as const;

/** Records of one direction that a report shows, and those that it looks at to count them. */
const shownMax = 64;
const countedMax = 100_000;

/** An unread record of a ring. */
export interface RecordReport {
  /** Its position: bytes that were published before it, ever. */
  readonly position: number;
  readonly kind: (typeof kindNames)[number];
  /** Its payload in bytes, without the record's own header. */
  readonly bytes: number;
  /** The header of its frame in words; no payload. undefined: it has no frame. */
  readonly frame: string | undefined;
}

/** A direction of a ring, as the memory of its sender has it. */
export interface OutboxReport {
  readonly capacityBytes: number;
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
}

/** The two memories of a saved copy, which follow each other. */
export function splitRingCopy(copy: Uint8Array): RingCopies {
  const size = sizeOf(copy);
  if (size === undefined || copy.byteLength <= size) return { mine: copy, peer: undefined };
  return { mine: copy.subarray(0, size), peer: copy.subarray(size) };
}

/** Reports a ring by copies of its memories. Never throws, whatever the copies hold. */
export function reportRing({ mine, peer }: RingCopies): RingReport {
  const faults: string[] = [];
  const near = readControl('the first memory', mine, faults);
  const far = peer && readControl('the second memory', peer, faults);
  return {
    sent: near && outboxReport('the first memory', near, far?.consumed, faults),
    received: far && outboxReport('the second memory', far, near?.consumed, faults),
    faults,
  };
}

interface Control {
  readonly capacity: number;
  readonly blockArea: number;
  readonly published: bigint;
  /** Bytes that the owner of this memory has consumed of the other one. */
  readonly consumed: bigint;
  readonly epochs: readonly [bigint, bigint];
  readonly data: DataView;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isCapacity(bytes: bigint): boolean {
  return bytes >= capacityMin && bytes <= capacityMax && (bytes & (bytes - 1n)) === 0n;
}

/** Bytes of the memory at the beginning of a copy; undefined: it does not begin with one. */
function sizeOf(copy: Uint8Array): number | undefined {
  if (copy.byteLength < headerEnd) return undefined;
  const view = viewOf(copy);
  const capacity = view.getBigUint64(Word.capacity, true);
  if (view.getUint32(0, true) !== magic || !isCapacity(capacity)) return undefined;
  return controlBytes + Number(capacity);
}

function readControl(name: string, memory: Uint8Array, faults: string[]): Control | undefined {
  if (memory.byteLength < controlBytes) {
    faults.push(`${name} ends after ${memory.byteLength} bytes, within its control page`);
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
  if (memory.byteLength < whole) {
    faults.push(`${name} ends after ${memory.byteLength} of ${whole} bytes`);
  }
  return {
    capacity: Number(capacity),
    blockArea: Number(blockArea),
    published: word(Word.producer),
    consumed: word(Word.consumer),
    epochs: [word(Word.dataSleep), word(Word.spaceSleep)],
    data: new DataView(
      memory.buffer,
      memory.byteOffset + controlBytes,
      Math.min(memory.byteLength, whole) - controlBytes,
    ),
  };
}

function outboxReport(
  name: string,
  control: Control,
  consumed: bigint | undefined,
  faults: string[],
): OutboxReport {
  const { capacity, blockArea, published, epochs } = control;
  const unread = consumed === undefined ? undefined : unreadOf(name, control, consumed, faults);
  const walk = new RecordWalk(control);
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

/** Looks at the unread records, one after the other, up to the first that has a fault. */
class RecordWalk {
  readonly records: RecordReport[] = [];
  more = 0;
  readonly #control: Control;

  constructor(control: Control) {
    this.#control = control;
  }

  /** The fault of a record, without a byte of it; undefined: none was found. */
  from(consumed: bigint, unread: number): string | undefined {
    const { capacity } = this.#control;
    const begin = Number(consumed % BigInt(capacity));
    for (let done = 0; done < unread && this.more < countedMax; ) {
      const found = this.#look((begin + done) % capacity, unread - done);
      if (typeof found === 'string') return `the record at ${consumed + BigInt(done)} ${found}`;
      if (this.records.length < shownMax) {
        this.records.push({ position: Number(consumed) + done, ...found.report });
      } else this.more += 1;
      done += found.size;
    }
    return undefined;
  }

  /** The record at an offset of the data, or its fault. */
  #look(
    offset: number,
    unread: number,
  ): { readonly size: number; readonly report: Omit<RecordReport, 'position'> } | string {
    const { capacity, data } = this.#control;
    if (offset + recordHeaderBytes > data.byteLength) return 'lies behind the end of the copy';
    const bytes = data.getUint32(offset, true);
    const kind = data.getUint16(offset + 4, true);
    const size = Math.ceil((recordHeaderBytes + bytes) / recordAlign) * recordAlign;
    if (data.getUint16(offset + 6, true) !== 0) return 'has no zero field';
    if (kind < Kind.padding || kind > Kind.blockRelease) return 'has an unknown kind';
    const untilEnd = capacity - offset;
    if (size > unread || size > untilEnd) {
      return `has more than the ${Math.min(unread, untilEnd)} bytes that follow`;
    }
    const isPadding = kind === Kind.padding;
    if (isPadding && size !== untilEnd) return 'pads, but not to the end';
    if (!isPadding && size > Math.min(recordMaxBytes, capacity / 2)) {
      return 'has more bytes than a record may have';
    }
    const from = offset + recordHeaderBytes;
    if (from + bytes > data.byteLength && !isPadding) return 'lies in part behind the copy';
    const fault = this.#faultIn(from, kind, bytes);
    if (fault !== undefined) return fault;
    const isShown = this.records.length < shownMax;
    const frame = isShown ? this.#frameOf(from, kind, bytes) : undefined;
    if (frame === invalidFrame) return 'has an invalid frame';
    return { size, report: { kind: kindNames[kind] as RecordReport['kind'], bytes, frame } };
  }

  /** The fault in the payload of a record, by its first bytes. */
  #faultIn(from: number, kind: number, bytes: number): string | undefined {
    const { data, blockArea } = this.#control;
    if (kind === Kind.padding) return undefined;
    if (kind === Kind.blockRelease) {
      const isWhole = bytes > 0 && bytes % 8 === 0 && bytes <= 8 * releasesMax;
      return isWhole ? undefined : 'gives back no whole number of leases';
    }
    const headAt = kind === Kind.blockFrame ? referenceBytes : 0;
    if (bytes <= headAt) return 'has no frame';
    const head = headerBytes(data.getUint8(from + headAt));
    if (head === 0 || headAt + head > bytes) return 'has a frame of an unknown type';
    if (kind === Kind.frame) return undefined;
    const end = data.getBigUint64(from, true) + data.getBigUint64(from + 8, true);
    return end > BigInt(blockArea) ? 'refers to a block outside of the block area' : undefined;
  }

  /** The header of a frame in words; undefined: the record has none. */
  #frameOf(from: number, kind: number, bytes: number): string | undefined {
    if (kind !== Kind.frame && kind !== Kind.blockFrame) return undefined;
    const { data } = this.#control;
    const headAt = kind === Kind.blockFrame ? referenceBytes : 0;
    const head = headerBytes(data.getUint8(from + headAt));
    const header = new Uint8Array(data.buffer, data.byteOffset + from + headAt, head);
    const text = frameText(header, bytes - headAt - head);
    if (text.startsWith(invalidFrame)) return invalidFrame;
    if (kind === Kind.frame) return text;
    const word = (at: number): bigint => data.getBigUint64(from + at, true);
    return `${text}, block of ${word(8)} bytes at ${word(0)}, lease ${word(16)}`;
  }
}
