// The process that extensions run in. It loads them on demand and gives each its API.
import { AsyncLocalStorage } from 'node:async_hooks';
import { pathToFileURL } from 'node:url';
import { parent, RpcError } from 'sidecall';
import { Host, Runner } from './contract.mjs';

const session = await parent();
const host = session.client(Host);
const extensions = new Map();
// The depth of the running command: how many calls of commands led to it.
const depths = new AsyncLocalStorage();
let progressIds = 0;

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
      return await depths.run(depth, () => run(args, ctx));
    } catch (error) {
      if (RpcError.is(error)) throw error;
      throw new RpcError('unknown', `${command}: ${error.message}`);
    }
  },
});

function load(name, entry) {
  const commands = new Map();
  const activated = import(pathToFileURL(entry).href).then(({ activate }) =>
    activate(apiFor(name, commands)),
  );
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
      execute: (command, args) => host.execute({ name, command, args, depth: depths.getStore() }),
    },
    /** Runs work(report), where report(done, total) moves a progress bar. */
    async withProgress(title, work) {
      progressIds += 1;
      const id = progressIds;
      let all = 1;
      const report = (done, total) => {
        all = total;
        return host.progress({ name, id, title, done, total });
      };
      try {
        return await work(report);
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
