// A listener of a simulated process: the path is simulated, the hand-over is the real one.
import { RpcError, SidecallError } from '../../../src/base/errors.ts';
import type { Metadata } from '../../../src/base/metadata.ts';
import {
  type GivenPath,
  HandOver,
  type HandOverOptions,
  orAborted,
} from '../../../src/rendezvous/hand-over.ts';
import { HandOverService } from '../../../src/rendezvous/hand-over-service.ts';
import {
  type HeldListener,
  listenOrTakeOver,
  type PathBefore,
} from '../../../src/rendezvous/take-over.ts';
import type { Session } from '../../../src/rpc/session/session.ts';
import type { IdleListener } from '../../../src/shared/idle-end.ts';
import type { ConnectedEnd } from '../../../src/testing/simulation/connection.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import type { SimulatedPath, SimulatedSocketFile } from './simulated-path.ts';

/** Serves the calls of a session. */
type Serve = (session: Session) => void;

interface Offered {
  readonly process: SimulatedProcess;
  readonly file: SimulatedSocketFile;
  readonly isTaken: () => void;
}

/** Descriptors that are offered, by the names of their places. */
const offered = new Map<string, Offered>();
let places = 0;

export class SimulatedListener implements HeldListener, IdleListener {
  readonly sessions = new Set<Session>();
  /** Resolves when it is closed, or has given the path away. */
  readonly closed: Promise<void>;
  sessionsEver = 0;
  epoch = 0;
  /** Called for each session that is reported as cut off at the deadline of a hand-over. */
  onForced: () => void = () => undefined;
  readonly #path: SimulatedPath;
  readonly #process: SimulatedProcess;
  readonly #serve: Serve;
  readonly #file: SimulatedSocketFile;
  #handOver: HandOver | undefined;
  #isClosed = false;
  #resolveClosed!: () => void;

  /** `received`: the socket of another process; else the path is bound, and locked. */
  constructor(
    path: SimulatedPath,
    process: SimulatedProcess,
    serve: Serve,
    received?: SimulatedSocketFile,
  ) {
    this.#path = path;
    this.#process = process;
    this.#serve = serve;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    if (received === undefined && !path.tryLock(process)) {
      throw new SidecallError('ERR_SIDECALL_PATH_IN_USE');
    }
    this.#file = received ?? path.bind(process);
  }

  begin(): void {
    this.checkOpen();
    this.#file.accept(this.#process, (end) => this.#add(end));
  }

  checkOpen(): void {
    if (this.#isClosed) throw new SidecallError('ERR_SIDECALL_CLOSED');
  }

  tryLock(): boolean {
    return this.#path.tryLock(this.#process);
  }

  get sessionCount(): number {
    return this.sessions.size;
  }

  async closeIfUnused(): Promise<boolean> {
    this.#file.pause(this.#process);
    if (this.sessions.size > 0) {
      this.begin();
      return false;
    }
    await this.close({ deadlineMs: 0 });
    return true;
  }

  async close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    this.#leave();
    await Promise.all([...this.sessions].map((session) => session.close({ deadlineMs })));
    this.#resolveClosed();
  }

  /** Gives the path to a successor, then closes. As of a real listener, with its defaults. */
  async handOver(deadlineMs: number, refuse?: HandOverOptions['refuse']): Promise<void> {
    const ended = new AbortController();
    const path: GivenPath = {
      clock: this.#process,
      epoch: this.epoch,
      pause: () => this.#file.pause(this.#process),
      resume: () => {
        if (!this.#isClosed) this.begin();
      },
      proofName: () => 'the proof',
      takeProof: () => true,
      offer: async () => {
        places += 1;
        const place = `place ${places}`;
        let isTaken = (): void => undefined;
        const taken = new Promise<void>((resolve) => {
          isTaken = resolve;
        });
        offered.set(place, { process: this.#process, file: this.#file, isTaken });
        return {
          path: place,
          give: (signal) => orAborted(taken, signal),
          close: async () => void offered.delete(place),
        };
      },
    };
    this.#handOver = new HandOver(path, { to: undefined, refuse }, ended.signal);
    await this.#handOver.taken;
    this.#leave();
    await Promise.all(
      [...this.sessions].map(async (session) => {
        const { isOrderly, forced } = await session.closeCounted(deadlineMs);
        if (!isOrderly || forced > 0) this.onForced();
      }),
    );
    this.#resolveClosed();
  }

  #leave(): void {
    this.#isClosed = true;
    this.#file.drop(this.#process);
    this.#path.unlock(this.#process);
  }

  #add({ session }: ConnectedEnd): void {
    this.sessions.add(session);
    this.sessionsEver += 1;
    void session.closed.then(() => this.sessions.delete(session));
    session.serve(HandOverService, {
      takeOver: (steps, ctx) => {
        if (this.#handOver === undefined) throw new RpcError('unimplemented', 'nobody hands over');
        return this.#handOver.serve(steps, ctx);
      },
    });
    this.#serve(session);
  }
}

/** `listen({ path, takeOver: { ready } })` of a simulated process. */
export function takeOver(
  path: SimulatedPath,
  process: SimulatedProcess,
  serve: Serve,
  ready: () => Promise<void>,
  metadata: Metadata = {},
): Promise<SimulatedListener> {
  let file: SimulatedSocketFile | undefined;
  const before: PathBefore = {
    clock: process,
    connect: async (limitMs) => (await path.connect(process, limitMs)).near.session,
    prove: () => () => undefined,
    receive: async (place) => {
      await process.sleep(process.random.fraction());
      const found = offered.get(place);
      if (found === undefined || found.process.isDead) {
        throw new SidecallError('ERR_SIDECALL_PEER_GONE');
      }
      found.isTaken();
      file = found.file;
      file.hold(process); // from here on no other process can put its own in the place of it
      return 0;
    },
  };
  return listenOrTakeOver({
    path: 'the path',
    before,
    settings: { ready, metadata, from: undefined, timeoutMs: 30_000 },
    open: async (received) => {
      const listener = new SimulatedListener(
        path,
        process,
        serve,
        received === undefined ? undefined : file,
      );
      listener.epoch = received?.epoch ?? 0;
      return listener;
    },
  });
}
