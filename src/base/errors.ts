// SPDX-License-Identifier: MIT
// The two error classes of the package, and the conversion of other errors.

import {
  type Delivered,
  errorTable,
  type FailureStatus,
  type SidecallErrorCode,
  type Status,
  statuses,
} from './error-codes.ts';
import { errorText } from './error-text.ts';
import type { Metadata } from './metadata.ts';
import { nodeError } from './misuse.ts';

/** Options of a {@link SidecallError} beside its text. */
export interface SidecallErrorOptions extends ErrorOptions {
  /** Overrides the table: can trying again, perhaps later, succeed? */
  readonly retryable?: boolean | undefined;
  /** Overrides the table: did a handler see the call? */
  readonly delivered?: Delivered | undefined;
}

// Two copies of this package in one program are normal, so neither instanceof nor a private symbol.
const brand = Symbol.for('sidecall.error');

/**
 * The error of this package. Branch on `code`: the text may change in any release.
 * @example
 * ```ts
 * import { type Session, SidecallError } from 'sidecall';
 *
 * async function save(session: Session): Promise<void> {
 *   try {
 *     await session.call('Store.save', { id: 1 }, { timeoutMs: 1_000 });
 *   } catch (error) {
 *     if (!SidecallError.is(error) || !error.retryable || error.delivered !== 'no') throw error;
 *     await session.call('Store.save', { id: 1 }); // no handler has seen it: it can be sent again
 *   }
 * }
 * ```
 */
export class SidecallError extends Error {
  readonly code: SidecallErrorCode;
  /** Trying again, perhaps elsewhere or later, can succeed. */
  readonly retryable: boolean;
  /**
   * Whether a handler of the peer saw the call. Only `retryable` with `no` is safe to repeat
   * blindly.
   */
  readonly delivered: Delivered;
  /** The failure in gRPC's words, so that callers can treat every failed call alike. */
  readonly status: FailureStatus;
  /** The operating system's error number (negative, as in Node), if the cause has one. */
  declare readonly errno?: number;
  /** The system call that failed, if the cause names one. */
  declare readonly syscall?: string;

  /** A failed system call without a free descriptor has a code of its own. */
  constructor(given: SidecallErrorCode, message?: string, options: SidecallErrorOptions = {}) {
    const { cause } = options;
    const isOfSystem = given === 'ERR_SIDECALL_SYSTEM' || given === 'ERR_SIDECALL_HELPER_FAILED';
    const isExhausted = isOfSystem && isDescriptorWant(cause);
    const code = isExhausted ? 'ERR_SIDECALL_LIMIT_DESCRIPTORS' : given;
    const { text, retryable, delivered, status } = errorTable[code];
    const words = isExhausted && message !== undefined ? `${message}; ${text}` : (message ?? text);
    super(words, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = options.retryable ?? retryable;
    this.delivered = options.delivered ?? delivered;
    this.status = status;
    const system = systemFields(cause);
    if (system !== undefined) Object.assign(this, system);
  }

  /** True for errors of any copy of this package in the program. */
  static is(value: unknown): value is SidecallError {
    try {
      return typeof value === 'object' && value !== null && brand in value;
    } catch {
      return false; // a proxy that throws
    }
  }

  /**
   * The only converter: ours stay as they are, anything else becomes the cause of a
   * `ERR_SIDECALL_SYSTEM` error.
   */
  static from(value: unknown, code: SidecallErrorCode = 'ERR_SIDECALL_SYSTEM'): SidecallError {
    if (SidecallError.is(value)) return value;
    const text = `${errorTable[code].text}: ${errorText(value)}`;
    return new SidecallError(code, text, { cause: value });
  }

  static {
    // On the prototype: neither own nor enumerable, so that a printed error stays clean.
    Object.defineProperty(SidecallError.prototype, 'name', { value: 'SidecallError' });
    Object.defineProperty(SidecallError.prototype, brand, { value: true });
  }
}

/** Options of an {@link RpcError} beside its status and text. */
export interface RpcErrorOptions extends ErrorOptions {
  /**
   * Any JSON value; reaches the caller as it is. Words, details and metadata: 64 KiB together.
   * Default: none.
   */
  readonly details?: unknown;
  /** Key-values that reach the caller. Default: none. */
  readonly metadata?: Metadata | undefined;
}

/**
 * The error of a handler. Throw it in a handler to choose what the caller sees; anything else that
 * a handler throws reaches the caller as `internal`; its message is sent only to a process of the
 * own user under the default policy, because messages name paths.
 * @example
 * ```ts
 * import { RpcError } from 'sidecall';
 *
 * function find(id: number): string {
 *   if (id !== 1) throw new RpcError('not_found', `no document ${id}`, { details: { id } });
 *   return 'text';
 * }
 * ```
 */
export class RpcError extends SidecallError {
  override readonly status: FailureStatus;
  /** The JSON value that the handler attached, or undefined. */
  readonly details: unknown;
  /** The key-values that the handler attached. */
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

  /** The text as the handler gave it; `message` of a received error names the method, too. */
  get rawMessage(): string {
    return (this as { [receivedText]?: string })[receivedText] ?? this.message;
  }

  static override is(value: unknown): value is RpcError {
    return SidecallError.is(value) && value.code === 'ERR_SIDECALL_RPC';
  }

  static {
    Object.defineProperty(RpcError.prototype, 'name', { value: 'RpcError' });
  }
}

// Mark of errors that a peer has sent, the same for all copies of this package. Their details are
// not passed on, unlike those of an error that a handler makes itself.
const received = Symbol.for('sidecall.error.received');
const receivedText = Symbol('text of the peer');

/**
 * Marks an error as received from a peer, which gave it this text: a handler that rethrows it does
 * not pass on its details and metadata.
 */
export function fromPeer(error: RpcError, text: string): RpcError {
  Object.defineProperty(error, received, { value: true });
  Object.defineProperty(error, receivedText, { value: text });
  return error;
}

/** True: {@link fromPeer} has marked the error. */
export function isFromPeer(error: RpcError): boolean {
  return received in error;
}

/**
 * An error that a peer can cause thousands of times a second, made by `make`. It has no stack,
 * which would say nothing of use and takes V8 longer than the rest of the error.
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

/** True: an error of the system that has, or leaves this process, no free file descriptor. */
export function isDescriptorWant(cause: unknown): boolean {
  const code = fieldOf(cause, 'code');
  return code === 'EMFILE' || code === 'ENFILE';
}

function systemFields(cause: unknown): { errno: number; syscall: string } | undefined {
  const [errno, syscall] = [fieldOf(cause, 'errno'), fieldOf(cause, 'syscall')];
  if (typeof errno !== 'number' || typeof syscall !== 'string') return undefined;
  return { errno, syscall };
}

/** A field of anything that was thrown; undefined where it cannot be read. */
function fieldOf(thrown: unknown, name: string): unknown {
  try {
    return (thrown as Record<string, unknown> | null | undefined)?.[name];
  } catch {
    return undefined;
  }
}
