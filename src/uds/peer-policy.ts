// SPDX-License-Identifier: MIT
// The policy that decides whether to talk to a peer.
import { SidecallError } from '../base/errors.ts';
import { checkBoolean, checkKeys, nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { type KnownPeer, ownUid, unmappedUid } from './peer-credentials.ts';

/**
 * Which peers are accepted: every field given must match. Where none of `uid`, `gid` and `groups`
 * is given, the peer must run under our own effective uid. Uid 65534 ("unmapped") is not accepted
 * unless `unmapped` says so, where our user namespace does not map each uid; where it does, as on a
 * host, 65534 is a user like any other.
 */
export interface PeerRules {
  /** Effective user id, or several. */
  readonly uid?: number | readonly number[] | undefined;
  /** Effective group id, or several. */
  readonly gid?: number | readonly number[] | undefined;
  /** The peer's effective or one of its supplementary groups is one of these. */
  readonly groups?: number | readonly number[] | undefined;
  /** Process id, or several; the process must still be alive where the kernel can tell. */
  readonly pid?: number | readonly number[] | undefined;
  /**
   * Accepts peers whose user our user namespace does not know, too: processes of containers with
   * users of their own. The kernel shows all of them as uid 65534, so that any such process that
   * reaches the socket is accepted: let the permissions of its directory decide which can.
   * `uid`, `gid` and `groups` do not apply to such a peer. Default: no.
   */
  readonly unmapped?: boolean | undefined;
}

/** Rules, or a function of the peer: only `true` accepts; throwing or never settling refuses. */
export type PeerPolicy = PeerRules | ((peer: Peer) => boolean | Promise<boolean>);

const ruleNames = ['uid', 'gid', 'groups', 'pid'] as const;

const idMax = 0xffff_fffe;

/**
 * @throws {TypeError} for anything that is not a policy. `others`: further options beside the
 * rules.
 */
export function checkPolicy(
  what: string,
  policy: PeerPolicy | undefined,
  others: readonly string[] = [],
): void {
  if (policy === undefined || typeof policy === 'function') return;
  if (typeof policy !== 'object' || policy === null) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${what} must be rules or a function`);
  }
  const named = policy as object as Record<string, unknown>;
  checkKeys(what, named, [...ruleNames, 'unmapped', ...others]);
  checkBoolean(`${what}.unmapped`, policy.unmapped);
  for (const name of ruleNames) checkIds(`${what}.${name}`, policy[name]);
}

/** @throws {TypeError} for what is no id, and no list of ids. */
export function checkIds(what: string, ids: number | readonly number[] | undefined): void {
  const list = listOf(ids);
  if (list?.length === 0) {
    const text = `${what} is an empty list, which refuses everybody`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  for (const id of list ?? []) {
    if (Number.isInteger(id) && id >= 0 && id <= idMax) continue;
    const text = `${what} must be an id or a list of ids, got ${String(id)}`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
}

/**
 * Decides. The signal bounds a policy that never settles.
 * @throws {SidecallError} `ERR_SIDECALL_PEER_DENIED`, saying which rule refused.
 */
export async function authorize(
  policy: PeerPolicy | undefined,
  known: KnownPeer,
  signal: AbortSignal,
): Promise<void> {
  const { peer } = known;
  if (typeof policy !== 'function') {
    const refusal = refusalByRules(policy, known);
    if (refusal !== undefined) throw refusal;
    return;
  }
  if (peer.uid === unmappedUid) throw denied(peer, unmappedText);
  if (await accepts(policy, peer, signal)) return;
  throw denied(peer, 'the policy function did not accept it');
}

/** Compares at once. Returns the error that says which rule refused; undefined: none did. */
export function refusalByRules(
  rules: PeerRules | undefined,
  { peer, isAlive }: KnownPeer,
): SidecallError | undefined {
  if (peer.uid === unmappedUid && rules?.unmapped !== true) return denied(peer, unmappedText);
  const refusal = refusalOf(rules ?? {}, peer, isAlive);
  return refusal === undefined ? undefined : denied(peer, refusal);
}

const unmappedText =
  'its uid is unmapped: 65534 stands for all users of other user namespaces (containers); the rule unmapped: true accepts them';
const invisiblePidText =
  'its pid is unknown: it runs in another pid namespace (a container); a policy function, such as (peer) => peer.uid === 1000, can accept it';

/** The ids in words, for events and messages. */
function describePeer(peer: Peer): string {
  if (peer.uid === undefined) return `a peer that only the path vouches for`;
  return `pid ${peer.pid}, uid ${peer.uid}, gid ${peer.gid}`;
}

export function listOf<T>(value: T | readonly T[] | undefined): readonly T[] | undefined {
  if (value === undefined) return undefined;
  return Array.isArray(value) ? (value as readonly T[]) : [value as T];
}

function refusalOf(rules: PeerRules, peer: Peer, isAlive: boolean | undefined): string | undefined {
  const { uid, gid, pid } = peer;
  if (uid === undefined || gid === undefined) return 'its ids are unknown';
  if (uid === unmappedUid) return refusalOfPid(rules, pid, isAlive);
  const isNamed = rules.uid !== undefined || rules.gid !== undefined || rules.groups !== undefined;
  const uids = listOf(rules.uid) ?? (isNamed ? undefined : [ownUid()]);
  if (uids !== undefined && !uids.includes(uid)) return `uid ${uid} is not ${uids.join(' or ')}`;
  const gids = listOf(rules.gid);
  if (gids !== undefined && !gids.includes(gid)) return `gid ${gid} is not ${gids.join(' or ')}`;
  const groups = listOf(rules.groups);
  const itsGroups = [gid, ...(peer.groups ?? [])];
  if (groups !== undefined && !groups.some((group) => itsGroups.includes(group))) {
    return `it is in none of the groups ${groups.join(', ')}`;
  }
  if (pid === 0) return invisiblePidText;
  return refusalOfPid(rules, pid, isAlive);
}

function refusalOfPid(
  rules: PeerRules,
  pid: number | undefined,
  isAlive: boolean | undefined,
): string | undefined {
  const pids = listOf(rules.pid);
  if (pids === undefined) return undefined;
  if (pid === undefined || !pids.includes(pid)) return `pid ${pid} is not ${pids.join(' or ')}`;
  return isAlive === false ? `process ${pid} has ended; its number may be another's` : undefined;
}

async function accepts(
  policy: (peer: Peer) => boolean | Promise<boolean>,
  peer: Peer,
  signal: AbortSignal,
): Promise<boolean> {
  signal.throwIfAborted();
  let onAbort = (): void => undefined;
  const late = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
  });
  try {
    return (await Promise.race([decide(policy, peer), late])) === true;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function decide(
  policy: (peer: Peer) => boolean | Promise<boolean>,
  peer: Peer,
): Promise<boolean> {
  try {
    return await policy(peer);
  } catch (cause) {
    throw new SidecallError('ERR_SIDECALL_PEER_DENIED', 'the policy function threw', { cause });
  }
}

function denied(peer: Peer, why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_DENIED', `refused ${describePeer(peer)}: ${why}`);
}
