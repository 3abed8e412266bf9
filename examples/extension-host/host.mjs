// The host: finds extensions and runs them in processes of their own, so that no extension can
// block or crash it.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RpcError, spawnHelper } from 'sidecall';
import { readLines } from './console.mjs';
import { Host, Runner } from './contract.mjs';
import { HostServices, Pace } from './services.mjs';

const runner = new URL('runner.mjs', import.meta.url);

/** Limits of the host's memory and streams for one process of extensions. */
const limits = { receiveMaxBytes: 1024 * 1024, streamsMax: 64 };
const standard = {
  restart: { firstMs: 100, maxMs: 2_000, maxRestarts: 3, windowMs: 60_000 },
  activateTimeoutMs: 5_000,
  commandTimeoutMs: 10_000,
  deactivateTimeoutMs: 1_000,
  livenessEveryMs: 500,
  heapMegabytes: 256,
  executeDepthMax: 4,
};

/**
 * Extensions of a folder: each has a folder of its own with `extension.json`: { main, commands,
 * process }. Extensions with the same `process` share one, and crash together; the default is the
 * name of the extension.
 */
export class ExtensionHost {
  #extensions = new Map();
  #processes = new Map();
  #options;
  #services;
  #closed = new AbortController();

  constructor(folder, options = {}) {
    this.#options = { ...standard, ...options };
    this.#services = new HostServices((...asked) => this.#execute(...asked));
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      const extension = readExtension(resolve(folder, entry.name), entry.name);
      this.#extensions.set(entry.name, extension);
      this.#services.add(entry.name);
    }
  }

  /** The rows of the screen, one per extension. */
  get rows() {
    return [...this.#extensions.values()].map((extension) => {
      const { name, state, why, commands, running } = extension;
      const process = this.#processes.get(extension.process);
      return {
        ...{ name, state, why, commands, running },
        process: extension.process,
        pid: process?.helper?.pid,
        loop: process?.liveness?.loop,
        busyForMs: process?.liveness?.busyForMs ?? 0,
        restarts: process?.helper?.state.restarts ?? 0,
        lane: process?.helper?.session.lane,
        ...this.#services.of(name),
      };
    });
  }

  /** All commands that can be run, and the extension of each. */
  get commands() {
    return [...this.#extensions.values()].flatMap(({ name, commands }) =>
      commands.map((command) => ({ name, command })),
    );
  }

  /** Runs a command; its extension is activated on demand. Rejects with the error of either. */
  async run(command, args, options = {}) {
    const extension = [...this.#extensions.values()].find(({ commands }) =>
      commands.includes(command),
    );
    if (extension === undefined) throw new RpcError('not_found', `there is no command ${command}`);
    this.#closed.signal.throwIfAborted();
    const process = await this.#activate(extension);
    extension.running += 1;
    const cancelled = new AbortController();
    extension.cancels.add(cancelled);
    try {
      const { timeoutMs = this.#options.commandTimeoutMs, depth = 0 } = options;
      const signals = [options.signal, cancelled.signal].filter(Boolean);
      const request = { name: extension.name, command, args, depth };
      return await process.runner.run(request, { timeoutMs, signal: AbortSignal.any(signals) });
    } finally {
      extension.running -= 1;
      extension.cancels.delete(cancelled);
    }
  }

  /** Cancels the running commands of an extension: their signal is aborted, and they reject. */
  cancel(name) {
    const reason = new RpcError('cancelled', 'the user cancelled the command');
    for (const cancelled of this.#extensions.get(name)?.cancels ?? []) cancelled.abort(reason);
  }

  /** Enables a disabled extension: the next command starts it again. */
  enable(name) {
    const extension = this.#extensions.get(name);
    if (extension?.state !== 'disabled') return;
    extension.state = 'idle';
    extension.why = undefined;
  }

  /**
   * Kills the process of an extension, also a busy one. It is started again, as after a crash.
   */
  kill(name) {
    const extension = this.#extensions.get(name);
    const { helper } = this.#processes.get(extension?.process) ?? {};
    if (helper?.state.state === 'running') process.kill(helper.pid, 'SIGKILL');
  }

  async close() {
    this.#closed.abort(new RpcError('unavailable', 'the host is closed'));
    // The signal cancels processes that are starting; those that have started are stopped.
    await Promise.allSettled([...this.#processes.values()].map(({ started }) => started));
    const processes = [...this.#processes.values()].filter(({ helper }) => helper !== undefined);
    await Promise.all(processes.map((process) => this.#stop(process)));
  }

  /** Lets the extensions of a process finish by their deactivate(), then ends it. */
  async #stop({ helper, runner }) {
    if (helper.state.state === 'running') {
      const timeoutMs = this.#options.deactivateTimeoutMs;
      await runner.deactivate(undefined, { timeoutMs }).catch(() => undefined);
    }
    await helper.stop({ deadlineMs: 500, killGraceMs: 200 });
  }

  /** Runs a command for another extension: the caller's signal ends it, `depth` is bounded. */
  #execute(caller, command, args, { signal, depth }) {
    const target = this.commands.find((each) => each.command === command);
    if (target?.name === caller) throw new RpcError('invalid_argument', 'call your own functions');
    if (depth >= this.#options.executeDepthMax) {
      throw new RpcError('resource_exhausted', `commands may call commands ${depth} deep`);
    }
    return this.run(command, args, { signal, depth: depth + 1 });
  }

  /** The process of an extension, with the extension active in it. */
  async #activate(extension) {
    if (extension.state === 'disabled') {
      throw new RpcError('failed_precondition', `${extension.name} is disabled: ${extension.why}`);
    }
    const process = this.#processOf(extension);
    await process.started;
    // After a restart the extension has to be activated in the new process.
    const session = await runningSession(process.helper);
    if (extension.session !== session) {
      extension.session = session;
      extension.activation = this.#activateOn(process, extension);
      extension.activation.catch(() => undefined);
    }
    await extension.activation;
    return process;
  }

  async #activateOn(process, extension) {
    extension.state = 'activating';
    const { name, entry } = extension;
    try {
      await process.runner.activate(
        { name, entry },
        { timeoutMs: this.#options.activateTimeoutMs },
      );
      extension.state = 'active';
      extension.why = undefined;
    } catch (error) {
      extension.session = undefined; // the next command tries again
      if (extension.state === 'activating') extension.state = 'failed';
      extension.why = error.message;
      throw error;
    }
  }

  #processOf({ process: name }) {
    const known = this.#processes.get(name);
    if (known !== undefined) return known;
    const created = { name, helper: undefined, runner: undefined, liveness: undefined };
    created.started = this.#start(created);
    created.started.catch(() => this.#processes.delete(name));
    this.#processes.set(name, created);
    return created;
  }

  async #start(created) {
    const { restart, heapMegabytes } = this.#options;
    created.helper = await spawnHelper(runner, [], {
      execArgv: [`--max-old-space-size=${heapMegabytes}`],
      ...{ restart, limits, stdout: 'pipe', stderr: 'pipe' },
      signal: this.#closed.signal,
    });
    created.helper.serve(
      Host,
      this.#services.handlers((name) => this.#extensions.get(name)?.process === created.name),
    );
    created.runner = created.helper.client(Runner);
    void this.#follow(created);
    void this.#watch(created);
  }

  /** Applies the states of a process to its extensions; a crash loop disables them. */
  async #follow(created) {
    for await (const { state, error } of created.helper.states()) {
      const tenants = [...this.#extensions.values()].filter(
        (each) => each.process === created.name,
      );
      if (state === 'running') this.#readOutput(created.helper, tenants);
      for (const extension of tenants) {
        if (state === 'restarting' || state === 'ending') {
          extension.state = 'crashed';
          extension.why = error.message;
          this.#services.clear(extension.name);
        } else if (state === 'running' && extension.state === 'crashed') extension.state = 'idle';
        else if (state === 'ended' && error !== undefined) {
          extension.state = 'disabled';
          extension.why = error.message;
        }
      }
    }
    this.#processes.delete(created.name);
  }

  /** Adds what a process prints past `console`, such as the error that ends it, to the logs. */
  #readOutput({ stdout, stderr }, tenants) {
    const pace = new Pace();
    const print = (label) => async (line) => {
      for (const { name } of tenants) await this.#services.printed(name, pace, label + line);
    };
    void readLines(stdout, print('stdout: '));
    void readLines(stderr, print('stderr: '));
  }

  /** Samples the liveness of a process. A busy process is only shown as busy. */
  async #watch(created) {
    const { signal } = this.#closed;
    while (!signal.aborted && this.#processes.get(created.name) === created) {
      created.liveness = await created.helper.session.liveness({ waitMs: 200 });
      await sleep(this.#options.livenessEveryMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** The session of the process that runs, or of the next one. */
async function runningSession(helper) {
  for await (const { state, session, error } of helper.states()) {
    if (state === 'running' && session.state === 'open') return session;
    if (state === 'ended') throw error ?? new RpcError('unavailable', 'the host is closing');
  }
}

/** Reads one extension. An error is stored as its state `failed`; others are still loaded. */
function readExtension(folder, name) {
  const idle = {
    state: 'idle',
    why: undefined,
    running: 0,
    session: undefined,
    activation: undefined,
    cancels: new Set(),
  };
  const extension = { ...idle, name, process: name, commands: [], entry: undefined };
  try {
    const manifest = JSON.parse(readFileSync(join(folder, 'extension.json'), 'utf8'));
    const { main, commands, process = name } = manifest ?? {};
    const isList = Array.isArray(commands) && commands.every((each) => typeof each === 'string');
    if (typeof main !== 'string' || typeof process !== 'string' || !isList) {
      throw new TypeError('extension.json needs main, a text, and commands, a list of texts');
    }
    // An extension cannot register commands of another one.
    const foreign = commands.filter((each) => !each.startsWith(`${name}.`));
    if (foreign.length > 0)
      throw new TypeError(`commands of ${name} begin with '${name}.': ${foreign}`);
    return { ...extension, process, commands, entry: join(folder, main) };
  } catch (error) {
    return { ...extension, state: 'failed', why: error.message };
  }
}
