// SPDX-License-Identifier: MIT
// The choice of a member for each call.

import { WaitingTarget, type WaitingTargetParts } from '../lasting/waiting-target.ts';
import type { MethodCall, StreamCall } from '../rpc/calling/call-target.ts';
import type { CallOptions } from '../rpc/contract/call-options.ts';
import type { Session } from '../rpc/session/session.ts';
import { scoreOf } from './rendezvous-hash.ts';
import { SlowMember, UsualTimes } from './slow-member.ts';

/** A member of a pool, as calls are given to it. */
export class PoolSeat {
  readonly index: number;
  /** The session of now. */
  readonly #session: () => Session;
  readonly slow = new SlowMember();
  /** Calls and streams that were begun, ever. */
  begun = 0;
  /** The count of choices when it was chosen last. */
  chosenAt = 0;

  constructor(index: number, session: () => Session) {
    this.index = index;
    this.#session = session;
  }

  /** The session that takes calls; undefined: none does. */
  get session(): Session | undefined {
    const session = this.#session();
    return session.state === 'open' ? session : undefined;
  }
}

/** The parts of a {@link PoolTarget}. */
export interface PoolTargetParts extends WaitingTargetParts {
  readonly seats: readonly PoolSeat[];
  /** Calls under way from which a member is busy. */
  readonly callsPerMember: number;
  /** Told when a call or stream was begun on a member. */
  readonly onBegun?: ((seat: PoolSeat) => void) | undefined;
}

/** Makes each call on the member with the least work. */
export class PoolTarget extends WaitingTarget {
  readonly #parts: PoolTargetParts;
  readonly #usual = new UsualTimes();
  readonly #seatOf = new WeakMap<Session, PoolSeat>();
  #choices = 0;
  #isWoken = false;

  constructor(parts: PoolTargetParts) {
    super(parts);
    this.#parts = parts;
  }

  /** A member takes calls again, or has room for another one. */
  onRoom(): void {
    if (this.waiting > 0) this.beginWaiting();
  }

  // The session is in the middle of a frame: calls begin behind it.
  readonly #onFreed = (): void => {
    if (this.#isWoken || this.waiting === 0) return;
    this.#isWoken = true;
    queueMicrotask(() => {
      this.#isWoken = false;
      this.onRoom();
    });
  };

  /** The session for a call with these options; undefined: every member is away, or busy. */
  pick(options: CallOptions | undefined): Session | undefined {
    if (this.final !== undefined) return undefined;
    const key = options?.key;
    const seat = key === undefined ? this.#leastWork() : this.#seatOfKey(String(key));
    if (seat === undefined) return undefined;
    const { session } = seat;
    if (session === undefined) return undefined;
    this.#seatOf.set(session, seat);
    this.#choices += 1;
    seat.chosenAt = this.#choices;
    return session;
  }

  protected isLeft(session: Session): boolean {
    return session.state !== 'open';
  }

  protected override callOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    const seat = this.#onBegin(session);
    const since = this.clock.nowMs();
    const call = super.callOn(session, callable, value, options);
    const hasAnswer = callable.response !== undefined;
    call.then(
      () => {
        if (hasAnswer) this.#onAnswer(seat, callable.name, since);
        this.onRoom();
      },
      () => this.onRoom(),
    );
    return call;
  }

  protected override streamOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): StreamCall {
    this.#onBegin(session);
    const call = super.streamOn(session, callable, value, options);
    const onEnd = (): void => this.onRoom();
    call.promise.then(onEnd, onEnd);
    return call;
  }

  #onBegin(session: Session): PoolSeat | undefined {
    const seat = this.#seatOf.get(session);
    if (seat === undefined) return undefined;
    seat.begun += 1;
    seat.slow.onBegin(this.clock.nowMs());
    this.#parts.onBegun?.(seat);
    return seat;
  }

  #onAnswer(seat: PoolSeat | undefined, method: string, since: number): void {
    const now = this.clock.nowMs();
    seat?.slow.onAnswer(this.#usual.ratioOf(method, now - since), now);
  }

  #leastWork(): PoolSeat | undefined {
    const now = this.clock.nowMs();
    let best: PoolSeat | undefined;
    let bestLoad = Number.POSITIVE_INFINITY;
    for (const seat of this.#parts.seats) {
      const { session } = seat;
      if (session === undefined) continue;
      const { target } = session;
      target.onFreed ??= this.#onFreed;
      const { work } = target;
      if (work >= this.#parts.callsPerMember) continue;
      const load = (work + 1) * seat.slow.factor(now);
      const isLess = load < bestLoad;
      if (!isLess && (load > bestLoad || seat.chosenAt >= (best?.chosenAt ?? 0))) continue;
      best = seat;
      bestLoad = load;
    }
    return best;
  }

  /** The member of a key; while it is away, the next one in the order of the key. */
  #seatOfKey(key: string): PoolSeat | undefined {
    let best: PoolSeat | undefined;
    let bestScore = -1;
    for (const seat of this.#parts.seats) {
      const score = scoreOf(key, seat.index);
      if (score <= bestScore || seat.session === undefined) continue;
      best = seat;
      bestScore = score;
    }
    return best;
  }
}
