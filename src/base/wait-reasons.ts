// SPDX-License-Identifier: MIT
// The reasons for which something in a session waits: in numbers, in events and in reports.

/** Each reason, with what waits for it. Messages of a call that was not sent wait as the call. */
export const waitReasons = [
  /** Our calls: as many are open as the peer allows. */
  'slot',
  /** Places of calls that we gave up, until their handlers have settled. They hold a `slot`. */
  'given-up',
  /** Our requests: earlier ones wait for their handlers. */
  'request-window',
  /** Our notifications: handlers of earlier ones have not settled. */
  'notification-window',
  /** Our answers: the peer has not read earlier ones. */
  'answer-window',
  /** Our messages of a stream: its reader has not taken earlier ones. */
  'stream-window',
  /** Our messages of streams: the readers of all streams have not taken earlier ones. */
  'session-window',
  /** Our messages: `sendQueueMaxBytes` of others wait. */
  'send-queue',
  /** Frames of ours that the lane has no room for: the peer does not read. */
  'peer',
  /** Requests of the peer: answers of ours wait to be sent. */
  'answers-unread',
  /**
   * Requests of the peer: the expected answers of running handlers reach their limit, or no call
   * of the method was answered yet and 16 of it run.
   */
  'answers-expected',
  /**
   * Notifications of the peer: `streamsMax` handlers run, or answers of ours wait to be sent.
   * Requests, for one turn of the event loop: `streamsMax` handlers run.
   */
  'handlers',
  /** Requests of the peer: nothing is served yet. */
  'serve',
] as const;

/** Why something waits: a key of `session.stats().waits`. */
export type WaitReason = (typeof waitReasons)[number];
