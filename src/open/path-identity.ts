// SPDX-License-Identifier: MIT
// The peer of a connection that only the permissions of its path protect.

import { SidecallError } from '../base/errors.ts';
import { nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import type { PeerPolicy } from '../uds/peer-policy.ts';

/** The source of a peer's identity: the kernel, or the permissions of its path alone. */
export type Identity = 'kernel' | 'path-permissions';

/** @throws {TypeError} for anything else. */
export function checkIdentity(identity: Identity | undefined): Identity {
  if (identity === undefined) return 'kernel';
  if (identity === 'kernel' || identity === 'path-permissions') return identity;
  const text = `identity must be kernel or path-permissions, got '${String(identity)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/**
 * A peer without ids, for the option `identity: 'path-permissions'`.
 * @throws {SidecallError} `ERR_SIDECALL_ADDON_UNAVAILABLE` without that option;
 * `TypeError` for rules about ids.
 */
export function pathPeer(
  what: string,
  identity: Identity,
  policy: PeerPolicy | undefined,
  reason: string,
): Peer {
  if (identity !== 'path-permissions') {
    const text = `${what} asks the kernel who the peer is, which needs the addon: ${reason}; identity: 'path-permissions' does without, and without its promise`;
    throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', text);
  }
  if (policy !== undefined && typeof policy !== 'function') {
    const text = `${what} with identity 'path-permissions' knows no ids, so only a function may be the policy`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  return Object.freeze({
    origin: 'path',
    capturedAt: 'connect',
    pid: undefined,
    pidIsHint: false,
    uid: undefined,
    gid: undefined,
    groups: undefined,
  });
}
