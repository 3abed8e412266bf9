// SPDX-License-Identifier: MIT
// Numbers that both ends of a session must agree on, so a change is a change of the protocol.
// docs/security.md lists them, and a test compares the two.

const KiB = 1024;

/** Limits of the protocol, which no option moves. Sizes are in bytes, times in milliseconds. */
export const wireLimits = {
  /**
   * Longest payload of a frame. A longer message is cut, so that a short one behind it waits for a
   * piece at most.
   */
  fragmentBytes: 64 * KiB,
  /** Longest header of a frame. The types of today take 36; the rest is for types to come. */
  frameHeaderMaxBytes: 120,
  /**
   * Bytes that each message is charged in a window beside its own: the cost of keeping one.
   */
  messageOverheadBytes: 64,
  /** Keys in the metadata of one call. */
  metadataEntriesMax: 64,
  /**
   * Methods that a session numbers in each direction. The names of further ones travel with each
   * call.
   */
  methodsMax: 4096,
  /** Longest name of a method or channel, in bytes of UTF-8. */
  methodNameMaxBytes: 256,
  /** Deepest nesting of a JSON value: a deeper one would exhaust the stack of some decoder. */
  jsonDepthMax: 64,
  /** Byte arrays in one JSON message. */
  attachmentsMax: 64,
  /** Longest message that a stream may have under way when the window of all streams is used up. */
  beyondMaxBytes: 16 * KiB,
  /** Longest request to a built-in service that is opened beyond the number of streams. */
  extraMaxBytes: 4 * KiB,
  /** A block area is a multiple of this. */
  blockAreaUnitBytes: 16 * KiB,
  /** Longest name and metadata in front of a message that lies in a block. */
  blockPrefixMaxBytes: 4 * KiB,
  /** Least time between two pings of a peer; `pingStrikes` in a row may come earlier. */
  pingIntervalMs: 1_000,
  pingStrikes: 2,
} as const;
