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

const kindNames = ['', 'padding', 'frame', 'block frame', 'block release'] as const;
const Kind = { padding: 1, frame: 2, blockFrame: 3, blockRelease: 4 } as const;

/** Records of one direction that a report shows. */
const recordsMax = 64;

/** One unread record of a ring. */
export interface RecordReport {
  /** Its position: bytes that were published before it, ever. */
  readonly position: number;
  readonly kind: (typeof kindNames)[number];
  /** Its payload in bytes, without the record's own header. */
  readonly bytes: number;
  /** The header of its frame in words; no payload. undefined: it has no frame. */
  readonly frame: string | undefined;
}

/** One direction of a ring, as the memory of its sender has it. */
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
  /** Unread records, the first 64. */
  readonly records: readonly RecordReport[];
  /** Unread records beyond those that are shown. */
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
export interface RingMemory {
  readonly mine: Uint8Array;
  readonly peer: Uint8Array | undefined;
}

/** The two memories of a saved copy, which follow each other. */
export function splitRingCopy(copy: Uint8Array): RingMemory {
  const size = sizeOf(copy);
  if (size === undefined || copy.byteLength <= size) return { mine: copy, peer: undefined };
  return { mine: copy.subarray(0, size), peer: copy.subarray(size) };
}

/** Reports a ring by copies of its memories. Never throws, whatever the copies hold. */
export function reportRing({ mine, peer }: RingMemory): RingReport {
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
  const walk = new RecordWalk(name, control, faults);
  if (consumed !== undefined && unread !== undefined) walk.from(consumed, unread);
  return {
    capacityBytes: capacity,
    blockAreaBytes: blockArea,
    publishedBytes: Number(published),
    consumedBytes: consumed === undefined ? undefined : Number(consumed),
    unreadBytes: unread,
    sleepsForRecords: epochs[0] % 2n === 1n,
    sleepsForRoom: epochs[1] % 2n === 1n,
    sleepEpochs: [Number(epochs[0]), Number(epochs[1])],
    records: walk.records,
    moreRecords: walk.more,
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

/** Looks at the unread records, one after the other, up to the first that is invalid. */
class RecordWalk {
  readonly records: RecordReport[] = [];
  more = 0;
  readonly #name: string;
  readonly #control: Control;
  readonly #faults: string[];

  constructor(name: string, control: Control, faults: string[]) {
    this.#name = name;
    this.#control = control;
    this.#faults = faults;
  }

  from(consumed: bigint, unread: number): void {
    for (let done = 0; done < unread; ) {
      const bytes = this.#look(consumed + BigInt(done), unread - done);
      if (bytes === undefined) return;
      done += bytes;
    }
  }

  /** The bytes of the record; undefined: there is none that is valid. */
  #look(position: bigint, unread: number): number | undefined {
    const { capacity, data } = this.#control;
    const offset = Number(position % BigInt(capacity));
    const where = `the record at ${position} of ${this.#name}`;
    if (offset + recordHeaderBytes > data.byteLength) {
      return this.#fault(`${where} lies behind the end of the copy`);
    }
    const bytes = data.getUint32(offset, true);
    const kind = data.getUint16(offset + 4, true);
    const size = Math.ceil((recordHeaderBytes + bytes) / recordAlign) * recordAlign;
    if (data.getUint16(offset + 6, true) !== 0) return this.#fault(`${where} has no zero field`);
    const kindName = kind === 0 ? undefined : kindNames[kind];
    if (kindName === undefined) return this.#fault(`${where} has the unknown kind ${kind}`);
    const untilEnd = capacity - offset;
    if (size > unread || size > untilEnd) {
      const room = Math.min(unread, untilEnd);
      return this.#fault(`${where} has ${size} bytes, where ${room} follow`);
    }
    const isPadding = kind === Kind.padding;
    if (isPadding && size !== untilEnd) return this.#fault(`${where} pads, but not to the end`);
    if (!isPadding && size > Math.min(recordMaxBytes, capacity / 2)) {
      return this.#fault(`${where} has ${size} bytes, more than a record may have`);
    }
    if (offset + recordHeaderBytes + bytes > data.byteLength && !isPadding) {
      return this.#fault(`${where} lies in part behind the end of the copy`);
    }
    this.#note(position, offset, kind, bytes);
    return size;
  }

  #note(position: bigint, offset: number, kind: number, bytes: number): void {
    const frame = this.#frameOf(position, offset + recordHeaderBytes, kind, bytes);
    if (this.records.length === recordsMax) {
      this.more += 1;
      return;
    }
    const kindName = kindNames[kind] as RecordReport['kind'];
    this.records.push({ position: Number(position), kind: kindName, bytes, frame });
  }

  #frameOf(position: bigint, from: number, kind: number, bytes: number): string | undefined {
    const where = `the record at ${position} of ${this.#name}`;
    if (kind === Kind.blockRelease) {
      const isWhole = bytes > 0 && bytes % 8 === 0 && bytes <= 8 * releasesMax;
      if (!isWhole) this.#fault(`${where} gives back leases in ${bytes} bytes`);
      return undefined;
    }
    if (kind === Kind.padding) return undefined;
    const at = kind === Kind.blockFrame ? from + referenceBytes : from;
    const left = from + bytes - at;
    if (left < 1) {
      this.#fault(`${where} has no frame`);
      return undefined;
    }
    const { data } = this.#control;
    const size = headerBytes(data.getUint8(at));
    if (size === 0 || size > left) {
      this.#fault(`${where} has a frame of the unknown type ${data.getUint8(at)}`);
      return undefined;
    }
    const header = new Uint8Array(data.buffer, data.byteOffset + at, size);
    const text = frameText(header, left - size);
    if (text.startsWith('an invalid frame')) this.#fault(`${where} has ${text}`);
    return kind === Kind.blockFrame ? `${text}, ${this.#referenceAt(where, from)}` : text;
  }

  #referenceAt(where: string, at: number): string {
    const { data, blockArea } = this.#control;
    const offset = data.getBigUint64(at, true);
    const bytes = data.getBigUint64(at + 8, true);
    if (offset + bytes > BigInt(blockArea)) {
      this.#fault(`${where} refers to a block outside of the block area`);
    }
    return `block of ${bytes} bytes at ${offset}, lease ${data.getBigUint64(at + 16, true)}`;
  }

  #fault(text: string): undefined {
    this.#faults.push(text);
    return undefined;
  }
}
