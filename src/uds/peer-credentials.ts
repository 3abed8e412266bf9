// SPDX-License-Identifier: MIT
// The identity of the process at the other end, as the kernel says.
import { readFileSync } from 'node:fs';
import type { NativeAddon } from '../addon/addon-api.ts';
import { SidecallError } from '../base/errors.ts';
import type { Peer } from '../base/peer.ts';

/** A peer, and whether its process is alive, where the kernel says so. */
export interface KnownPeer {
  readonly peer: Peer;
  readonly isAlive: boolean | undefined;
}

/**
 * The process at the other end, by the credentials of the kernel.
 * @throws {SidecallError} `ERR_SIDECALL_CREDENTIALS_UNAVAILABLE` where any look-up fails, or the
 * process that connected is gone already.
 */
export function kernelPeer(
  native: NativeAddon,
  fd: number,
  capturedAt: 'connect' | 'listen' | 'spawn',
): KnownPeer {
  try {
    const { pid, pidIsHint, uid, gid, groups, isAlive } = native.peerCredentials(fd);
    const origin = capturedAt === 'spawn' ? 'parent' : 'kernel';
    const peer: Peer = { origin, capturedAt, pid, pidIsHint, uid, gid, groups };
    if (capturedAt !== 'connect' || isAlive !== false)
      return { peer: Object.freeze(peer), isAlive };
  } catch (cause) {
    const text = `the kernel would not say who the peer is: ${(cause as Error).message}`;
    throw new SidecallError('ERR_SIDECALL_CREDENTIALS_UNAVAILABLE', text, { cause });
  }
  const text = 'the process that connected has ended already';
  throw new SidecallError('ERR_SIDECALL_CREDENTIALS_UNAVAILABLE', text);
}

/**
 * The owner of the work and the memory that a peer causes: its pid; 0 for our own process; -1 - uid
 * for all processes of a uid that are not visible here.
 */
export function ownerOf({ pid = 0, uid = 0 }: Pick<Peer, 'pid' | 'uid'>): number {
  if (pid === process.pid) return 0;
  return pid > 0 ? pid : -1 - uid;
}

/** Ids that there are: 0 to 2^32 - 2. */
const idsMax = 0xffff_ffff;

/** Our own effective uid, the default of every policy. */
export function ownUid(): number {
  return process.geteuid?.() ?? -1;
}

/**
 * The uid that the kernel shows for an id without a name in our user namespace; -1 where each id
 * has a name, so that this uid is that of an ordinary user.
 */
export const unmappedUid = readUnmappedUid();

/** `map`: the text of `/proc/self/uid_map`, `overflow` that of `/proc/sys/kernel/overflowuid`. */
export function unmappedUidIn(map: string, overflow: string): number {
  const counts = map.split('\n').map((line) => Number(line.trim().split(/\s+/)[2] ?? 0));
  const mapped = counts.reduce((sum, count) => sum + count, 0);
  return mapped >= idsMax ? -1 : Number(overflow);
}

function readUnmappedUid(): number {
  try {
    const map = readFileSync('/proc/self/uid_map', 'latin1');
    return unmappedUidIn(map, readFileSync('/proc/sys/kernel/overflowuid', 'latin1'));
  } catch {
    return 65534; // not Linux, or no /proc: the value that every kernel starts with
  }
}
