// A simulated helper that is started again whenever it was killed, by the supervisor of helpers.
import { SidecallError } from '../../src/base/errors.ts';
import type { HelperExit } from '../../src/helper/helper-errors.ts';
import { checkRestart } from '../../src/helper/restart-options.ts';
import { type SupervisedProcess, Supervisor } from '../../src/helper/supervisor.ts';
import type { ConnectedEnd } from '../../src/testing/simulation/connection.ts';
import { SimulatedProcess } from '../../src/testing/simulation/process.ts';

/** Virtual milliseconds that a process takes to start, and to be told as ended. */
const startMs = 4;
const exitMs = 3;
const firstMs = 5;
const killed: HelperExit = { code: null, signal: 'SIGKILL' };

/** Makes the near end of a connection to a new process. */
export type ConnectHelper = (helper: SimulatedProcess) => ConnectedEnd;

class SimulatedHelper implements SupervisedProcess {
  readonly #process: SimulatedProcess;
  readonly session: ConnectedEnd['session'];
  readonly exited: Promise<HelperExit>;
  exit: HelperExit | undefined;

  constructor(app: SimulatedProcess, process: SimulatedProcess, { session }: ConnectedEnd) {
    this.#process = process;
    this.session = session;
    this.exited = new Promise((resolve) => {
      process.whenDead(() => void app.setTimeout(resolve, exitMs, killed));
    });
    void this.exited.then((exit) => {
      this.exit = exit;
      const text = `process ${this.pid} was ended by SIGKILL`;
      app.setImmediate(() => session.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE', text)));
    });
  }

  get pid(): number {
    return this.#process.pid;
  }

  ref(): void {}

  unref(): void {}
}

/**
 * Starts a helper, and the next one whenever it is dead. `lives`: the points at which the first,
 * the second … are killed; the one behind them lives on.
 */
export function superviseHelper(
  app: SimulatedProcess,
  lives: readonly number[],
  connect: ConnectHelper,
): Supervisor<SupervisedProcess> {
  let started = 0;
  const startOne = (): SupervisedProcess => {
    const process = new SimulatedProcess(`helper ${started + 1}`, app.world);
    process.diesAtPoint = lives[started] ?? Number.POSITIVE_INFINITY;
    started += 1;
    return new SimulatedHelper(app, process, connect(process));
  };
  const start = async (signal: AbortSignal): Promise<SupervisedProcess> => {
    await new Promise((resolve) => void app.setTimeout(resolve, startMs, undefined));
    signal.throwIfAborted();
    return startOne();
  };
  const random = (): number => app.random.fraction();
  const parts = { command: 'helper', start, onEvent: () => undefined, clock: app, random };
  return new Supervisor(parts, checkRestart({ firstMs }), startOne());
}
