// SPDX-License-Identifier: MIT
// The number of sessions of a listener: in all, of each user and of each process.
import { SidecallError } from '../base/errors.ts';
import type { Peer } from '../base/peer.ts';
import { ownerOf } from '../uds/peer-credentials.ts';

/** The most sessions that a listener has at once. */
export interface SessionCountLimits {
  readonly sessionsMax: number;
  readonly sessionsPerUidMax: number;
  readonly sessionsPerProcessMax: number;
}

export class SessionCount {
  readonly #limits: SessionCountLimits;
  readonly #perUid = new Map<number | undefined, number>();
  readonly #perProcess = new Map<number, number>();
  #all = 0;

  constructor(limits: SessionCountLimits) {
    this.#limits = limits;
  }

  /**
   * Counts a session of `peer`. Returns why there is no room for it, and counts nothing then.
   * `beyond`: sessions that it may be above each limit.
   */
  admit(peer: Peer, beyond = 0): SidecallError | undefined {
    const { sessionsMax, sessionsPerUidMax, sessionsPerProcessMax } = this.#limits;
    const owner = ownerOf(peer);
    const ofUid = this.#perUid.get(peer.uid) ?? 0;
    const ofProcess = this.#perProcess.get(owner) ?? 0;
    if (this.#all >= sessionsMax + beyond) return full(`${sessionsMax} sessions are open`);
    if (ofUid >= sessionsPerUidMax + beyond) {
      return full(`uid ${peer.uid} has ${sessionsPerUidMax} sessions open`);
    }
    if ((peer.pid ?? 0) > 0 && ofProcess >= sessionsPerProcessMax + beyond) {
      return full(`process ${peer.pid} has ${sessionsPerProcessMax} sessions open`);
    }
    this.#all += 1;
    this.#perUid.set(peer.uid, ofUid + 1);
    this.#perProcess.set(owner, ofProcess + 1);
    return undefined;
  }

  /** A session of `peer` that was counted has ended, or was not made. */
  release(peer: Peer): void {
    this.#all -= 1;
    countDown(this.#perUid, peer.uid);
    countDown(this.#perProcess, ownerOf(peer));
  }
}

function countDown<Key>(counts: Map<Key, number>, key: Key): void {
  const left = (counts.get(key) ?? 1) - 1;
  if (left > 0) counts.set(key, left);
  else counts.delete(key);
}

/** The error of a connection for which there is no room. */
export function full(text: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS', text);
}
