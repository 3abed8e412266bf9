// A stub of the module `electron` for a main process that is run as a user types it. `app` is ready
// only when the entry has been evaluated, as in Electron, so that a top-level `await` of it never
// ends. The page of a window runs in this process: its preload script and its module find a window
// in globalThis.
import { fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

export { MessageChannelMain } from '../electron-ports.mjs';

class App extends EventEmitter {
  #isReady = false;
  isPackaged = false;

  isReady() {
    return this.#isReady;
  }

  async whenReady() {
    if (!this.#isReady) await once(this, 'ready');
  }

  /** Called by run.mjs when the entry has been evaluated. */
  becomeReady() {
    this.#isReady = true;
    this.emit('ready');
  }

  quit() {
    process.exit();
  }

  exit(status = 0) {
    process.exit(status);
  }
}

export const app = new App();

/** Set by run.mjs. */
export const stub = { runsPages: true };

function wantReady(what) {
  if (!app.isReady()) throw new Error(`${what} cannot be made before app is ready`);
}

export class BrowserWindow {
  #preload;

  constructor({ webPreferences = {} } = {}) {
    wantReady('a BrowserWindow');
    this.#preload = webPreferences.preload;
    this.webContents = Object.assign(new EventEmitter(), { ipc: new EventEmitter() });
  }

  /** Runs the preload script and the module that the file names, and closes the window. */
  async loadFile(file) {
    if (!stub.runsPages) {
      console.log(`opened ${file}`);
      setImmediate(() => app.emit('window-all-closed'));
      return;
    }
    const html = readFileSync(file, 'utf8');
    const script = /<script type="module" src="([^"]+)">/.exec(html)?.[1];
    if (script === undefined) throw new Error(`${file} names no module`);
    this.#runPreload();
    await import(pathToFileURL(resolve(dirname(file), script)).href);
    setImmediate(() => app.emit('window-all-closed'));
  }

  #runPreload() {
    const { webContents } = this;
    const page = new EventEmitter();
    const ipc = new EventEmitter();
    const frame = { origin: 'file://', parent: null, processId: 1, routingId: 1 };
    frame.postMessage = (channel, message, ports) =>
      setImmediate(() => ipc.emit(channel, { ports }, message));
    webContents.mainFrame = frame;
    const electron = {
      ipcRenderer: {
        on: (channel, listener) => ipc.on(channel, listener),
        send: (channel, ...args) => webContents.ipc.emit(channel, { senderFrame: frame }, ...args),
      },
      contextBridge: {
        exposeInMainWorld: (name, value) => {
          globalThis[name] = value;
        },
      },
    };
    const postMessage = (data, _target, ports) =>
      page.emit('message', { source: globalThis, data, ports });
    Object.assign(globalThis, {
      addEventListener: page.on.bind(page),
      removeEventListener: page.off.bind(page),
    });
    const preload = readFileSync(this.#preload, 'utf8');
    new Function('require', 'window', preload)(() => electron, { postMessage });
  }
}

/** A child of Node; in Electron it has no inherited descriptors either. */
export const utilityProcess = {
  fork(file, args = []) {
    wantReady('a utility process');
    return fork(file, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  },
};
