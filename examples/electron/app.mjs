// The main process: starts the helpers, opens the window, and gives its page a short list of
// methods. Electron's classes are parameters, so that the tests run this file unchanged.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { spawnHelper } from 'sidecall';
import { exposeToRenderer } from 'sidecall/electron';
import { createSessionPair } from 'sidecall/testing';
import { Shell } from './contract.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const livenessEveryMs = 1_000;

/**
 * @param electron { BrowserWindow, MessageChannelMain }
 * @param options The folder and file to show; paths of the preload script and the C helper.
 */
export async function start({ BrowserWindow, MessageChannelMain }, options) {
  const { folder, file, preload, origins, probe = join(here, 'probe') } = options;
  const restart = { firstMs: 50, maxMs: 1_000 };
  // The module runs on process.execPath: in Electron that is the app, run as Node.
  const helpers = {
    library: await spawnHelper(new URL('helper.mjs', import.meta.url), [folder, file], { restart }),
  };
  if (existsSync(probe)) helpers.probe = await spawnHelper(probe, [], { restart });

  const window = new BrowserWindow({
    width: 900,
    height: 640,
    webPreferences: { preload, contextIsolation: true, sandbox: true, nodeIntegration: false },
  });
  const shell = createSessionPair(); // functions of main itself, called like those of a helper
  shell.far.serve(Shell, shellHandlers(helpers, { folder, file }));
  const give = (name, session, allow, maxInFlight) =>
    exposeToRenderer(window.webContents, session, {
      ...{ MessageChannelMain, name, allow, maxInFlight, origins },
      onEvent: ({ error }) => console.error(`page: ${error.message}`),
    });
  const exposures = [
    give('shell', shell.near, [Shell], 4),
    give('library', helpers.library, ['Library.watch', 'Library.hash'], 4),
  ];
  if (helpers.probe) exposures.push(give('probe', helpers.probe, ['Probe.read'], 2));
  await window.loadFile(join(here, 'page', 'index.html'));

  return {
    window,
    helpers,
    async stop() {
      for (const exposure of exposures) exposure.close();
      await shell.close();
      await Promise.all(Object.values(helpers).map((helper) => helper.stop()));
    },
  };
}

function shellHandlers(helpers, places) {
  return {
    places: () => places,
    async *helpers(_request, { signal }) {
      const told = new Map();
      while (!signal.aborted) {
        for (const [name, helper] of Object.entries(helpers)) {
          const now = await describe(name, helper);
          const text = JSON.stringify(now);
          if (told.get(name) === text) continue;
          told.set(name, text);
          yield now;
        }
        await setTimeout(livenessEveryMs, undefined, { signal }).catch(() => undefined);
      }
    },
    kill({ name }) {
      const helper = Object.hasOwn(helpers, name) ? helpers[name] : undefined;
      if (helper?.state.state === 'running') process.kill(helper.pid, 'SIGKILL');
    },
  };
}

/** The state of a helper, from its spawn handle and the kernel, not from the helper's answers. */
async function describe(name, helper) {
  const { state, restarts } = helper.state;
  const { loop } = await helper.session.liveness({ waitMs: 100 });
  const { peer, lane } = helper.session;
  return { name, state, pid: helper.pid, restarts, origin: peer.origin, uid: peer.uid, lane, loop };
}
