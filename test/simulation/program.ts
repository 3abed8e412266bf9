// A simulated honest program at one end of a connection: it serves, and it acts.
import { SidecallError } from '../../src/base/errors.ts';
import type { CallTarget } from '../../src/rpc/calling/call-target.ts';
import { makeClient } from '../../src/rpc/calling/client.ts';
import type { CallOptions } from '../../src/rpc/contract/call-options.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import type { SimulatedProcess } from '../../src/testing/simulation/process.ts';
import type { Act } from './act.ts';
import { callActs } from './call-acts.ts';
import { Program, type ProgramClient } from './contract.ts';
import { acceptAll, handlersOf } from './handlers.ts';
import type { Ledger } from './ledger.ts';
import { streamActs } from './stream-acts.ts';

/** An error by which a program gives up a call of its own. */
export const enough = new Error('the program has enough');

/** The parts of a program. */
export interface ProgramParts {
  /** Of the end, for the ledger. */
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly session: Session;
  /** The target of its calls; default: its session. */
  readonly target?: CallTarget | undefined;
  readonly ledger: Ledger;
  /** A number for each call of the run. */
  readonly nextId: () => number;
  /** It serves this long after it was connected. */
  readonly servesAfterMs: number;
}

/** Attempts of a call that may be repeated. */
const attempts = 6;

export class SimulatedProgram {
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly ledger: Ledger;
  readonly nextId: () => number;
  readonly client: ProgramClient;
  readonly retrying: ProgramClient;
  /** The session that it uses; a supervised program gets another one after a restart. */
  session: Session;
  /** The program at the other end. */
  peer!: SimulatedProgram;
  readonly #servesAfterMs: number;
  readonly #acts = { ...callActs, ...streamActs };

  constructor(parts: ProgramParts) {
    const { session, target = session.target } = parts;
    this.name = parts.name;
    this.session = session;
    this.process = parts.process;
    this.ledger = parts.ledger;
    this.nextId = parts.nextId;
    this.#servesAfterMs = parts.servesAfterMs;
    this.client = makeClient(Program, target);
    this.retrying = makeClient(Program, target, { retry: { attempts, firstMs: 5 } });
    this.serveOn(session);
  }

  /** The process of this end records: a dead one records nothing. */
  get isAlive(): boolean {
    return !this.process.isDead;
  }

  /** Serves the peer of a session, and uses that from now on. */
  serveOn(session: Session): void {
    this.session = session;
    acceptAll(session);
    void this.pause(this.#servesAfterMs).then(() => session.serve(Program, handlersOf(this)));
  }

  /** Does one act. Rejects with what went wrong. */
  act(act: Act): Promise<void> {
    return this.#acts[act.kind](this, act);
  }

  pause(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    return new Promise((resolve) => void this.process.setTimeout(resolve, ms));
  }

  /** A handler of this end has begun with a call. */
  noteSeen(id: number): void {
    if (this.isAlive) this.ledger.onSeen(id);
  }

  /** A call whose handler notes that it saw it. */
  async ended(
    what: string,
    act: Act,
    run: (id: number, options: CallOptions) => Promise<unknown>,
    isRepeated = false,
  ): Promise<void> {
    const id = this.nextId();
    let error: unknown;
    try {
      await run(id, this.#options(act));
    } catch (reason) {
      error = reason;
    }
    if (!this.isAlive) return;
    this.ledger.onEnd(id, what, error, isRepeated);
    if (error === undefined) return;
    if (error === enough && act.giveUpMs > 0) return;
    if (act.giveUpMs > 0 && act.giveUpBy === 'timeout' && isDeadline(error)) return;
    throw error;
  }

  /** A stream that its caller leaves: the handler may never see it. */
  async left(
    what: string,
    act: Act,
    run: (id: number, options: CallOptions) => Promise<void>,
  ): Promise<void> {
    const id = this.nextId();
    try {
      await run(id, this.#options({ ...act, giveUpMs: 0 }));
    } catch (error) {
      if (this.isAlive) throw new Error(`${what} (${id})`, { cause: error });
    }
  }

  #options(act: Act): CallOptions {
    const window = act.windowBytes === 0 ? {} : { windowBytes: act.windowBytes };
    if (act.giveUpMs === 0) return window;
    if (act.giveUpBy === 'timeout') return { ...window, timeoutMs: act.giveUpMs };
    const stop = new AbortController();
    this.process.setTimeout(() => stop.abort(enough), act.giveUpMs);
    return { ...window, signal: stop.signal };
  }
}

function isDeadline(error: unknown): boolean {
  return SidecallError.is(error) && error.status === 'deadline_exceeded';
}
