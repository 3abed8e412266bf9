// Runs one case of a path: servers follow each other at it, by hand-over or after an end, and
// clients with `reconnect` call whichever is there.
import { SidecallError } from '../../../src/base/errors.ts';
import { checkReconnect } from '../../../src/rendezvous/reconnect-options.ts';
import { Reconnector } from '../../../src/rendezvous/reconnector.ts';
import type { Session } from '../../../src/rpc/session/session.ts';
import { Coverage } from '../../../src/testing/simulation/coverage.ts';
import { type Fault, planFault } from '../../../src/testing/simulation/faults.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { type OnTrace, World } from '../../../src/testing/simulation/world.ts';
import type { Act } from '../act.ts';
import type { Case, Generation } from '../case.ts';
import { guarded } from '../guarded.ts';
import { Ledger } from '../ledger.ts';
import type { Outcome } from '../outcome.ts';
import { enough, SimulatedProgram } from '../program.ts';
import { SimulatedListener, takeOver } from './simulated-listener.ts';
import { SimulatedPath } from './simulated-path.ts';

const stepsMax = 400_000;
/** Virtual time within which everything settles once the last fault and generation are over. */
const settleMs = 120_000;
const connectMs = 5_000;
/** Time after which a process manager starts another server where none lives. */
const keeperMs = 50;
const sparesMax = 5;
const pathClients = 3;
const lossKinds: readonly string[] = ['kill', 'kill-at-point', 'socket-error'];
const ofLoss = /PEER_GONE|CLOSED|GOING_AWAY|CANCELLED/;

class PathRun {
  readonly world: World;
  readonly ledger = new Ledger();
  readonly injected = new Map<string, number>();
  readonly #case: Case;
  readonly #path = new SimulatedPath();
  readonly #servers: SimulatedProcess[] = [];
  readonly #clients: { process: SimulatedProcess; program?: SimulatedProgram }[] = [];
  readonly #reconnectors: Reconnector[] = [];
  readonly #listeners = new Map<SimulatedProcess, SimulatedListener>();
  #left: number;
  #ids = 0;
  /** Acts that were lost with a session. */
  readonly #lost: string[] = [];
  /** A listener has reported a session as cut off at the deadline. */
  #isForced = false;
  #last = 0;
  #isOver = false;

  constructor(given: Case, onTrace: OnTrace | undefined) {
    this.#case = given;
    this.#left = given.acts.length;
    this.world = new World(new SeededRandom(given.seed));
    this.world.onTrace = onTrace;
  }

  async run(): Promise<Outcome> {
    await guarded(this.ledger, async () => {
      this.#plan();
      await this.#phases();
    });
    this.#isOver = true;
    for (const each of [...this.#servers, ...this.#clients.map(({ process }) => process)])
      each.kill();
    const { world, ledger, injected } = this;
    return {
      faults: ledger.faults,
      steps: world.steps,
      virtualMs: world.nowMs,
      fingerprint: String(world.fingerprint),
      injected,
      coverage: new Coverage(),
    };
  }

  get #deadlineMs(): number {
    return this.#case.deadlineMs ?? 5_000;
  }

  get #generations(): readonly Generation[] {
    return this.#case.generations ?? [];
  }

