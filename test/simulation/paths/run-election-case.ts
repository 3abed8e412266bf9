// Runs one case of an election: programs ask for one shared helper, again and again; some of them,
// and helpers, are killed. The search, the hand-over and the idle end are the real ones.
import { SidecallError } from '../../../src/base/errors.ts';
import type { HelperExit } from '../../../src/helper/helper-errors.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';
import type { Session } from '../../../src/rpc/session/session.ts';
import { endWhenIdle } from '../../../src/shared/idle-end.ts';
import { SharedFinder } from '../../../src/shared/shared-finder.ts';
import { pathTakenExit, SharedService } from '../../../src/shared/shared-service.ts';
import type { StartedShared } from '../../../src/shared/start-shared.ts';
import { compareVersions } from '../../../src/shared/version-order.ts';
import { Coverage } from '../../../src/testing/simulation/coverage.ts';
import { planFault } from '../../../src/testing/simulation/faults.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { type OnTrace, World } from '../../../src/testing/simulation/world.ts';
import type { Asker, Case } from '../case.ts';
import { guarded } from '../guarded.ts';
import { Ledger } from '../ledger.ts';
import type { Outcome } from '../outcome.ts';
import { type SimulatedListener, takeOver } from './simulated-listener.ts';
import { SimulatedPath } from './simulated-path.ts';

const stepsMax = 400_000;
const settleMs = 300_000;
const startTimeoutMs = 30_000;
const connectMs = 5_000;
const lastCallsMs = 600_000;
/** Virtual milliseconds that a process takes to start, at most. */
const startMaxMs = 60;
const Answering = service('Answering', { answer: unary<number, number>() });

interface Served {
  readonly helper: string;
  readonly from: number;
  to: number;
}

class ElectionRun {
  readonly world: World;
  readonly ledger = new Ledger();
  readonly injected = new Map<string, number>();
  readonly #case: Case;
  readonly #path = new SimulatedPath();
  readonly #programs: SimulatedProcess[] = [];
  readonly #helpers: SimulatedProcess[] = [];
  readonly #served: Served[] = [];
  #starter: SimulatedProcess | undefined;
  #asking = 0;
  #ids = 0;

  constructor(given: Case, onTrace: OnTrace | undefined) {
    this.#case = given;
    this.world = new World(new SeededRandom(given.seed));
    this.world.onTrace = onTrace;
  }

