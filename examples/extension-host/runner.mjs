// The process that extensions run in. It loads them on demand and gives each its API.
import { AsyncLocalStorage } from 'node:async_hooks';
import { pathToFileURL } from 'node:url';
import { parent, RpcError } from 'sidecall';
import { forwardConsole } from './console.mjs';
import { Host, Runner } from './contract.mjs';

const session = await parent();
const host = session.client(Host);
const extensions = new Map();
// The context of running code: { name, depth, signal }: its extension, how many calls of commands
// led to it, and the signal that cancels it.
const running = new AsyncLocalStorage();
let progressIds = 0;

forwardConsole(async (text) => {
  const name = running.getStore()?.name ?? extensions.keys().next().value;
  if (name !== undefined) await host.log({ name, text });
});

session.serve(Runner, {
  async activate({ name, entry }) {
    if (!extensions.has(name)) extensions.set(name, load(name, entry));
    const { commands, activated } = extensions.get(name);
    try {
      await activated;
    } catch (error) {
      extensions.delete(name); // the next command tries again
      throw new RpcError('failed_precondition', `activate() of ${name}: ${error.message}`);
    }
    return { commands: [...commands.keys()] };
  },
  async run({ name, command, args, depth }, ctx) {
    const run = extensions.get(name)?.commands.get(command);
    if (run === undefined) throw new RpcError('not_found', `${name} has no command ${command}`);
    try {
      return await running.run({ name, depth, signal: ctx.signal }, () => run(args, ctx));
    } catch (error) {
      if (RpcError.is(error)) throw error;
      throw new RpcError('unknown', `${command}: ${error.message}`);
    }
  },
  async deactivate() {
    const ends = [...extensions].map(([name, { activated }]) =>
      running.run({ name, depth: 0 }, async () => {
        try {
          await (await activated).deactivate?.();
        } catch (error) {
          await host.log({ name, text: `error: deactivate(): ${error.message}` });
        }
      }),
    );
    await Promise.all(ends);
  },
});

function load(name, entry) {
  const commands = new Map();
  const activated = running.run({ name, depth: 0 }, async () => {
    const module = await import(pathToFileURL(entry).href);
    await module.activate(apiFor(name, commands));
    return module;
  });
  return { commands, activated };
}

/**
 * The API of an extension. Each function resolves when the host has answered, so a caller that
 * awaits it cannot fill the memory of either side.
 */
function apiFor(name, commands) {
  return Object.freeze({
    commands: {
      register: (command, run) => void commands.set(command, run),
      execute: (command, args) => {
        const { depth, signal } = running.getStore() ?? { depth: 0 };
        return host.execute({ name, command, args, depth }, { signal });
      },
    },
    /**
     * Runs work(report, signal): report(done, total) moves a progress bar, and signal is aborted
     * where the user cancels the command.
     */
    async withProgress(title, work) {
      progressIds += 1;
      const id = progressIds;
      let all = 1;
      const report = (done, total) => {
        all = total;
        return host.progress({ name, id, title, done, total });
      };
      try {
        return await work(report, running.getStore()?.signal);
      } finally {
        await host.progress({ name, id, title, done: all, total: all });
      }
    },
    storage: {
      get: (key) => host.read({ name, key }),
      set: (key, value) => host.write({ name, key, value }),
    },
    log: (text) => host.log({ name, text: String(text) }),
  });
}
