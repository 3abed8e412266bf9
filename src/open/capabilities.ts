// SPDX-License-Identifier: MIT
// The capabilities of this host, and our own credentials as a peer sees them.

import { nativeState, requireNative } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { RingMemory } from '../shm/hello-memory.ts';
import { socketPathMaxBytes } from '../uds/socket-directory.ts';
import { ringMemoryMaxBytes } from './configure.ts';

/** The result of {@link capabilities}. No member throws, and no peer is involved. */
export interface Capabilities {
  /** Platform and architecture, as `linux-x64`. */
  readonly platform: string;
  /** Node's version. */
  readonly node: string;
  /** Is the native addon loaded? */
  readonly addon: boolean;
  /** The file that it was loaded from; undefined: it was not loaded. */
  readonly addonFile: string | undefined;
  /** Why it was not loaded; undefined where it was. */
  readonly addonReason: string | undefined;
  /** Can `connect()` and `listen()` ask the kernel who the peer is? */
  readonly peerCredentials: boolean;
  /** Can `spawnHelper()` start helpers? */
  readonly helpers: boolean;
  /** Do helpers die with the thread that started them even while their loop is blocked? */
  readonly helpersDieWithParent: boolean;
  /** Lanes that a session of this process can get. */
  readonly lanes: readonly ('ring' | 'socket')[];
  /** Why no session of this process can get the ring lane; undefined where it can. */
  readonly ringReason: string | undefined;
  /** Longest socket path, in bytes. */
  readonly socketPathMaxBytes: number;
}

/** Tells which features work on this host, and why others do not. */
export function capabilities(): Capabilities {
  const { addon, file, reason } = nativeState();
  const ringReason = noRingReason();
  const isPosix = process.platform === 'linux' || process.platform === 'darwin';
  return {
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    addon: addon !== undefined,
    addonFile: file,
    addonReason: reason,
    peerCredentials: addon !== undefined,
    helpers: isPosix,
    helpersDieWithParent: addon !== undefined && process.platform === 'linux',
    lanes: ringReason === undefined ? ['ring', 'socket'] : ['socket'],
    ringReason,
    socketPathMaxBytes,
  };
}

/** By making the smallest outbox there is, and giving it back. */
function noRingReason(): string | undefined {
  const { addon, reason } = nativeState();
  if (addon === undefined) return `there is no addon: ${reason}`;
  const memory = new RingMemory(addon, {
    ringBytes: ranges.ringBytes.min,
    blockAreaBytes: 0,
    takesBlocks: false,
    shareMaxBytes: ringMemoryMaxBytes(),
    waits: false,
    owner: 0,
    signal: new AbortController().signal,
    clock: systemClock,
  });
  void memory.create(); // memory as small as this is made at once
  memory.close();
  return memory.failure;
}

/** Our own ids as a peer's kernel shows them. */
export interface OwnCredentials {
  readonly pid: number;
  /** Effective user id. */
  readonly uid: number;
  /** Effective group id. */
  readonly gid: number;
  /** Supplementary groups. */
  readonly groups: readonly number[];
}

/**
 * Our own ids, by system calls only: right even under a uid that no user database knows.
 * @throws {SidecallError} `ERR_SIDECALL_ADDON_UNAVAILABLE`.
 */
export function ownCredentials(): OwnCredentials {
  return requireNative('ownCredentials()').ownCredentials();
}