  async run(): Promise<Outcome> {
    const { world, ledger, injected } = this;
    await guarded(this.ledger, async () => {
      this.#plan();
      await this.#phases();
    });
    for (const each of [...this.#programs, ...this.#helpers]) each.kill();
    return {
      faults: ledger.faults,
      steps: world.steps,
      virtualMs: world.nowMs,
      fingerprint: String(world.fingerprint),
      injected,
      coverage: new Coverage(),
    };
  }

  get #hasKills(): boolean {
    return this.#case.faults.length > 0 || (this.#case.election?.lives.length ?? 0) > 0;
  }

  #plan(): void {
    const { world } = this;
    for (const [at, asker] of (this.#case.election?.askers ?? []).entries()) {
      const program = new SimulatedProcess(`program ${at + 1}`, world);
      this.#programs.push(program);
      program.setTimeout(() => void this.#ask(program, asker), asker.atMs);
      this.#asking += 1;
      let isOver = false;
      this.#over.set(program, () => {
        if (!isOver) this.#asking -= 1;
        isOver = true;
      });
      program.whenDead(() => this.#over.get(program)?.());
    }
    const targets = { world, processes: this.#programs, connections: this.#path.connections };
    for (const fault of this.#case.faults) {
      planFault(targets, fault, () => {
        this.injected.set(fault.kind, (this.injected.get(fault.kind) ?? 0) + 1);
      });
    }
  }

  readonly #over = new Map<SimulatedProcess, () => void>();

  /** Asks for the helper, calls it, and leaves, several times. */
  async #ask(program: SimulatedProcess, { rounds, pauseMs, version }: Asker): Promise<void> {
    const finder = this.#finderOf(program, version);
    for (let round = 0; round < rounds; round += 1) {
      this.#ids += 1;
      const id = this.#ids;
      let error: unknown;
      try {
        const session = await finder.find(undefined);
        this.ledger.onEnd(id, 'answer', await this.#call(session, id));
        await session.close();
      } catch (reason) {
        error = reason;
      }
      if (program.isDead) return;
      if (error !== undefined && !this.#isExpected(error)) {
        this.ledger.fault(`${program.name}: ${(error as Error)?.message ?? error}`);
      }
      await program.sleep(pauseMs);
    }
    this.#over.get(program)?.();
  }

  /** The error of the call, or nothing: it may meet a helper that ends, which it is told. */
  async #call(session: Session, id: number): Promise<unknown> {
    try {
      await session.client(Answering).answer(id);
      return undefined;
    } catch (error) {
      if (!this.#isExpected(error)) throw error;
      return error;
    }
  }

  /** A helper may be killed, or give its path away, between the session and the call. */
  #isExpected(error: unknown): boolean {
    if (!SidecallError.is(error)) return false;
    if (error.code === 'ERR_SIDECALL_GOING_AWAY') return true;
    return this.#hasKills && /PEER_GONE|HELPER_FAILED/.test(error.code);
  }

  #finderOf(program: SimulatedProcess, version: string): SharedFinder {
    const settings = {
      path: 'the path',
      name: 'a helper',
      key: undefined,
      version,
      startTimeoutMs,
    };
    return new SharedFinder(
      { ...settings, onOlder: 'replace', onNewer: 'use' },
      {
        clock: program,
        random: () => program.random.fraction(),
        open: async () => (await this.#path.connect(program, connectMs)).near.session,
        openToReplace: async () => (await this.#path.connect(program, connectMs)).near.session,
        whileStarter: (work) => this.#whileStarter(program, work),
        starterPid: () => undefined,
        isPreparing: async () => false,
        start: () => this.#start(version),
        standing: async () => ({ state: 'busy', pid: undefined, words: 'is busy' }),
      },
    );
  }

  async #whileStarter<T>(
    program: SimulatedProcess,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    if (this.#starter !== undefined) return undefined;
    this.#starter = program;
    const release = (): void => {
      if (this.#starter === program) this.#starter = undefined;
    };
    program.whenDead(release);
    try {
      return await work();
    } finally {
      release();
    }
  }

  #start(version: string): StartedShared {
    const { lives = [] } = this.#case.election ?? {};
    const helper = new SimulatedProcess(`helper ${this.#helpers.length + 1}`, this.world);
    helper.diesAtPoint = lives[this.#helpers.length] ?? Number.POSITIVE_INFINITY;
    this.#helpers.push(helper);
    this.world.trace(helper.name, `is started, version ${version}`);
    let exit: HelperExit | undefined;
    const end = (code: number): void => {
      exit ??= { code, signal: null };
      helper.kill();
    };
    helper.whenDead(() => {
      exit ??= { code: null, signal: 'SIGKILL' };
    });
    helper.setTimeout(
      () => void this.#beHelper(helper, version, end),
      helper.random.below(startMaxMs),
    );
    return {
      pid: helper.pid,
      command: 'a helper',
      get exit() {
        return exit;
      },
      tail: () => '',
      kill: () => helper.kill(),
    };
  }

  /** As `listenShared()`. */
  async #beHelper(
    helper: SimulatedProcess,
    version: string,
    end: (code: number) => void,
  ): Promise<void> {
    let listener: SimulatedListener;
    const idleTimeoutMs = this.#case.election?.idleTimeoutMs ?? 100;
    const serve = (session: Session): void => this.#serve(helper, session, version);
    try {
      const ready = (): Promise<void> => helper.sleep(helper.random.below(20));
      listener = await takeOver(this.#path, helper, serve, ready, { version });
    } catch (error) {
      this.world.trace(helper.name, `does not listen: ${(error as Error).message}`);
      return end(pathTakenExit);
    }
    void listener.closed.then(() => end(0));
    void endWhenIdle(helper, listener, idleTimeoutMs);
    await listener.handOver(lastCallsMs, ({ version: other }) =>
      compareVersions(String(other), version) > 0 ? undefined : `version ${version} listens`,
    );
  }

  #serve(helper: SimulatedProcess, session: Session, version: string): void {
    session.serve(SharedService, {
      info: () => ({
        name: 'a helper',
        key: undefined,
        version,
        pid: helper.pid,
        uptimeMs: 0,
        clients: 1,
        idleTimeoutMs: 100,
      }),
      stop: () => undefined,
    });
    session.serve(Answering, {
      answer: (id) => {
        if (!helper.isDead) this.#noteServed(helper, id);
        return id;
      },
    });
  }

  #noteServed({ name }: SimulatedProcess, id: number): void {
    this.ledger.onSeen(id);
    const { nowMs } = this.world;
    const known = this.#served.find(({ helper }) => helper === name);
    if (known === undefined) this.#served.push({ helper: name, from: nowMs, to: nowMs });
    else known.to = nowMs;
  }

  async #phases(): Promise<void> {
    const { world, ledger } = this;
    await this.#until(() => this.#asking === 0, settleMs);
    if (this.#asking > 0) ledger.fault(`${this.#asking} programs have got no answer in time`);
    ledger.checkCalls();
    this.#checkSpans();
    // No program asks any more: each helper that lives ends by itself.
    const isEmpty = (): boolean => this.#helpers.every(({ isDead }) => isDead);
    await this.#until(isEmpty, world.nowMs + settleMs);
    for (const { name, isDead } of this.#helpers) {
      if (!isDead) ledger.fault(`${name} does not end although no program uses it`);
    }
  }

  /** Helpers of one version never serve beside each other; a newer one follows an older. */
  #checkSpans(): void {
    const versions = new Set(this.#case.election?.askers.map(({ version }) => version));
    if (versions.size > 1) return; // calls of the older one finish
    for (const [at, { helper, from }] of this.#served.entries()) {
      const before = this.#served.slice(0, at).find(({ to }) => to >= from);
      if (before !== undefined) {
        this.ledger.fault(`${helper} serves at ${from}, ${before.helper} until ${before.to}`);
      }
    }
  }

  async #until(isDone: () => boolean, untilMs: number): Promise<void> {
    const { world } = this;
    const late = world.plan(Math.max(0, untilMs - world.nowMs), () => undefined);
    await world.run(() => world.nowMs >= untilMs || isDone(), stepsMax);
    late.isCancelled = true;
  }
}

/** Runs a case with an election. Never rejects. */
export function runElectionCase(given: Case, onTrace?: OnTrace): Promise<Outcome> {
  return new ElectionRun(given, onTrace).run();
}
