// SPDX-License-Identifier: MIT
// The table of the codes: the text of each, whether trying again helps, and what is known of the
// call.

/**
 * Can a handler of the peer have seen the call? `no`: none did and none will, and only then may it
 * be repeated blindly. `yes`: the peer has answered. `unknown`: it cannot be known.
 */
export type Delivered = 'no' | 'yes' | 'unknown';

/** Outcome of a call, as a status of gRPC; the numbers on the wire are those of gRPC, too. */
export type Status = (typeof statuses)[number];
/** A status that is not success. */
export type FailureStatus = Exclude<Status, 'ok'>;

/**
 * The statuses of a call, in the order of gRPC's numbers: `statuses[5]` is `not_found`. `RpcError`
 * takes one, and `error.status` is one.
 */
export const statuses = [
  'ok',
  'cancelled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
] as const;

interface Row {
  readonly text: string;
  readonly retryable: boolean;
  readonly delivered: Delivered;
  readonly status: FailureStatus;
}

function row(status: FailureStatus, retryable: boolean, delivered: Delivered, text: string): Row {
  return { text, retryable, delivered, status };
}

/** Every code with its default text. docs/errors.md is compared with this table by a test. */
export const errorTable = {
  ERR_SIDECALL_PEER_DENIED: row('permission_denied', false, 'no', 'the policy refused the peer'),
  ERR_SIDECALL_CREDENTIALS_UNAVAILABLE: row(
    'unauthenticated',
    true,
    'no',
    'the kernel would not say who the peer is',
  ),
  ERR_SIDECALL_PATH_UNSAFE: row(
    'failed_precondition',
    false,
    'no',
    'the socket or its directory is a link, or others own it or can write it',
  ),
  ERR_SIDECALL_PATH_TOO_LONG: row(
    'failed_precondition',
    false,
    'no',
    'the socket path has more bytes than a socket address holds',
  ),
  ERR_SIDECALL_PATH_IN_USE: row(
    'failed_precondition',
    false,
    'no',
    'a live listener holds the path',
  ),
  ERR_SIDECALL_PATH_LOST: row(
    'unavailable',
    true,
    'no',
    "the listener's socket file was deleted or replaced",
  ),
  ERR_SIDECALL_NO_LISTENER: row('unavailable', true, 'no', 'nobody listens at the path'),
  ERR_SIDECALL_HELLO_TIMEOUT: row(
    'unavailable',
    true,
    'no',
    'the peer did not finish the hello before its deadline',
  ),
  ERR_SIDECALL_VERSION_MISMATCH: row(
    'failed_precondition',
    false,
    'no',
    'the peer speaks no protocol version that we speak',
  ),
  ERR_SIDECALL_ADDON_UNAVAILABLE: row(
    'failed_precondition',
    false,
    'no',
    'this needs the native addon, which is not loaded',
  ),
  ERR_SIDECALL_SHM_UNAVAILABLE: row(
    'failed_precondition',
    false,
    'no',
    'the ring lane was required and cannot be had',
  ),
  ERR_SIDECALL_HELPER_FAILED: row(
    'unavailable',
    true,
    'no',
    'the helper did not start, or ended before its hello',
  ),
  ERR_SIDECALL_PROTOCOL: row(
    'internal',
    false,
    'unknown',
    'the peer did what no correct peer does',
  ),
  ERR_SIDECALL_FRAME_TOO_LARGE: row(
    'resource_exhausted',
    false,
    'unknown',
    'the peer exceeded the size that we announced',
  ),
  ERR_SIDECALL_RING_CORRUPT: row(
    'internal',
    false,
    'unknown',
    "the peer's outbox holds values that no correct peer writes",
  ),
  ERR_SIDECALL_PEER_GONE: row('unavailable', true, 'unknown', "the peer's end closed"),
  ERR_SIDECALL_PEER_UNRESPONSIVE: row(
    'unavailable',
    true,
    'unknown',
    'the peer did not answer in time',
  ),
  ERR_SIDECALL_CLOSED: row('unavailable', false, 'no', 'used after our own close'),
  ERR_SIDECALL_GOING_AWAY: row(
    'unavailable',
    true,
    'no',
    'the peer is closing and did not start this call',
  ),
  ERR_SIDECALL_LIMIT_CONNECTIONS: row('resource_exhausted', true, 'no', 'the listener is full'),
  ERR_SIDECALL_LIMIT_STREAMS: row(
    'resource_exhausted',
    true,
    'no',
    'too many calls are open on the session',
  ),
  ERR_SIDECALL_LIMIT_BYTES: row(
    'resource_exhausted',
    true,
    'no',
    'the send queue of the session is full',
  ),
  ERR_SIDECALL_LIMIT_DESCRIPTORS: row(
    'resource_exhausted',
    true,
    'no',
    'no file descriptor is left',
  ),
  ERR_SIDECALL_LIMIT_RATE: row(
    'resource_exhausted',
    true,
    'unknown',
    'the peer pings more often than it may',
  ),
  ERR_SIDECALL_MESSAGE_TOO_LARGE: row(
    'resource_exhausted',
    false,
    'no',
    'our message exceeds what the peer announced',
  ),
  ERR_SIDECALL_ENCODE: row('internal', false, 'no', 'the codec refused our value'),
  ERR_SIDECALL_DECODE: row('internal', false, 'yes', "the codec refused the peer's bytes"),
  ERR_SIDECALL_END_OF_STREAM: row(
    'failed_precondition',
    false,
    'no',
    'the stream has ended: nothing more can be sent or read',
  ),
  ERR_SIDECALL_DEADLINE_EXCEEDED: row('deadline_exceeded', false, 'unknown', 'the deadline passed'),
  ERR_SIDECALL_CANCELLED: row('cancelled', false, 'unknown', 'the caller gave up'),
  ERR_SIDECALL_RPC: row('unknown', false, 'yes', 'the handler failed'),
  ERR_SIDECALL_LEASE_RELEASED: row(
    'failed_precondition',
    false,
    'no',
    'a lease or block was used after it was given back',
  ),
  ERR_SIDECALL_SYSTEM: row('unknown', false, 'unknown', 'a system call failed'),
} as const satisfies Record<string, Row>;

/** Code of a {@link SidecallError}; docs/errors.md says when each occurs and what to do. */
export type SidecallErrorCode = keyof typeof errorTable;
