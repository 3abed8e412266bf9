// The services of the host for extensions. Each request is checked, and each extension's log,
// progress and storage are bounded.
import { setTimeout as sleep } from 'node:timers/promises';
import { RpcError } from 'sidecall';

const logLinesMax = 50;
const logTextMax = 300;
const logLinesPerSecond = 200;
const progressMax = 8;
const storageMaxBytes = 64 * 1024;

export class HostServices {
  #byName = new Map();
  #execute;

  constructor(execute) {
    this.#execute = execute;
  }

  add(name) {
    this.#byName.set(name, {
      log: [],
      logged: 0,
      progress: new Map(),
      storage: new Map(),
      stored: 0,
    });
  }

  /** The part of a screen row that these services know. */
  of(name) {
    const { log, logged, progress, stored } = this.#byName.get(name);
    return { log: [...log], logged, progress: [...progress.values()], stored };
  }

  /** A line that the process of an extension has printed. Settles when more may be read. */
  async printed(name, pace, text) {
    const known = this.#byName.get(name);
    await pace.next();
    known.logged += 1;
    keep(known.log, text);
  }

  /** Drops the progress of an extension whose process has ended. */
  clear(name) {
    this.#byName.get(name).progress.clear();
  }

  /**
   * Handlers for one process. `owns` tells which extensions it runs; others are denied.
   */
  handlers(owns) {
    const find = (request) => {
      const known = typeof request?.name === 'string' ? this.#byName.get(request.name) : undefined;
      if (known === undefined || !owns(request.name)) {
        throw new RpcError('permission_denied', 'that is not an extension of this process');
      }
      return known;
    };
    const pace = new Pace();
    return {
      // A notification holds its place in the window until this has settled: a process that
      // floods waits, at no cost to others.
      log: async (request) => {
        const known = find(request);
        await pace.next();
        known.logged += 1;
        keep(known.log, request.text);
      },
      progress: (request) => {
        const { progress } = find(request);
        const { id, title, done, total } = request;
        if (![id, done, total].every(Number.isFinite))
          throw new RpcError('invalid_argument', 'figures');
        progress.delete(id);
        if (done < total) progress.set(id, { title: shortened(title, 40), done, total });
        if (progress.size > progressMax) progress.delete(progress.keys().next().value);
      },
      read: (request) => find(request).storage.get(String(request.key)),
      write: (request) => {
        const known = find(request);
        const key = String(request.key);
        const bytes = key.length + (JSON.stringify(request.value ?? null)?.length ?? 0);
        const before = known.storage.get(key);
        const freed = before === undefined ? 0 : key.length + JSON.stringify(before).length;
        if (known.stored - freed + bytes > storageMaxBytes) {
          throw new RpcError(
            'resource_exhausted',
            `an extension may store ${storageMaxBytes} bytes`,
          );
        }
        known.storage.set(key, request.value ?? null);
        known.stored += bytes - freed;
      },
      execute: (request, { signal }) => {
        find(request);
        const depth = Number.isInteger(request.depth) ? request.depth : 0;
        return this.#execute(request.name, String(request.command), request.args, {
          signal,
          depth,
        });
      },
    };
  }
}

function keep(log, text) {
  log.push(shortened(text, logTextMax));
  if (log.length > logLinesMax) log.shift();
}

/** A copy: a part of a long text would keep all of it in memory. */
function shortened(text, length) {
  return Buffer.from(String(text).slice(0, length)).toString();
}

/** A rate limit of log lines: 200 a second; an early caller waits. */
export class Pace {
  #next = 0;
  #last = Promise.resolve();

  /** Resolves when the next line may be taken, in the order of the calls. */
  next() {
    const now = performance.now();
    // A second's worth of lines may come at once.
    this.#next = Math.max(this.#next + 1_000 / logLinesPerSecond, now - 1_000);
    const at = this.#next;
    this.#last = this.#last.then(() => {
      const leftMs = at - performance.now();
      return leftMs > 0 ? sleep(leftMs) : undefined;
    });
    return this.#last;
  }
}
