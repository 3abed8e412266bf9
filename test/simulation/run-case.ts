// Runs one case: the acts, the faults, then the checks.
import { SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { SupervisedProcess, Supervisor } from '../../src/helper/supervisor.ts';
import type { CallTarget } from '../../src/rpc/calling/call-target.ts';
import type { SessionStats } from '../../src/rpc/session/session-stats.ts';
import {
  type ConnectedEnd,
  type Connection,
  connectProcesses,
} from '../../src/testing/simulation/connection.ts';
import { Coverage } from '../../src/testing/simulation/coverage.ts';
import { type Fault, planFault } from '../../src/testing/simulation/faults.ts';
import { SimulatedProcess } from '../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import {
  type StartedHelper,
  superviseHelper,
} from '../../src/testing/simulation/simulated-helper.ts';
import { type OnTrace, World } from '../../src/testing/simulation/world.ts';
import type { Act } from './act.ts';
import type { Case, CaseConnection } from './case.ts';
import { BoundCheck, hasCredit, isAtRest } from './checks.ts';
import { guarded } from './guarded.ts';
import { corrupt } from './hostile.ts';
import { Ledger } from './ledger.ts';
import type { Outcome } from './outcome.ts';
import { runElectionCase } from './paths/run-election-case.ts';
import { runPathCase } from './paths/run-path-case.ts';
import { enough, SimulatedProgram } from './program.ts';

/** Virtual time within which everything settles once faults have ended. */
const settleMs = 60_000;
/**
 * Virtual time within which counters are zero once everything has settled: a slow socket still
 * carries megabytes of answers to calls that were given up.
 */
const restMs = 60_000;
/** Virtual time of a hostile process. */
const hostileMs = 2_000;
const stepsMax = 400_000;
/** The deadline of the closes of programs. */
const closeMs = 600_000;
/** Acts of which one end closes the session with a deadline that may pass. */
const cutKinds: readonly string[] = ['closeSoon', 'floodAndDie'];
const lossKinds: readonly string[] = ['kill', 'kill-at-point', 'socket-error'];
const ofLoss = /PEER_GONE|CANCELLED|END_OF_STREAM|CLOSED|SYSTEM|GOING_AWAY/;
const ofClose = /GOING_AWAY|CLOSED|CANCELLED|END_OF_STREAM|PEER_GONE|DEADLINE_EXCEEDED/;

class Run {
  readonly world: World;
  readonly ledger = new Ledger();
  readonly coverage = new Coverage();
  readonly injected = new Map<string, number>();
  readonly #case: Case;
  readonly #processes = new Map<string, SimulatedProcess>();
  readonly #connections: Connection[] = [];
  readonly #programs: SimulatedProgram[] = [];
  readonly #supervisors: Supervisor<SupervisedProcess>[] = [];
  readonly #bounds: BoundCheck;
  /** Acts that have not settled. */
  readonly #running = new Map<number, Act>();
  /** Acts that have not begun. */
  #left: number;
  #ids = 0;
  #isClosing = false;
  readonly #lost = new Set<Connection>();

