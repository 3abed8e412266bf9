// SPDX-License-Identifier: MIT
// The types of `simulate()`: its options, its result, and the machine that a program gets.
import type { OnEvent } from '../../base/events.ts';
import type { SessionLimits } from '../../base/limits/option-limits.ts';
import type { RestartOptions } from '../../helper/restart-options.ts';
import type { KeepAliveOptions } from '../../open/session-options.ts';
import type { ClientOptions } from '../../rpc/calling/client.ts';
import type { Client, Methods, Service } from '../../rpc/contract/method-types.ts';
import type { Session } from '../../rpc/session/session.ts';
import type { Fault } from './faults.ts';

/** The lanes of simulated sessions. */
export type SimulatedLane = 'ring' | 'socket';

/** Options of `simulate()`. */
export interface SimulateOptions<T> {
  /**
   * The number that everything follows from: order of turns, delays, how bytes are split. The same
   * seed gives the same run. Default 1; 0 to 2^53 - 1.
   */
  readonly seed?: number | undefined;
  /** The lane of each session. Default: the ring, or the socket where the addon is missing. */
  readonly lane?: SimulatedLane | undefined;
  /** Faults that happen on the way. A process is named by its name. Default: none. */
  readonly faults?: readonly Fault[] | undefined;
  /** Virtual time within which `run` has to settle. Default 3,600,000; 1 to 2,147,483,647. */
  readonly limitMs?: number | undefined;
  /** Called with each frame, fault and end, in words. */
  readonly onTrace?: ((line: string) => void) | undefined;
  /**
   * The program. It makes processes, connects them, serves and calls. Time passes while it awaits
   * something of the simulation; timers and files of Node itself are not part of it.
   */
  readonly run: (simulation: Simulation) => Promise<T> | T;
}

/** The result of a simulated run. */
export interface SimulationResult<T> {
  /** The result of `run`. */
  readonly value: T;
  /** Callbacks that were run. */
  readonly steps: number;
  /** Virtual milliseconds that have passed. */
  readonly virtualMs: number;
  /** A sum of everything that has happened, equal for equal runs on each machine. */
  readonly fingerprint: string;
  /** The number of points of each process, at which a fault `kill-at-point` can end it. */
  readonly points: Readonly<Record<string, number>>;
}

/** End of a simulated session. */
export interface SimulatedEndOptions {
  readonly limits?: Partial<SessionLimits> | undefined;
  /** As of `connect()`. */
  readonly keepAlive?: boolean | KeepAliveOptions | undefined;
  /** As of `connect()`. */
  readonly stallTimeoutMs?: number | undefined;
  readonly onEvent?: OnEvent | undefined;
}

/** Options of {@link Simulation.connect}. */
export interface SimulatedConnectOptions {
  readonly near?: SimulatedEndOptions | undefined;
  readonly far?: SimulatedEndOptions | undefined;
  /** As of `connect()`. Default 0. */
  readonly blockAreaBytes?: number | undefined;
}

/** Options of {@link Simulation.helper}. */
export interface SimulatedHelperOptions {
  /** Called in each process of the helper, the restarted ones included, with its session. */
  readonly serve: (session: Session, process: SimulatedProcessHandle) => void;
  /** As of `spawnHelper()`. Default: true. */
  readonly restart?: boolean | RestartOptions | undefined;
}

/** A simulated helper, as its parent sees it. */
export interface SimulatedHelperHandle {
  /** The session with the process that runs now, or ran last. */
  readonly session: Session;
  /** As `helper.client()`: it lives through restarts. */
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M>;
}

/** A simulated process, as the program sees it. */
export interface SimulatedProcessHandle {
  readonly name: string;
  readonly isDead: boolean;
  /** Resolves in `ms` of virtual time; never in a process that is dead by then. */
  sleep(ms: number): Promise<void>;
  /** SIGKILL: nothing of it is heard any more. Its handlers may still run to their next await. */
  kill(): void;
  /** SIGSTOP. */
  stop(): void;
  /** SIGCONT. */
  resume(): void;
  /** Its event loop computes for `ms` of virtual time. */
  block(ms: number): void;
}

/** The simulated machine. */
export interface Simulation {
  /** Virtual milliseconds since the beginning. */
  readonly nowMs: number;
  /** A new process. */
  process(name: string): SimulatedProcessHandle;
  /** A session between two processes. */
  connect(
    near: SimulatedProcessHandle,
    far: SimulatedProcessHandle,
    options?: SimulatedConnectOptions,
  ): { readonly near: Session; readonly far: Session };
  /** A helper of `parent`, that is started again when its process ends. */
  helper(
    parent: SimulatedProcessHandle,
    name: string,
    options: SimulatedHelperOptions,
  ): SimulatedHelperHandle;
  /** A fault at this moment. */
  fault(fault: Fault): void;
}

/** Options of `simulateEveryDeath()`. */
export interface EveryDeathOptions<T> extends SimulateOptions<T> {
  /** The name of the process that dies. */
  readonly process: string;
}
