// SPDX-License-Identifier: MIT
// A simulated helper that is started again when it ends, by the supervisor of real helpers.
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import type { HelperExit } from '../../helper/helper-errors.ts';
import type { StopLimits } from '../../helper/helper-process.ts';
import { checkRestart, type RestartOptions } from '../../helper/restart-options.ts';
import { type SupervisedProcess, Supervisor } from '../../helper/supervisor.ts';
import type { ClosedCalls } from '../../rpc/session/closed-calls.ts';
import type { ConnectedEnd } from './connection.ts';
import type { SimulatedProcess } from './process.ts';

/** Virtual milliseconds that a process takes to start, and to be told as ended. */
const startMs = 4;
const exitMs = 3;
const killed: HelperExit = { code: null, signal: 'SIGKILL' };

/** A process that was started, and our end of its session. */
export interface StartedHelper {
  readonly process: SimulatedProcess;
  readonly near: ConnectedEnd;
}

class SimulatedHelper implements SupervisedProcess {
  readonly pid: number;
  readonly session: ConnectedEnd['session'];
  readonly exited: Promise<HelperExit>;
  exit: HelperExit | undefined;
  readonly #process: SimulatedProcess;

  /** `clock`: of the process that started it. */
  constructor(clock: Clock, { process, near: { session } }: StartedHelper) {
    this.#process = process;
    this.pid = process.pid;
    this.session = session;
    this.exited = new Promise((resolve) => {
      process.whenDead(() => void clock.setTimeout(resolve, exitMs, killed));
    });
    void this.exited.then((exit) => {
      this.exit = exit;
      const text = `${process.name} (pid ${this.pid}) was ended by SIGKILL`;
      clock.setImmediate(() =>
        session.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE', text)),
      );
    });
  }

  async stop({ deadlineMs }: StopLimits, isFollowed = false): Promise<ClosedCalls> {
    const calls = await this.session.closeCounted(deadlineMs, isFollowed);
    this.#process.kill();
    await this.exited;
    return calls;
  }

  ref(): void {}

  unref(): void {}
}

/** Starts a helper of `app`, and the next one whenever it has ended. */
export function superviseHelper(
  app: SimulatedProcess,
  startOne: () => StartedHelper,
  restart: boolean | RestartOptions = true,
): Supervisor<SupervisedProcess> {
  const clock: Clock = app;
  const start = async (signal: AbortSignal): Promise<SupervisedProcess> => {
    await new Promise((resolve) => void clock.setTimeout(resolve, startMs, undefined));
    signal.throwIfAborted();
    return new SimulatedHelper(app, startOne());
  };
  const random = (): number => app.random.fraction();
  const parts = { command: 'a helper', start, onEvent: undefined, clock, random };
  return new Supervisor(parts, checkRestart(restart), new SimulatedHelper(app, startOne()));
}
