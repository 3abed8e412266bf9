// SPDX-License-Identifier: MIT
// Sessions with the listener at a path, one after the other: each that ends, or drains, is followed
// by the next.
import { spreadBackOffMs } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import type { Random } from '../base/random.ts';
import { FollowedState } from '../lasting/followed-state.ts';
import { LastingTarget } from '../lasting/lasting-target.ts';
import type { Session } from '../rpc/session/session.ts';
import { type ConnectionState, isConnectionEnd } from './connection-state.ts';
import type { ReconnectSettings } from './reconnect-options.ts';

/** The parts of a {@link Reconnector}. */
export interface ReconnectorParts {
  readonly path: string;
  /**
   * Opens a session, its peer authenticated. Rejects where it cannot, or `signal` is aborted.
   * `isWanted`: the peer may be started for it.
   */
  readonly connect: (signal: AbortSignal, isWanted: boolean) => Promise<Session>;
  /**
   * True: where the peer has ended and none follows, the next session is opened when a call waits
   * for it.
   */
  readonly isOnDemand?: boolean | undefined;
  /**
   * The longest time that one try takes while the machine is awake. Default: that of `connect()`.
   */
  readonly tryMaxMs?: number | undefined;
  readonly onEvent: OnEvent | undefined;
  /** Default: those of this thread and of the system. */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** Keeps a session open. Calls are made on {@link Reconnector.target}. */
export class Reconnector {
  readonly target: LastingTarget;
  readonly states: FollowedState<ConnectionState>;
  /** The session of now, or the last one. */
  current: Session;
  /** Resolves at the final state: undefined after `close()`, else why it was given up. */
  readonly ended: Promise<SidecallError | undefined>;
  readonly #parts: ReconnectorParts;
  readonly #settings: ReconnectSettings;
  readonly #stopped = new AbortController();
  /** The session of now, and those before it that drain. */
  readonly #sessions = new Set<Session>();
  #isReferenced = true;
  #reconnects = 0;
  #openedAt = 0;
  // Tries in a row after which no session lived for a while.
  #failures = 0;
  #told: string | undefined;
  #final: SidecallError | undefined;
  #connecting: Promise<void> | undefined;
  #resolveEnded!: (error: SidecallError | undefined) => void;