  get #hasLoss(): boolean {
    const isEnding = this.#generations.some(({ how }) => how === 'listen');
    return isEnding || this.#case.faults.some(({ kind }) => lossKinds.includes(kind));
  }

  #plan(): void {
    const { world } = this;
    for (const [at, generation] of this.#generations.entries()) {
      const server = this.#newServer(`server ${at + 1}`);
      world.plan(generation.atMs, () => this.#start(server, generation));
    }
    for (let at = 0; at < pathClients; at += 1) {
      const process = new SimulatedProcess(`client ${at + 1}`, world);
      this.#clients.push({ process });
      process.setImmediate(() => void this.#connect(at));
    }
    const processes = [...this.#servers, ...this.#clients.map(({ process }) => process)];
    const targets = { world, processes, connections: this.#path.connections };
    for (const fault of this.#case.faults) planFault(targets, fault, () => this.#onFault(fault));
    this.#keep();
  }

  #newServer(name: string): SimulatedProcess {
    const server = new SimulatedProcess(name, this.world);
    this.#servers.push(server);
    return server;
  }

  /** As a process manager: where no server lives that was started, another one is. */
  #keep(): void {
    this.world.plan(keeperMs, () => {
      if (this.#isOver) return;
      const hasLiving = this.#servers.some((server) => !server.isDead);
      const spares = this.#servers.length - this.#generations.length;
      if (!hasLiving && spares < sparesMax) {
        const spare = this.#newServer(`server ${this.#servers.length + 1}`);
        const how = this.#generations[0]?.how ?? 'listen';
        this.#start(spare, { atMs: 0, readyMs: 1, how, fails: false, endsAfterMs: 0 });
      }
      this.#keep();
    });
  }

  #start(server: SimulatedProcess, generation: Generation): void {
    if (server.isDead) return;
    this.world.trace(server.name, `starts: ${generation.how}`);
    server.setImmediate(() => {
      void this.#serve(server, generation).catch((error: unknown) => {
        this.world.trace(server.name, `ends: ${(error as Error).message}`);
        server.kill(); // its program ends with its error
      });
    });
  }

  async #serve(server: SimulatedProcess, generation: Generation): Promise<void> {
    const { how, readyMs, fails, endsAfterMs } = generation;
    const serve = (session: Session): void => void this.#programOf(server, session);
    const ready = async (): Promise<void> => {
      await server.sleep(readyMs);
      if (fails) throw new Error('this server is not healthy');
    };
    if (how === 'take-over') {
      const listener = await takeOver(this.#path, server, serve, ready);
      this.#listeners.set(server, listener);
      listener.onForced = () => {
        this.#isForced = true;
      };
      await listener.handOver(this.#deadlineMs);
      this.#listeners.delete(server);
      server.kill(); // everything is handed over: the process exits
      return;
    }
    const listener = await this.#listenAlone(server, serve);
    this.#listeners.set(server, listener);
    if (endsAfterMs === 0) return;
    await server.sleep(endsAfterMs);
    this.#listeners.delete(server);
    await listener.close({ deadlineMs: this.#deadlineMs });
    server.kill();
  }

  /** Tries until the server before is gone, as a process manager does. */
  async #listenAlone(
    server: SimulatedProcess,
    serve: (session: Session) => void,
  ): Promise<SimulatedListener> {
    for (;;) {
      try {
        const listener = new SimulatedListener(this.#path, server, serve);
        listener.begin();
        return listener;
      } catch (error) {
        if (!SidecallError.is(error)) throw error;
        await server.sleep(10);
      }
    }
  }

  async #connect(at: number): Promise<void> {
    const client = this.#clients[at] as { process: SimulatedProcess; program?: SimulatedProgram };
    const { process } = client;
    const connect = async (): Promise<Session> =>
      (await this.#path.connect(process, connectMs)).near.session;
    let first: Session | undefined;
    while (first === undefined) {
      first = await connect().catch(() => undefined);
      if (first === undefined) await process.sleep(5);
    }
    const random = (): number => process.random.fraction();
    const parts = { path: 'the path', connect, onEvent: undefined, clock: process, random };
    const settings = checkReconnect({ firstMs: 10, maxMs: 100 });
    const reconnector = new Reconnector(parts, settings, first);
    this.#reconnectors.push(reconnector);
    client.program = this.#programOf(process, first, reconnector);
    for (const [number, act] of this.#case.acts.entries()) {
      if (act.end % pathClients !== at) continue;
      process.setTimeout(() => void this.#act(number, act, client.program as never), act.atMs);
    }
  }

  #programOf(
    process: SimulatedProcess,
    session: Session,
    reconnector?: Reconnector,
  ): SimulatedProgram {
    const nextId = (): number => {
      this.#ids += 1;
      return this.#ids;
    };
    const { ledger } = this;
    const { name } = process;
    const target = reconnector?.target;
    const parts = { name, process, session, target, ledger, nextId, servesAfterMs: 0 };
    return new SimulatedProgram(parts);
  }

  async #act(number: number, act: Act, program: SimulatedProgram): Promise<void> {
    try {
      await program.act(act);
    } catch (error) {
      const text = error instanceof Error ? [error.message, error.cause ?? ''].join(' ') : error;
      const fault = `act ${number} (${act.kind} of ${program.name}): ${text}`;
      if (this.#isLoss(act, error)) this.#lost.push(fault);
      else if (error !== enough) this.ledger.fault(fault);
    }
    this.#left -= 1;
    this.#last = this.world.nowMs;
  }

  /** The session was lost, which needs a reason. */
  #isLoss(act: Act, error: unknown): boolean {
    if (!SidecallError.is(error)) return false;
    // Fewer servers end than such a call has attempts.
    if (act.kind.startsWith('job') && act.giveUpMs === 0) return false;
    return ofLoss.test(error.code);
  }

  #onFault(fault: Fault): void {
    this.injected.set(fault.kind, (this.injected.get(fault.kind) ?? 0) + 1);
  }

  async #phases(): Promise<void> {
    const { world } = this;
    await this.#until(() => this.#left === 0, this.#lastMs + settleMs);
    if (this.#left > 0) this.ledger.fault(`${this.#left} acts have not settled in time`);
    await this.#until(() => false, Math.max(this.#lastMs, world.nowMs) + 1_000);
    await this.#callLast();
    this.ledger.checkCalls();
    const isExplained = this.#hasLoss || this.#isForced;
    if (!isExplained) for (const fault of this.#lost) this.ledger.fault(fault);
    // A hand-over that is under way settles by its own times.
    await this.#until(() => this.#hasOneListener, world.nowMs + settleMs);
    if (!this.#hasOneListener) {
      const names = [...(this.#path.file?.accepting.keys() ?? [])].map(({ name }) => name);
      const lock = this.#path.lock?.name ?? 'no process';
      this.ledger.fault(`accepting at the end: ${names.join(', ')}; ${lock} has the lock`);
    }
    const isQuiet = !this.#hasLoss && this.#case.faults.length === 0;
    if (isQuiet && this.#path.refused > 0) {
      this.ledger.fault(`${this.#path.refused} connections met no listener while one was there`);
    }
    await this.#stopAll();
  }

  /** One process accepts, and has the lock. */
  get #hasOneListener(): boolean {
    const { file, lock } = this.#path;
    return file?.accepting.size === 1 && lock !== undefined && file.accepting.has(lock);
  }

  /** Each connection is closed, as `connection.close()` does it. */
  async #stopAll(): Promise<void> {
    const { world } = this;
    let left = 0;
    for (const reconnector of this.#reconnectors) {
      left += 1;
      const stop = async (): Promise<void> => {
        const sessions = await reconnector.stop();
        await Promise.all(sessions.map((session) => session.close()));
        left -= 1;
      };
      void stop();
    }
    await this.#until(() => left === 0, world.nowMs + settleMs);
    const dead = this.#clients.filter(({ process }) => process.isDead).length;
    if (left > dead) this.ledger.fault(`${left} connections have not closed`);
  }

  /** Each client that lives is served, now that all is over. */
  async #callLast(): Promise<void> {
    const { world } = this;
    let left = 0;
    for (const { program, process } of this.#clients) {
      if (process.isDead || program === undefined) continue;
      left += 1;
      const act = { ...lastAct, end: 0 };
      program.act(act).then(
        () => {
          left -= 1;
        },
        (error: Error) => this.ledger.fault(`the last call of ${program.name}: ${error.message}`),
      );
    }
    await this.#until(() => left === 0 || this.ledger.faults.length > 0, world.nowMs + settleMs);
    if (left > 0) this.ledger.fault(`${left} clients have no server at the end`);
  }

  get #lastMs(): number {
    const { faults } = this.#case;
    const ends = faults.map((fault) => {
      if (!('atMs' in fault)) return 0;
      return fault.atMs + ('forMs' in fault && fault.kind !== 'sleep' ? fault.forMs : 0);
    });
    const sleptMs = faults.reduce(
      (sum, fault) => sum + (fault.kind === 'sleep' ? fault.forMs : 0),
      0,
    );
    const starts = this.#generations.map(({ atMs, readyMs }) => atMs + readyMs);
    // Each may wait for the end of the one before.
    const servedMs = this.#generations.reduce((sum, { endsAfterMs }) => sum + endsAfterMs, 0);
    return Math.max(this.#last, Math.max(0, ...ends, ...starts) + servedMs + sleptMs);
  }

  async #until(isDone: () => boolean, untilMs: number): Promise<void> {
    const { world } = this;
    const late = world.plan(Math.max(0, untilMs - world.nowMs), () => undefined);
    await world.run(() => world.nowMs >= untilMs || isDone(), stepsMax);
    late.isCancelled = true;
  }
}

const lastAct: Act = {
  kind: 'job',
  end: 0,
  atMs: 0,
  length: 100,
  count: 1,
  pauseMs: 0,
  giveUpMs: 0,
  giveUpBy: 'abort',
  windowBytes: 0,
};

/** Runs a case with generations. Never rejects. */
export function runPathCase(given: Case, onTrace?: OnTrace): Promise<Outcome> {
  return new PathRun(given, onTrace).run();
}
