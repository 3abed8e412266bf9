// SPDX-License-Identifier: MIT
// The options of sidecall/shmipc.
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, nodeError } from '../base/misuse.ts';

/** Options of both roles. */
export interface ShmipcOptions {
  /**
   * Must be `true`: the memory of shmipc-go is written by both processes. Its peer can change a
   * message while it is read, give one slice to two messages, and end this process by shortening a
   * file. Only programs that may do what this process may do are peers.
   */
  readonly trustsPeerMemory: true;
  /**
   * Bytes of one session that wait for slow readers; then the peer is not received from, since
   * shmipc-go has no flow control of single streams. Default 64 MiB; 64 KiB to 1 GiB.
   */
  readonly unreadMaxBytes?: number | undefined;
  /**
   * Milliseconds after which a peer that takes nothing of what waits for it is given up. Default:
   * never; 1,000 to 2,147,483,647.
   */
  readonly stallTimeoutMs?: number | undefined;
}

/** Checked {@link ShmipcOptions}. */
export interface ShmipcSettings {
  readonly unreadMaxBytes: number;
  /** 0: never. */
  readonly stallTimeoutMs: number;
}

const unread = { standard: 64 * 1024 * 1024, min: 64 * 1024, max: 1024 * 1024 * 1024 };

/** The names of {@link ShmipcOptions}. */
export const shmipcNames = ['trustsPeerMemory', 'unreadMaxBytes', 'stallTimeoutMs'] as const;

/** @throws {TypeError | RangeError} for misuse. */
export function checkShmipc(name: string, options: ShmipcOptions): ShmipcSettings {
  if (options.trustsPeerMemory !== true) {
    const text = `${name} needs trustsPeerMemory: true, since the peer writes the memory that is read here`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  return {
    unreadMaxBytes: checkInteger('unreadMaxBytes', options.unreadMaxBytes, unread),
    stallTimeoutMs: checkInteger('stallTimeoutMs', options.stallTimeoutMs, ranges.stallTimeoutMs),
  };
}
