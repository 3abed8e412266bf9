// SPDX-License-Identifier: MIT
// The errors of the package: the table of their codes, and the two classes.

import { wordsOf } from './error-text.ts';
import type { Metadata } from './metadata.ts';

/**
 * Can a handler of the peer have seen the call? `no`: none did and none will, and only then may it be
 * repeated blindly. `yes`: the peer has answered. `unknown`: nobody knows.
 */
export type Delivered = 'no' | 'yes' | 'unknown';

/** Outcome of a call in gRPC's words; the numbers on the wire are gRPC's too. */
export type Status = (typeof statuses)[number];
/** A status that is not success. */
export type FailureStatus = Exclude<Status, 'ok'>;

/** By number: `statuses[5]` is `not_found`. */
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
  readonly words: string;
  readonly retryable: boolean;
  readonly delivered: Delivered;
  readonly status: FailureStatus;
}

function row(status: FailureStatus, retryable: boolean, delivered: Delivered, words: string): Row {
  return { words, retryable, delivered, status };
}

/** Every code with its default words. docs/errors.md is compared with this table by a test. */
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
    'the peer did not answer a ping in time',
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

/** What a {@link SidecallError} may be given beside its words. */
export interface SidecallErrorOptions extends ErrorOptions {
  /** Overrides the table: can trying again, perhaps later, succeed? */
  readonly retryable?: boolean | undefined;
  /** Overrides the table: did a handler see the call? */
  readonly delivered?: Delivered | undefined;
}

// Two copies of this package in one program are normal, so neither instanceof nor a private symbol.
const brand = Symbol.for('sidecall.error');

/** What this package throws. Branch on `code`: the words may change in any release. */
export class SidecallError extends Error {
  readonly code: SidecallErrorCode;
  /** Trying again, perhaps elsewhere or later, can succeed. */
  readonly retryable: boolean;
  /** Whether a handler of the peer saw the call. Only `retryable` with `no` is safe to repeat blindly. */
  readonly delivered: Delivered;
  /** The failure in gRPC's words, so that callers can treat every failed call alike. */
  readonly status: FailureStatus;
  /** The operating system's error number (negative, as in Node), where it spoke. */
  declare readonly errno?: number;
  /** The system call that failed, where the operating system spoke. */
  declare readonly syscall?: string;

  constructor(code: SidecallErrorCode, message?: string, options: SidecallErrorOptions = {}) {
    const { cause } = options;
    super(message ?? errorTable[code].words, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = options.retryable ?? errorTable[code].retryable;
    this.delivered = options.delivered ?? errorTable[code].delivered;
    this.status = errorTable[code].status;
    const system = systemFields(cause);
    if (system !== undefined) Object.assign(this, system);
  }

  /** True for errors of any copy of this package in the program. */
  static is(value: unknown): value is SidecallError {
    return typeof value === 'object' && value !== null && brand in value;
  }

  /** The only converter: ours stay as they are, anything else becomes the cause of a `SYSTEM` error. */
  static from(value: unknown, code: SidecallErrorCode = 'ERR_SIDECALL_SYSTEM'): SidecallError {
    if (SidecallError.is(value)) return value;
    const words = `${errorTable[code].words}: ${wordsOf(value)}`;
    return new SidecallError(code, words, { cause: value });
  }

  static {
    // On the prototype: neither own nor enumerable, so that a printed error stays clean.
    Object.defineProperty(SidecallError.prototype, 'name', { value: 'SidecallError' });
    Object.defineProperty(SidecallError.prototype, brand, { value: true });
  }
}

/** What an {@link RpcError} may carry beside its status and words. */
export interface RpcErrorOptions extends ErrorOptions {
  /** Any JSON value; reaches the caller as it is. Words, details and metadata: 64 KiB together. Default: none. */
  readonly details?: unknown;
  /** Key-values that reach the caller. Default: none. */
  readonly metadata?: Metadata | undefined;
}

/**
 * What a handler said. Throw it in a handler to choose what the caller sees; anything else that a
 * handler throws reaches the caller as `internal`, without words, because stacks name paths.
 */
export class RpcError extends SidecallError {
  override readonly status: FailureStatus;
  /** The JSON value that the handler attached, or undefined. */
  readonly details: unknown;
  /** What the handler attached as key-values. */
  readonly metadata: Metadata;

  /** @throws {TypeError} `ERR_INVALID_ARG_VALUE` where `status` is not a failure status. */
  constructor(status: FailureStatus, message = '', options: RpcErrorOptions = {}) {
    if (!statuses.includes(status) || (status as Status) === 'ok') {
      throw nodeError(
        TypeError,
        'ERR_INVALID_ARG_VALUE',
        `status '${String(status)}' is no failure`,
      );
    }
    super('ERR_SIDECALL_RPC', message, {
      cause: options.cause,
      retryable: status === 'unavailable',
    });
    this.status = status;
    this.details = options.details;
    this.metadata = options.metadata ?? {};
  }

  static override is(value: unknown): value is RpcError {
    return SidecallError.is(value) && value.code === 'ERR_SIDECALL_RPC';
  }

  static {
    Object.defineProperty(RpcError.prototype, 'name', { value: 'RpcError' });
  }
}

// Errors that a peer has sent, of any copy of this package: what a handler throws of its own is told to its caller.
const received = Symbol.for('sidecall.error.received');

/** The error as a peer's: who lets it pass through a handler does not pass on what it says. */
export function fromPeer(error: RpcError): RpcError {
  Object.defineProperty(error, received, { value: true });
  return error;
}

/** A peer has sent it. */
export function isFromPeer(error: RpcError): boolean {
  return received in error;
}

/**
 * An error that a peer can cause thousands of times a second, made by `make`. It has no stack, which would say
 * nothing of use and takes V8 longer than the rest of the error.
 */
export function withoutStack(make: () => SidecallError): SidecallError {
  const { stackTraceLimit } = Error;
  Reflect.set(Error, 'stackTraceLimit', 0); // does not throw where the program has frozen Error
  try {
    return make();
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/** Misuse has Node's own codes: it is a bug of the caller, not an outcome. */
export function nodeError<E extends Error>(
  Kind: new (message: string) => E,
  code: 'ERR_OUT_OF_RANGE' | 'ERR_INVALID_ARG_TYPE' | 'ERR_INVALID_ARG_VALUE',
  message: string,
): E & { code: string } {
  return Object.assign(new Kind(message), { code });
}

function systemFields(cause: unknown): { errno: number; syscall: string } | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { errno, syscall } = cause as { errno?: unknown; syscall?: unknown };
  if (typeof errno !== 'number' || typeof syscall !== 'string') return undefined;
  return { errno, syscall };
}
