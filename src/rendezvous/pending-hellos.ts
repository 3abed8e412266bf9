// SPDX-License-Identifier: MIT
// Connections that are not sessions yet, up to a bound. Where it is reached, users and their
// processes get equal shares, and silent connections are dropped first (max-min fairness).

import { systemClock } from '../base/clock.ts';
import { SidecallError, withoutStack } from '../base/errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import type { Peer } from '../base/peer.ts';
import { ownerOf } from '../uds/peer-credentials.ts';

/** One connection on its way. */
export class PendingHello {
  readonly uid: number | undefined;
  /** The process at the other end, by `ownerOf()`. */
  readonly owner: number;
  readonly enteredAt = systemClock.nowMs();
  /** Instant since which the peer, which has to send, has sent nothing. */
  silentSince: () => number = () => this.enteredAt;
  /** Milliseconds of our own work on its shared memory. */
  workedMs: () => number = () => 0;
  /** Do bytes of its peer lie in the kernel, which we have not received yet? */
  hasUnread: () => boolean = () => false;
  /** Called when it is aborted, beside its signal. */
  onAbort: (() => void) | undefined;
  #reason: SidecallError | undefined;
  #controller: AbortController | undefined;

  constructor(uid: number | undefined, owner: number) {
    this.uid = uid;
    this.owner = owner;
  }

  /** Why it was aborted. */
  get reason(): SidecallError | undefined {
    return this.#reason;
  }

  /**
   * Aborted at the deadline, when the connection makes room for another, or when the listener
   * closes. Created on first use: most connections of a crowd never need it.
   */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason: SidecallError): void {
    this.#reason ??= reason;
    this.#controller?.abort(this.#reason);
    this.onAbort?.();
  }
}

/** Connections of one process, the oldest first. */
interface Process {
  readonly user: User;
  readonly owner: number;
  readonly open: Set<PendingHello>;
  /** Instant before which none of them counts as silent. */
  silentFrom: number;
}

interface User {
  readonly uid: number | undefined;
  readonly processes: Map<number, Process>;
  count: number;
}

export class PendingHellos {
  readonly #max: number;
  readonly #users = new Map<number | undefined, User>();
  readonly #places = new Map<PendingHello, Process>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#places.size;
  }

  /**
   * Adds a connection. Where the bound is reached, a connection of the process with the most
   * is dropped, a silent one first, if that process has more than the one of the new
   * connection. Otherwise a silent connection of the same process is dropped; without one the
   * new connection is refused.
   * @throws {SidecallError} `ERR_SIDECALL_LIMIT_CONNECTIONS`.
   */
  enter(peer: Pick<Peer, 'pid' | 'uid'>): PendingHello {
    const now = systemClock.nowMs();
    const process = this.#processOf(peer);
    if (this.size >= this.#max && !this.#makeRoom(process, now)) throw full(this.#max);
    const ticket = new PendingHello(peer.uid, process.owner);
    process.user.count += 1;
    process.user.processes.set(process.owner, process);
    this.#users.set(process.user.uid, process.user);
    process.open.add(ticket);
    this.#places.set(ticket, process);
    return ticket;
  }

  remove(ticket: PendingHello): void {
    const process = this.#places.get(ticket);
    if (process === undefined) return;
    this.#places.delete(ticket);
    process.open.delete(ticket);
    const { user } = process;
    user.count -= 1;
    if (process.open.size === 0) user.processes.delete(process.owner);
    if (user.count === 0) this.#users.delete(user.uid);
  }

  /** Ends all of them. */
  abort(reason: SidecallError): void {
    const all = [...this.#places.keys()];
    this.#places.clear();
    this.#users.clear();
    for (const ticket of all) ticket.abort(reason);
  }

  #processOf(peer: Pick<Peer, 'pid' | 'uid'>): Process {
    const { uid } = peer;
    const owner = ownerOf(peer);
    const user = this.#users.get(uid) ?? { uid, processes: new Map(), count: 0 };
    return user.processes.get(owner) ?? { user, owner, open: new Set(), silentFrom: 0 };
  }

  #makeRoom(newcomer: Process, now: number): boolean {
    const user = most(this.#users.values(), ({ count }) => count);
    const isOthers = user !== undefined && user.count > newcomer.user.count;
    const among = isOthers ? user : newcomer.user;
    const process = most(among.processes.values(), ({ open }) => open.size);
    const hasMore = process !== undefined && (isOthers || process.open.size > newcomer.open.size);
    const [oldest] = hasMore ? process.open : [];
    const silent = oldestSilent(hasMore ? process : newcomer, now);
    return this.#cancel(silent ?? oldest);
  }

  #cancel(ticket: PendingHello | undefined): boolean {
    if (ticket === undefined) return false;
    this.remove(ticket);
    ticket.abort(full(this.#max));
    return true;
  }
}

/**
 * The oldest silent connection of a process. A search without a result sets `silentFrom`, the
 * instant before which none can be silent.
 */
function oldestSilent(process: Process, now: number): PendingHello | undefined {
  if (now < process.silentFrom) return undefined;
  let lastByte = now;
  for (const ticket of process.open) {
    const since = ticket.silentSince();
    if (now - since < tuning.quietHelloMs) lastByte = Math.min(lastByte, since);
    else if (!ticket.hasUnread()) return ticket;
  }
  process.silentFrom = lastByte + tuning.quietHelloMs;
  return undefined;
}

function most<T>(all: Iterable<T>, count: (one: T) => number): T | undefined {
  let found: T | undefined;
  for (const one of all) {
    if (found === undefined || count(one) > count(found)) found = one;
  }
  return found;
}

function full(max: number): SidecallError {
  const text = `${max} connections are in their hello already`;
  return withoutStack(() => new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS', text));
}