  constructor(parts: ReconnectorParts, settings: ReconnectSettings, first: Session) {
    this.#parts = parts;
    this.#settings = settings;
    this.target = new LastingTarget({
      name: `the listener at ${parts.path}`,
      pending: `there was no session with the listener at ${parts.path}`,
      clock: parts.clock,
      random: parts.random,
    });
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.current = first;
    this.states = new FollowedState(this.#connected(first), isConnectionEnd);
    this.#follow(first);
  }

  setReferenced(isReferenced: boolean): void {
    this.#isReferenced = isReferenced;
    this.target.isReferenced = isReferenced;
    for (const session of this.#sessions) {
      if (isReferenced) session.ref();
      else session.unref();
    }
  }

  /** Opens no other session. Resolves to those that are not over. */
  async stop(): Promise<readonly Session[]> {
    if (this.#final === undefined) {
      this.#final = new SidecallError('ERR_SIDECALL_CLOSED', 'the connection was closed');
      this.target.end(this.#final);
      this.states.set({ state: 'closing', reconnects: this.#reconnects });
    }
    this.#stopped.abort();
    await this.#connecting;
    return [...this.#sessions];
  }

  /** All sessions are over, behind {@link Reconnector.stop}. */
  onClosed(): void {
    if (isConnectionEnd(this.states.latest)) return;
    this.states.set({ state: 'closed', reconnects: this.#reconnects });
    this.#resolveEnded(undefined);
  }

  #connected(session: Session): ConnectionState {
    return { state: 'connected', session, reconnects: this.#reconnects };
  }

  #follow(session: Session): void {
    this.#openedAt = this.target.clock.nowMs();
    this.#sessions.add(session);
    if (!this.#isReferenced) session.unref();
    this.target.set(session);
    void session.closed.then(() => this.#sessions.delete(session));
    void session.draining.then(async () => {
      // A session that is over says why; one that drains goes on until its calls are done.
      const error = session.state === 'closed' ? await session.closed : undefined;
      this.#onLost(error);
    });
  }

  #onLost(error: SidecallError | undefined): void {
    if (this.#final !== undefined) return;
    this.target.clear();
    const hasLived = this.target.clock.nowMs() - this.#openedAt >= tuning.stableSessionMs;
    if (hasLived) this.#failures = 0;
    // A listener that says goaway is about to be followed by another one: no reason to wait longer
    // each time.
    else this.#failures = error === undefined ? 1 : this.#failures + 1;
    const why = error ?? new SidecallError('ERR_SIDECALL_GOING_AWAY', 'the session is closing');
    this.#connecting = this.#connectAgain(why);
  }

  async #connectAgain(lost: SidecallError): Promise<void> {
    const { clock, random } = this.target;
    const { giveUpMs } = this.#settings;
    const { tryMaxMs = ranges.connectTimeoutMs.max, isOnDemand = false } = this.#parts;
    // Time in which this process stood still does not count: it has tried nothing then.
    let since = clock.nowMs();
    let error = lost;
    let isWanted = !isOnDemand;
    // The last try comes when the time is over, however long the one before took.
    let triedMs = -1;
    for (let attempt = 1; ; attempt += 1) {
      if (triedMs >= giveUpMs) return this.#giveUp(error, attempt - 1);
      this.#tell(error);
      const leftMs = giveUpMs - (clock.nowMs() - since);
      const drawnMs =
        this.#failures === 0 ? 0 : spreadBackOffMs(this.#failures - 1, this.#settings, random);
      const pauseMs = Math.min(drawnMs, Math.max(0, leftMs));
      const reconnects = this.#reconnects;
      this.states.set({ state: 'reconnecting', error, pauseMs, attempt, reconnects });
      const pausesAt = clock.nowMs();
      if (pauseMs > 0) await this.#pause(pauseMs);
      if (this.#stopped.signal.aborted) return;
      const triesAt = clock.nowMs();
      since += beyond(tuning.lateTimerMs, triesAt - pausesAt - pauseMs);
      triedMs = triesAt - since;
      try {
        const session = await this.#parts.connect(this.#stopped.signal, isWanted);
        return this.#onConnected(session);
      } catch (reason) {
        if (this.#stopped.signal.aborted) return;
        error = SidecallError.from(reason);
        if (!isWanted && error.code === 'ERR_SIDECALL_NO_LISTENER') {
          const isEnded = this.target.waiting === 0;
          if (isEnded) this.states.set({ state: 'ended', error, reconnects: this.#reconnects });
          await this.target.whenWaiting(this.#stopped.signal);
          if (this.#stopped.signal.aborted) return;
          isWanted = true;
          since = clock.nowMs();
          continue;
        }
        this.#failures += 1;
        since += Math.max(0, clock.nowMs() - triesAt - tryMaxMs);
      }
    }
  }

  #onConnected(session: Session): void {
    this.#connecting = undefined;
    this.current = session;
    this.#reconnects += 1;
    this.#told = undefined;
    if (this.#final === undefined) this.states.set(this.#connected(session));
    this.#follow(session);
  }

  #giveUp(last: SidecallError, tries: number): void {
    const { path } = this.#parts;
    const text = `connect("${path}") was given up after ${tries} tries in ${this.#settings.giveUpMs} ms (reconnect.giveUpMs): ${last.message}`;
    const error = new SidecallError(last.code, text, { cause: last, retryable: false });
    this.#final = error;
    this.#connecting = undefined;
    this.target.end(error);
    this.#told = undefined;
    this.#tell(error);
    this.states.set({ state: 'gave-up', error, reconnects: this.#reconnects });
    this.#resolveEnded(error);
  }

  #pause(ms: number): Promise<void> {
    return pause(this.target.clock, ms, this.#stopped.signal, this.#isReferenced);
  }

  /** Reports the loss of the session, and each change of the reason for which none is opened. */
  #tell(error: SidecallError): void {
    const what = `${error.code} ${error.retryable}`;
    if (what === this.#told) return;
    this.#told = what;
    const { path, onEvent } = this.#parts;
    emitEvent(onEvent, { type: 'reconnecting', error, peer: this.current.peer, path });
  }
}

/** The whole of a time that is longer than what is usual; else nothing. */
function beyond(usualMs: number, tookMs: number): number {
  return tookMs > usualMs ? tookMs : 0;
}
