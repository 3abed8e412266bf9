// SPDX-License-Identifier: MIT
// `simulate()`: a program of several processes under virtual time, whose order, delays and faults
// follow from a seed. The idea is that of FoundationDB's and TigerBeetle's simulators.

import { isError } from '../../base/brands.ts';
import { systemClock } from '../../base/clock.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { makeClient } from '../../rpc/calling/client.ts';
import type { Session } from '../../rpc/session/session.ts';
import { type Connection, type ConnectionOptions, connectProcesses } from './connection.ts';
import { type Fault, planFault } from './faults.ts';
import { SimulatedProcess } from './process.ts';
import { SeededRandom } from './seeded-random.ts';
import { type StartedHelper, superviseHelper } from './simulated-helper.ts';
import type {
  EveryDeathOptions,
  SimulatedConnectOptions,
  SimulatedHelperHandle,
  SimulatedHelperOptions,
  SimulatedLane,
  SimulatedProcessHandle,
  SimulateOptions,
  Simulation,
  SimulationResult,
} from './simulation-types.ts';
import { World } from './world.ts';

/** A run failed. The message names the seed that repeats it. */
export class SimulationError extends Error {
  /** The seed of the run. */
  readonly seed: number;
  /** The faults of the run. */
  readonly faults: readonly Fault[];

  constructor(text: string, seed: number, faults: readonly Fault[], options: ErrorOptions = {}) {
    const said = faults.length === 0 ? '' : `, faults ${JSON.stringify(faults)}`;
    super(`${text} (seed ${seed}${said})`, options);
    this.name = 'SimulationError';
    this.seed = seed;
    this.faults = faults;
  }
}

const standardLimitMs = 3_600_000;
const stepsMax = 10_000_000;
/** Turns of the real event loop in which `run` may settle by itself when nothing is due. */
const lastTurns = 20;

const known = ['seed', 'lane', 'faults', 'limitMs', 'onTrace', 'run'] as const;

/**
 * Runs a program of several processes in one, under virtual time. Sessions, both lanes and the
 * restarts of helpers are the real ones; the operating system is simulated. An hour of virtual time
 * may pass in a millisecond.
 * @throws (as rejection) {SimulationError} where `run` rejects or does not settle, with the seed
 * that repeats it; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { service, unary } from 'sidecall';
 * import { simulate } from 'sidecall/testing';
 *
 * const Demo = service('Demo', { add: unary<{ a: number; b: number }, { sum: number }>() });
 *
 * const { value } = await simulate({
 *   seed: 7,
 *   async run(simulation) {
 *     const [app, helper] = [simulation.process('app'), simulation.process('helper')];
 *     const { near, far } = simulation.connect(app, helper);
 *     far.serve(Demo, { add: ({ a, b }) => ({ sum: a + b }) });
 *     return near.client(Demo).add({ a: 1, b: 2 });
 *   },
 * });
 * ```
 */
