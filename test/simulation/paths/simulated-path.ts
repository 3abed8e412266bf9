// A path of a simulated machine, as its kernel has it: a socket that processes hold, connections
// that wait to be accepted, and a lock that is given up with its holder.
import { SidecallError } from '../../../src/base/errors.ts';
import {
  type ConnectedEnd,
  type Connection,
  connectProcesses,
} from '../../../src/testing/simulation/connection.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/process.ts';

type OnSession = (end: ConnectedEnd) => void;

interface Waiting {
  readonly process: SimulatedProcess;
  readonly settle: (connection: Connection) => void;
  readonly refuse: () => void;
}

/** A listening socket: it lives as long as a process holds it. */
export class SimulatedSocketFile {
  readonly accepting = new Map<SimulatedProcess, OnSession>();
  hasAccepted = false;
  readonly #holders = new Set<SimulatedProcess>();
  readonly #waiting: Waiting[] = [];
  readonly #connected: (connection: Connection) => void;

  constructor(connected: (connection: Connection) => void) {
    this.#connected = connected;
  }

  get isListening(): boolean {
    return this.#holders.size > 0;
  }

  /** The process has a descriptor of it, until it drops that or ends. */
  hold(process: SimulatedProcess): void {
    this.#holders.add(process);
    process.whenDead(() => this.drop(process));
  }

  drop(process: SimulatedProcess): void {
    this.accepting.delete(process);
    this.#holders.delete(process);
    if (this.isListening) return;
    for (const waiting of this.#waiting.splice(0)) waiting.refuse();
  }

  accept(process: SimulatedProcess, onSession: OnSession): void {
    this.accepting.set(process, onSession);
    this.hasAccepted = true;
    for (const waiting of this.#waiting.splice(0)) this.#join(waiting);
  }

  pause(process: SimulatedProcess): void {
    this.accepting.delete(process);
  }

  add(waiting: Waiting): void {
    this.#join(waiting);
  }

  #join(waiting: Waiting): void {
    if (waiting.process.isDead) return;
    const all = [...this.accepting];
    if (all.length === 0) {
      this.#waiting.push(waiting);
      return;
    }
    const [process, onSession] = waiting.process.world.random.pick(all);
    const connection = connectProcesses(waiting.process, process, { lane: 'socket' });
    this.#connected(connection);
    onSession(connection.far);
    waiting.settle(connection);
  }
}

/** The path: a file, and the lock beside it. */
export class SimulatedPath {
  file: SimulatedSocketFile | undefined;
  lock: SimulatedProcess | undefined;
  /** All that was ever connected. */
  readonly connections: Connection[] = [];
  /** Connections that met no listener, since there was one. */
  refused = 0;

  /** False: another process has the lock. */
  tryLock(process: SimulatedProcess): boolean {
    if (this.lock !== undefined && this.lock !== process) return false;
    this.lock = process;
    process.whenDead(() => this.unlock(process));
    return true;
  }

  unlock(process: SimulatedProcess): void {
    if (this.lock === process) this.lock = undefined;
  }

  /**
   * A new socket in the place of the one before.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE` while a process has a descriptor of that.
   */
  bind(process: SimulatedProcess): SimulatedSocketFile {
    if (this.file?.isListening === true) {
      this.unlock(process);
      throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', 'a process holds its socket');
    }
    this.file = new SimulatedSocketFile((connection) => this.connections.push(connection));
    this.file.hold(process);
    return this.file;
  }

  /** @throws {SidecallError} as `connect()`. */
  async connect(process: SimulatedProcess, timeoutMs: number): Promise<Connection> {
    await process.sleep(process.random.fraction());
    const { file } = this;
    if (file?.isListening !== true) throw this.#noListener();
    return new Promise((resolve, reject) => {
      const late = process.setTimeout(() => {
        reject(new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT'));
      }, timeoutMs);
      const over = (settle: () => void): void => {
        process.clearTimeout(late);
        settle();
      };
      file.add({
        process,
        settle: (connection) => over(() => resolve(connection)),
        refuse: () => over(() => reject(this.#noListener())),
      });
    });
  }

  #noListener(): SidecallError {
    if (this.file?.hasAccepted === true) this.refused += 1;
    return new SidecallError('ERR_SIDECALL_NO_LISTENER');
  }
}
