// SPDX-License-Identifier: MIT
// Numbers that are ours alone: no peer knows them, and they may change in any release.
// docs/security.md lists them, and a test compares the two.

const KiB = 1024;
const MiB = 1024 * KiB;

/** Choices of this package. Sizes are in bytes, times in milliseconds. */
export const tuning = {
  /**
   * Bytes that the running handlers of a session are expected to answer together. Beyond it
   * requests wait.
   */
  answersMaxBytes: 64 * MiB,
  /**
   * Handlers of each method that start regardless of the expected size of their answers, since
   * an estimate may be wrong.
   */
  startsAtOnceMax: 16,
  /** Pause after which one more handler starts of a method that only its estimate holds back. */
  startPauseMs: 100,
  /**
   * Memory of a thread that is kept to receive messages in: 16 of two mebibytes under way, and as
   * many answers, or one of 64 MiB. A thread that is quiet keeps none (base/buffer-pool.ts).
   */
  receivePoolMaxBytes: 64 * MiB,
  /**
   * Longest message that is a slice of an array buffer where the application keeps it, and the
   * multiple of its length that such a slice holds at most (base/message-slabs.ts).
   */
  slicedMaxBytes: 16 * KiB,
  heldMultipleMax: 8,
  /** Numbers that a thread keeps in its heap while it is busy (base/heap-ballast.ts). */
  heapBallastBytes: 16 * MiB,
  /**
   * From this length on the first piece of a message is received where the message will lie; a
   * shorter one is copied.
   */
  placedMinBytes: 4 * KiB,
  /** Calls of a session, or of a helper between two processes, that may wait to be sent. */
  waitingCallsMax: 131_072,
  /**
   * Longest wait of a notification that the handler of a notification sends, since both sides
   * may wait for each other.
   */
  replyWaitMaxMs: 30_000,
  /** Deadlines that pass, and waits of one signal that end, in one iteration of the event loop. */
  endsPerIterationMax: 500,
  /** Messages of a stream that may wait to be sent. */
  waitingSendsMax: 65_536,
  /** Channels of one name that may wait to be accepted. */
  waitingChannelsMax: 64,
  /**
   * Messages of a stream up to this length are copied where they wait; a longer one is sent from
   * the caller's memory.
   */
  copiedSendMaxBytes: 16 * KiB,
  /** Most time that work on shared memory adds to the time-out of a hello. */
  helloWorkMaxMs: 30_000,
  /** A session that lived as long is no failure of its listener: the next try is at once. */
  stableSessionMs: 1_000,
  /** Time of one step of the other side in a hand-over. */
  handOverStepMs: 10_000,
  /** Longest time for which a listener accepts no connection, while a successor is about to. */
  handOverPauseMs: 250,
  /** Longest time after which a process that did not finish a hand-over may try again. */
  handOverHeldOffMaxMs: 60_000,
  /** Time to learn whether the listener before has died in the middle of a hand-over. */
  handOverLockMs: 2_000,
  /** A member of a pool is slow from this multiple of the median of all members. */
  slowMemberRatio: 4,
  /** Answers in a row from which a member counts as slow. */
  slowMemberAnswers: 16,
  /** The most that the load of a slow member is multiplied by. */
  slownessMax: 64,
  /** Time after which a slow member gets a call again as any other. */
  slowMemberRetryMs: 5_000,
  /** Answers up to this time are the same: less is noise of the event loop. */
  fastAnswerMs: 0.05,
  /** Time between two looks at the age and memory of the helpers of a pool. */
  recycleLookMs: 1_000,
  /** Time after a fresh helper that did not start. */
  recycleRetryMs: 10_000,
  /** Deadline for the close of an idle session. */
  idleCloseMs: 5_000,
  /** Time that a peer has to close behind its goaway: a minute more than `close()` can be given. */
  leavingMaxMs: 660_000,
  /** A timer that fires later than this shows that the process was stopped. */
  lateTimerMs: 1_000,
  /**
   * Bytes that `ctx.cancelledNow()` searches for a cancel of its call. A cancel behind them
   * takes effect in its turn.
   */
  cancelAheadMaxBytes: 256 * KiB,
  /** Bytes that may wait in a socket before frames are refused. */
  socketWriteMaxBytes: 256 * KiB,
  /** The same for pieces of long messages, so that short ones find room. */
  socketBulkMaxBytes: 128 * KiB,
  /**
   * Time without a byte after which a connection counts as silent: silent ones are dropped first
   * where there is no place for another.
   */
  quietHelloMs: 100,
  /**
   * Longest piece of a long message while short messages go beside it, and the bytes of long
   * messages behind the last short one for which that stays so.
   */
  sharedPieceBytes: 16 * KiB,
  sharedPiecesBytes: MiB,
  /** Frames, bytes and time of one session in a turn of the event loop. */
  drainRecordsMax: 256,
  drainBytesMax: 256 * KiB,
  drainMaxMs: 2,
  /** Least time of a session in a turn that has less left. */
  drainLeastMs: 0.25,
  /**
   * Time of all sessions of a thread in a turn: once as frames arrive, and once for the poller (ADR
   * 0020).
   */
  pollTurnMaxMs: 1.5,
  /** Polls in vain after which a ring sleeps at once. */
  pollFailuresMax: 8,
  /** Most wake-ups without polling before it is tried again. */
  pollProbeWakesMax: 64,
  /** Longest time that a doorbell may be owed for want of memory in the kernel. */
  doorbellOwedMaxMs: 100,
} as const;