  constructor(given: Case, onTrace: OnTrace | undefined) {
    this.#case = given;
    this.#left = given.acts.length;
    this.world = new World(new SeededRandom(given.seed));
    this.world.onTrace = onTrace;
    for (const connection of given.connections) this.#connect(connection);
    this.#bounds = new BoundCheck(
      () => this.#connections.flatMap(({ near, far }) => [near, far]),
      (text) => this.ledger.fault(text),
    );
  }

  async run(): Promise<Outcome> {
    await guarded(this.ledger, async () => {
      this.#plan();
      await this.#phases();
    });
    for (const process of this.#processes.values()) process.kill(); // memory goes back
    const { world, ledger, coverage, injected } = this;
    return {
      faults: ledger.faults,
      steps: world.steps,
      virtualMs: world.nowMs,
      fingerprint: String(world.fingerprint),
      injected,
      coverage,
    };
  }

  #connect(given: CaseConnection): void {
    const [nearName, farName] = given.processes;
    const near = this.#processNamed(nearName);
    if (given.lives !== undefined) return this.#connectHelpers(near, given, given.lives);
    const { far, ends } = this.#connectEnds(near, this.#processNamed(farName), given);
    this.#programs.push(...this.#pairOf(given, ends));
    if (given.isHostile) corrupt(this.world, far);
  }

  /** The first process supervises the second, and its program goes on with the next one. */
  #connectHelpers(near: SimulatedProcess, given: CaseConnection, lives: readonly number[]): void {
    const ends: ConnectedEnd[][] = [];
    const startOne = (): StartedHelper => {
      const process = new SimulatedProcess(`helper ${ends.length + 1}`, this.world);
      process.diesAtPoint = lives[ends.length] ?? Number.POSITIVE_INFINITY;
      const connected = this.#connectEnds(near, process, given);
      ends.push(connected.ends);
      const [program] = this.#programs;
      if (program !== undefined) this.#useNext(program, given, connected.ends);
      return { process, near: connected.near };
    };
    const supervisor = superviseHelper(near, startOne, { firstMs: 5 });
    this.#programs.push(...this.#pairOf(given, ends[0] as ConnectedEnd[], supervisor.target));
    this.#supervisors.push(supervisor);
  }

  #useNext(program: SimulatedProgram, given: CaseConnection, ends: readonly ConnectedEnd[]): void {
    const [first, second] = ends as [ConnectedEnd, ConnectedEnd];
    const next = this.#programOf(given, 1, second);
    program.peer = next;
    next.peer = program;
    program.serveOn(first.session);
  }

  #connectEnds(
    near: SimulatedProcess,
    far: SimulatedProcess,
    given: CaseConnection,
  ): Connection & { ends: ConnectedEnd[] } {
    const { limits, isHostile } = given;
    const exitKnownMs = given.lives === undefined ? 0 : 200;
    const connection = connectProcesses(
      near,
      far,
      {
        ...given,
        near: { limits, exitKnownMs, onEvent: (event) => this.#onEvent(near, event, isHostile) },
        far: { limits, onEvent: (event) => this.#onEvent(far, event, isHostile) },
      },
      (core, isSent, header) => {
        if (!isSent) this.coverage.note(core, header);
      },
    );
    this.#connections.push(connection);
    return { ...connection, ends: [connection.near, connection.far] };
  }

  #pairOf(
    given: CaseConnection,
    ends: readonly ConnectedEnd[],
    target?: CallTarget,
  ): [SimulatedProgram, SimulatedProgram] {
    const [near, far] = ends as [ConnectedEnd, ConnectedEnd];
    const first = this.#programOf(given, 0, near, target);
    const second = this.#programOf(given, 1, far);
    first.peer = second;
    second.peer = first;
    return [first, second];
  }

  #programOf(
    { processes, servesAfterMs }: CaseConnection,
    at: 0 | 1,
    { process, session }: ConnectedEnd,
    target?: CallTarget,
  ): SimulatedProgram {
    const name = `${processes[at]} of ${processes.join('–')}`;
    const nextId = (): number => {
      this.#ids += 1;
      return this.#ids;
    };
    const { ledger } = this;
    return new SimulatedProgram({ name, process, session, target, ledger, nextId, servesAfterMs });
  }

  #processNamed(name: string): SimulatedProcess {
    const known = this.#processes.get(name);
    if (known !== undefined) return known;
    const made = new SimulatedProcess(name, this.world);
    this.#processes.set(name, made);
    return made;
  }

  #plan(): void {
    const { world } = this;
    const targets = {
      world,
      processes: [...this.#processes.values()],
      connections: this.#connections,
    };
    for (const fault of this.#case.faults) {
      planFault(targets, fault, () => this.#onFault(fault));
    }
    for (const [number, act] of this.#case.acts.entries()) {
      const program = this.#programs[act.end] as SimulatedProgram;
      const begin = program.process.plan(act.atMs, () => this.#begin(number, act, program));
      program.process.whenDead(() => {
        if (!begin.isCancelled && !this.#begun.has(number)) this.#left -= 1;
        this.#begun.add(number);
        this.#running.delete(number);
      });
    }
  }

  readonly #begun = new Set<number>();

  #begin(number: number, act: Act, program: SimulatedProgram): void {
    this.#left -= 1;
    this.#begun.add(number);
    this.#running.set(number, act);
    this.world.trace(program.name, `begins act ${number}: ${act.kind}`);
    if (act.kind.startsWith('close')) this.#isClosing = true;
    program.act(act).then(
      () => this.#end(number, act, program, undefined),
      (error: unknown) => this.#end(number, act, program, error),
    );
  }

  #end(number: number, act: Act, program: SimulatedProgram, error: unknown): void {
    if (program.process.isDead) return;
    if (!this.#running.delete(number)) this.ledger.fault(`act ${number} has settled twice`);
    this.world.trace(program.name, `ends act ${number}: ${error ?? 'well'}`);
    if (error === undefined || this.#isExpected(act, error)) return;
    const text = error instanceof Error ? [error.message, error.cause ?? ''].join(' ') : error;
    this.ledger.fault(`act ${number} (${act.kind} of ${program.name}): ${text}`);
  }

  #isExpected(act: Act, error: unknown): boolean {
    if (error === enough || this.#case.connections[act.end >> 1]?.isHostile === true) return true;
    const cause = SidecallError.is(error) ? error : ((error as Error).cause ?? error);
    if (cause === enough) return true;
    if (!SidecallError.is(cause)) return false;
    // Fewer helpers are killed than such a call has attempts, unless its time is too short.
    const hasTime = act.giveUpMs === 0 || act.giveUpBy === 'abort';
    const isJob = act.kind.startsWith('job') && hasTime;
    if (this.#supervisors.length > 0 && isJob) return false;
    if (this.#hasLoss && ofLoss.test(cause.code)) return true;
    const mayRelayFail = this.#hasLoss || this.#isClosing || act.giveUpMs > 0;
    if (act.kind === 'relay' && cause.status === 'aborted' && mayRelayFail) return true;
    if (this.#isClosing && ofClose.test(cause.code)) return true;
    return act.kind.endsWith('Left') && /END_OF_STREAM|CANCELLED/.test(cause.code);
  }

  get #hasLoss(): boolean {
    const { faults } = this.#case;
    return this.#supervisors.length > 0 || faults.some(({ kind }) => lossKinds.includes(kind));
  }

  #onFault(fault: Fault): void {
    this.injected.set(fault.kind, (this.injected.get(fault.kind) ?? 0) + 1);
    for (const [at, connection] of this.#connections.entries()) {
      const isOfProcess =
        'process' in fault &&
        lossKinds.includes(fault.kind) &&
        [connection.near, connection.far].some(({ process }) => process.name === fault.process);
      if (isOfProcess || (fault.kind === 'socket-error' && fault.connection === at)) {
        this.#lost.add(connection);
      }
    }
  }

  #onEvent(process: SimulatedProcess, event: SidecallEvent, isHostile: boolean): void {
    if (process.isDead) return;
    this.world.trace(process.name, `event ${event.type}: ${event.error.message}`);
    if (isHostile) return;
    if (event.type === 'session-failed') {
      const isCut = this.#mayBeCut && /CLOSED|PEER_GONE/.test(event.error.code);
      if (isCut || (this.#hasLoss && ofLoss.test(event.error.code))) return;
      this.ledger.fault(`the session of ${process.name} failed: ${event.error.message}`);
    }
    if (event.type === 'handler-failed') {
      const { cause } = event.error;
      if (SidecallError.is(cause) || cause === enough) return;
      this.ledger.fault(
        `a handler of ${process.name} failed: ${(cause as Error)?.stack ?? String(cause)}`,
      );
    }
  }

  async #phases(): Promise<void> {
    const { world } = this;
    for (const end of this.#hostileEnds()) world.plan(hostileMs, () => end.process.kill());
    await this.#until(() => this.#left === 0 && this.#running.size === 0, settleMs + this.#lastMs);
    if (this.#running.size > 0 || this.#left > 0) {
      for (const [number, { kind, end }] of this.#running) {
        this.ledger.fault(`act ${number} (${kind} of end ${end}) has not settled in time`);
      }
      if (this.#left > 0) this.ledger.fault(`${this.#left} acts have not begun`);
      return;
    }
    await this.#until(() => world.nowMs >= this.#lastMs, this.#lastMs);
    for (const end of this.#hostileEnds()) end.process.kill(); // no later than the others rest
    const isQuiet = (): boolean =>
      this.#liveEnds().every((end) =>
        end.process.observe(() => isAtRest(end.session) && hasCredit(end)),
      );
    await this.#until(isQuiet, world.nowMs + restMs);
    for (const { session, process } of this.#liveEnds()) {
      if (isAtRest(session)) continue;
      this.ledger.fault(`${process.name} is not at rest: ${textOf(session.stats())}`);
    }
    for (const end of this.#liveEnds()) {
      if (!isAtRest(end.session) || hasCredit(end)) continue;
      this.ledger.fault(`${end.process.name} has lost credit: ${textOf(end.session.stats())}`);
    }
    await this.#closeAll();
    this.ledger.checkCalls();
  }

  async #closeAll(): Promise<void> {
    this.#isClosing = true;
    for (const supervisor of this.#supervisors) void supervisor.retire();
    // Of sessions that are closed, too: close() has to settle each time.
    const ends = this.#connections.flatMap(({ near, far }) => [near, far]);
    const closing = new Set(ends.filter(({ process }) => !process.isDead));
    for (const end of closing) void end.session.close().then(() => closing.delete(end));
    const open = (): number => [...closing].filter(({ process }) => !process.isDead).length;
    await this.#until(() => open() === 0, this.world.nowMs + settleMs);
    if (open() > 0) this.ledger.fault(`${open()} sessions have not closed`);
    for (const [at, connection] of this.#connections.entries()) {
      const { near, far } = connection;
      const hasDied = near.process.isDead || far.process.isDead;
      const isOrderly = !this.#lost.has(connection) && !this.#isCut(at) && !hasDied;
      if (!isOrderly) continue;
      for (const end of [near, far]) {
        if (end.session.state !== 'closed') this.ledger.fault(`${end.process.name} is not closed`);
      }
      // A session that closed before it served anything has no handler for them.
      if ((this.#case.connections[at]?.servesAfterMs ?? 0) > 0) continue;
      for (const program of this.#programs.slice(2 * at, 2 * at + 2)) {
        this.ledger.checkAdmitted(program.name);
      }
    }
    // Timers that are left would keep a process alive.
    await this.#until(() => false, this.world.nowMs + 1_000_000);
  }

  /** The deadline of a close may pass, in some session. */
  get #mayBeCut(): boolean {
    return this.#connections.some((_, at) => this.#isCut(at));
  }

  /** The deadline of a close, or wrong bytes, may have cut this connection. */
  #isCut(at: number): boolean {
    const { acts, faults, connections } = this.#case;
    if (connections[at]?.isHostile === true) return true;
    const closes = acts.filter(({ kind, end }) => kind.startsWith('close') && end >> 1 === at);
    const sleepsLong = faults.some((fault) => fault.kind === 'sleep' && fault.forMs > closeMs);
    const isCutByAct = acts.some(({ kind, end }) => cutKinds.includes(kind) && end >> 1 === at);
    return isCutByAct || (sleepsLong && closes.length > 0);
  }

  #liveEnds() {
    return this.#connections
      .flatMap(({ near, far }) => [near, far])
      .filter(({ process, session }) => !process.isDead && session.state !== 'closed');
  }

  #hostileEnds() {
    return this.#connections
      .filter((_, at) => this.#case.connections[at]?.isHostile === true)
      .map(({ far }) => far);
  }

  /** The end of the last fault, and of what the acts themselves wait for. */
  get #lastMs(): number {
    const { faults } = this.#case;
    // A fault that was planned while the machine sleeps begins afterwards.
    const sleptMs = faults.reduce(
      (sum, fault) => sum + (fault.kind === 'sleep' ? fault.forMs : 0),
      0,
    );
    const ends = faults.map((fault) =>
      'atMs' in fault ? sleptMs + fault.atMs + ('forMs' in fault ? fault.forMs : 0) : 0,
    );
    return Math.max(0, ...ends) + (this.#isClosing ? closeMs : 0) + 100;
  }

  async #until(isDone: () => boolean, untilMs: number): Promise<void> {
    const { world } = this;
    const late = world.plan(Math.max(0, untilMs - world.nowMs), () => undefined);
    await world.run(() => {
      if (world.steps % 16 === 0) this.#bounds.check();
      return world.nowMs >= untilMs || isDone();
    }, stepsMax);
    late.isCancelled = true;
  }
}

/** Runs a case. Never rejects. */
export function runCase(given: Case, onTrace?: OnTrace): Promise<Outcome> {
  if (given.election !== undefined) return runElectionCase(given, onTrace);
  if (given.generations !== undefined) return runPathCase(given, onTrace);
  return new Run(given, onTrace).run();
}

function textOf(stats: SessionStats): string {
  return JSON.stringify(stats);
}