export async function simulate<T>(options: SimulateOptions<T>): Promise<SimulationResult<T>> {
  checkKeys('simulate()', options, known);
  const { seed = 1, lane, faults = [], run, onTrace } = options;
  const limitMs = checkInteger('limitMs', options.limitMs, {
    ...ranges.timeoutMs,
    standard: standardLimitMs,
    min: 1,
  });
  checkInteger('seed', seed, { standard: 1, min: 0, max: Number.MAX_SAFE_INTEGER });
  if (lane !== undefined && lane !== 'ring' && lane !== 'socket') {
    const text = `lane must be ring or socket, got '${String(lane)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  if (!Array.isArray(faults)) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'faults must be a list of faults');
  }
  checkFunction('onTrace', onTrace);
  if (typeof run !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'run must be a function');
  }
  const machine = new SimulatedMachine(seed, lane, faults);
  if (onTrace !== undefined) {
    machine.world.onTrace = (nowMs, actor, text) => onTrace(traceLine(nowMs, actor, text));
  }
  try {
    return machine.resultOf(await machine.run(run, limitMs));
  } catch (cause) {
    if (cause instanceof SimulationError) throw cause;
    const text = isError(cause) ? cause.message : String(cause);
    throw new SimulationError(text, seed, faults, { cause });
  } finally {
    machine.end();
  }
}

/**
 * Runs the program without the fault, and then once for each moment at which `process` is about to
 * show something to others (a record, a doorbell, bytes): it is killed there. Returns how many
 * deaths were survived.
 * @throws (as rejection) {SimulationError} as {@link simulate}, with the fault that repeats it.
 */
export async function simulateEveryDeath<T>({
  process,
  ...options
}: EveryDeathOptions<T>): Promise<number> {
  const { points } = await simulate(options);
  const count = points[process];
  if (count === undefined) {
    const names = Object.keys(points).join(', ');
    throw nodeError(
      TypeError,
      'ERR_INVALID_ARG_VALUE',
      `run makes no process '${process}'; it makes: ${names}`,
    );
  }
  const { faults = [] } = options;
  for (let point = 1; point <= count; point += 1) {
    await simulate({ ...options, faults: [...faults, { kind: 'kill-at-point', process, point }] });
  }
  return count;
}

/** A line of a trace: the instant, the process, what it does. */
export function traceLine(nowMs: number, actor: string, text: string): string {
  return `${nowMs.toFixed(3).padStart(12)}  ${actor.padEnd(22)} ${text}`;
}

class SimulatedMachine implements Simulation {
  readonly world: World;
  readonly #seed: number;
  readonly #lane: SimulatedLane | undefined;
  readonly #faults: readonly Fault[];
  readonly #planned = new Set<Fault>();
  readonly #processes: SimulatedProcess[] = [];
  readonly #connections: Connection[] = [];

  constructor(seed: number, lane: SimulatedLane | undefined, faults: readonly Fault[]) {
    this.world = new World(new SeededRandom(seed));
    this.#seed = seed;
    this.#lane = lane;
    this.#faults = faults;
    for (const fault of faults) if (!('process' in fault)) this.fault(fault);
  }

  get nowMs(): number {
    return this.world.nowMs;
  }

  process(name: string): SimulatedProcess {
    const process = new SimulatedProcess(name, this.world);
    this.#processes.push(process);
    // The first process of a name has its faults.
    for (const fault of this.#faults) {
      const isOfIt = 'process' in fault && fault.process === name && !this.#planned.has(fault);
      if (isOfIt) this.fault(fault);
    }
    return process;
  }

  connect(
    near: SimulatedProcessHandle,
    far: SimulatedProcessHandle,
    options: SimulatedConnectOptions = {},
  ): { near: Session; far: Session } {
    checkKeys('connect()', options, ['near', 'far', 'blockAreaBytes']);
    const connection = this.#connect(own(near), own(far), options);
    return { near: connection.near.session, far: connection.far.session };
  }

  helper(
    parent: SimulatedProcessHandle,
    name: string,
    { serve, restart = true }: SimulatedHelperOptions,
  ): SimulatedHelperHandle {
    const app = own(parent);
    const startOne = (): StartedHelper => {
      const process = this.process(name);
      const { near, far } = this.#connect(app, process, {});
      if (!process.isDead) serve(far.session, process);
      return { process, near };
    };
    const supervisor = superviseHelper(app, startOne, restart);
    return {
      get session(): Session {
        return supervisor.current.session;
      },
      client: (service, options) => makeClient(service, supervisor.target, options),
    };
  }

  fault(fault: Fault): void {
    this.#planned.add(fault);
    const { world } = this;
    const targets = { world, processes: this.#processes, connections: this.#connections };
    planFault(targets, fault, () => undefined);
  }

  async run<T>(run: (simulation: Simulation) => Promise<T> | T, limitMs: number): Promise<T> {
    const { world } = this;
    let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
    const running = async (): Promise<T> => run(this);
    running().then(
      (value) => {
        outcome = { value };
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    // It begins in turns of the real event loop, and may wait for something in between.
    for (let left = lastTurns; left > 0 && outcome === undefined; left -= 1) {
      await new Promise<void>((resolve) => systemClock.setImmediate(resolve));
      await world.run(() => outcome !== undefined || world.nowMs >= limitMs, stepsMax);
      if (world.nowMs >= limitMs) break;
    }
    if (outcome === undefined || world.nowMs >= limitMs) throw this.#stuck(limitMs);
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  resultOf<T>(value: T): SimulationResult<T> {
    const { steps, nowMs, fingerprint } = this.world;
    const points = Object.fromEntries(
      this.#processes.toReversed().map(({ name, points: passed }) => [name, passed]),
    );
    return { value, steps, virtualMs: nowMs, fingerprint: String(fingerprint), points };
  }

  /** Gives the memory of all rings back. */
  end(): void {
    this.world.onTrace = undefined;
    for (const process of this.#processes) process.kill();
  }

  #connect(
    near: SimulatedProcess,
    far: SimulatedProcess,
    options: SimulatedConnectOptions,
  ): Connection {
    const given: ConnectionOptions = { ...options, lane: this.#lane };
    const connection = connectProcesses(near, far, given);
    this.#connections.push(connection);
    return connection;
  }

  #stuck(limitMs: number): SimulationError {
    const isLate = this.world.nowMs >= limitMs;
    const text = isLate
      ? `run() has not settled within ${limitMs} ms of virtual time`
      : 'run() waits for something that is no part of the simulation, such as a timer or a file of Node';
    return new SimulationError(text, this.#seed, this.#faults);
  }
}

/** @throws {TypeError} `ERR_INVALID_ARG_VALUE` for what is no process of a simulation. */
function own(process: SimulatedProcessHandle): SimulatedProcess {
  if (process instanceof SimulatedProcess) return process;
  const text = 'a process of this simulation is needed, as simulation.process() makes it';
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
