// SPDX-License-Identifier: MIT
// The memory of a flight recorder: where its parts lie. docs/protocol.md draws it. Numbers are in
// the byte order of the machine, since writer and reader are processes of one machine.

/** First bytes: the format and its version. */
export const recorderMagic = 'sdclrec1';
/** All of the memory. */
export const recorderBytes = 262_144;

/** Byte offsets of the fields of its head. */
export const Head = {
  /** u32: the process that writes. */
  pid: 8,
  /** u32: handlers that run at this moment without an entry, since all were in use. */
  unlisted: 12,
  /**
   * f64: the machine's monotonic clock in milliseconds, when the clock of the records was 0; 0: the
   * runtime does not tell it.
   */
  monotonicOriginMs: 16,
  /** f64: milliseconds since 1970, when the clock of the records was 0. */
  epochOriginMs: 24,
  /**
   * f64: the machine's monotonic clock when the copy was made; 0: the runtime does not tell it. The
   * parent writes it.
   */
  copiedAtMs: 32,
  /**
   * u32, and as many bytes of UTF-8 behind it: the end of the process, in words; of no length where
   * it ran. The parent writes it.
   */
  endText: 40,
  /** f64: milliseconds since 1970 when the copy was made. The parent writes it. */
  copiedAtEpochMs: 560,
  /** f64: the time of the last record, on the clock of the records. */
  lastAtMs: 568,
} as const;

/** Bytes of the text of an end at most. */
export const endTextMaxBytes = 512;

/** Entries of handlers that run: 8 words each. */
export const RunningEntry = {
  begin: 1_024,
  count: 512,
  words: 8,
  /** Words of an entry. `session` is written last; 0: the entry is free. */
  session: 0,
  slot: 1,
  generation: 2,
  name: 3,
  /** f64: when the handler was called, on the clock of the records. */
  since: 4,
  kind: 6,
} as const;

/** Records of frames, and of the ends of sessions: 8 words each, written round and round. */
export const FrameRecord = {
  begin: 17_408,
  count: 4_096,
  words: 8,
  /** 1, 2, 3 …, written last, without 0; 0: the record is being written, or never was. */
  sequence: 0,
  /** The event ({@link RecordEvent}), and from bit 8 on the session. */
  event: 1,
  /** The first three words of the header of the frame. */
  header: 2,
  /** Bytes behind the header; of a credit the bytes that it grants, of a clock its time. */
  bytes: 5,
  /** The last look at the clock before, in 1/{@link ticksPerMs} of a millisecond; it goes round. */
  ticks: 6,
  /** The number of the name of the method; 0: unknown. */
  name: 7,
} as const;

/** A word of ticks goes round once in three days. */
export const ticksPerMs = 16;

/** The events of records. */
export const RecordEvent = {
  sent: 1,
  received: 2,
  /** The word of the slot is the pid of the peer. */
  sessionBegan: 3,
  sessionEnded: 4,
} as const;

/** Names of methods, in the order of their numbers from 1 on: u16 length, UTF-8. 0 ends them. */
export const namesBegin = FrameRecord.begin + FrameRecord.count * FrameRecord.words * 4;
/** The number of names that were not written. */
export const nameless = 0xffff_ffff;
/** A longer name is cut. */
export const nameMaxBytes = 255;
