// SPDX-License-Identifier: MIT
// The unread records of a ring, in a copy of its memory.
import { Buffer } from 'node:buffer';
import { headerBytes } from './frame-header.ts';
import { frameText } from './frame-text.ts';

const recordHeaderBytes = 8;
export const recordAlign = 8;
const recordMaxBytes = 64 * 1024 + 128;
const referenceBytes = 24;
const releasesMax = 128;

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
  /**
   * The first bytes of the frame's payload, in base64; of a message in a block there are none.
   * undefined: none were asked for.
   */
  readonly payload: string | undefined;
}

/** The control page of a memory, and its data. */
export interface Control {
  readonly capacity: number;
  readonly blockArea: number;
  readonly published: bigint;
  /** Bytes that the owner of this memory has consumed of the other one. */
  readonly consumed: bigint;
  readonly epochs: readonly [bigint, bigint];
  readonly data: DataView;
}

/** Looks at the unread records, one after the other, up to the first that has a fault. */
export class RecordWalk {
  readonly records: RecordReport[] = [];
  more = 0;
  unseenBytes = 0;
  readonly #control: Control;
  readonly #unreadMaxBytes: number;
  readonly #payloadMaxBytes: number;

  /** `payloadMaxBytes`: bytes of each payload that the report has; 0: none. */
  constructor(control: Control, unreadMaxBytes: number, payloadMaxBytes: number) {
    this.#control = control;
    this.#unreadMaxBytes = unreadMaxBytes;
    this.#payloadMaxBytes = payloadMaxBytes;
  }

  /** The fault of a record, without a byte of it; undefined: none was found. */
  from(consumed: bigint, unread: number): string | undefined {
    const { capacity } = this.#control;
    const begin = Number(consumed % BigInt(capacity));
    for (let done = 0; done < unread && this.more < countedMax; ) {
      const left = unread - done;
      const found = this.#look((begin + done) % capacity, left, this.#unreadMaxBytes - done);
      if (found === undefined) {
        this.unseenBytes = left;
        return undefined;
      }
      if (typeof found === 'string') return `the record at ${consumed + BigInt(done)} ${found}`;
      if (this.records.length < shownMax) {
        this.records.push({ position: Number(consumed) + done, ...found.report });
      } else this.more += 1;
      done += found.size;
    }
    return undefined;
  }

  /** The record at an offset of the data, or its fault; undefined: not all of it is in the copy. */
  #look(
    offset: number,
    unread: number,
    copied: number,
  ):
    | { readonly size: number; readonly report: Omit<RecordReport, 'position'> }
    | string
    | undefined {
    const { capacity, data } = this.#control;
    if (copied < recordHeaderBytes) return undefined;
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
    if (size > copied) return undefined;
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
    const payload = isShown && kind === Kind.frame ? this.#payloadOf(from, bytes) : undefined;
    const name = kindNames[kind] as RecordReport['kind'];
    return { size, report: { kind: name, bytes, frame, payload } };
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

  /** The beginning of the payload behind the header of a frame, which was checked. */
  #payloadOf(from: number, bytes: number): string | undefined {
    if (this.#payloadMaxBytes === 0) return undefined;
    const { data } = this.#control;
    const head = headerBytes(data.getUint8(from));
    const shown = Math.min(bytes - head, this.#payloadMaxBytes);
    return Buffer.from(data.buffer, data.byteOffset + from + head, shown).toString('base64');
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
