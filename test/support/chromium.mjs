// The example for Electron with its page in a real Chromium: main's code and the helpers run in
// this process, the page and the preload script in Chromium. The developer protocol carries the
// messages of ports and IPC in place of Electron.
import { execFileSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import {
  cpSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join, normalize, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { MessageChannelMain } from './electron-ports.mjs';

const root = resolve(import.meta.dirname, '../..');
const types = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
};

/** Runs in the page before its own code: defines the modules of a preload script in Electron. */
function preloadWorld() {
  const listeners = {};
  const ports = new Map();
  const toMain = (message) => window.stubToMain(JSON.stringify(message, packed));
  function packed(_key, value) {
    return value instanceof Uint8Array ? { $bytes: [...value] } : value;
  }
  function unpacked(_key, value) {
    return Array.isArray(value?.$bytes) ? new Uint8Array(value.$bytes) : value;
  }
  window.stubFromMain = (text) => {
    const message = JSON.parse(text, unpacked);
    if (message.type === 'message') ports.get(message.port)?.postMessage(message.data);
    if (message.type === 'close') ports.get(message.port)?.close();
    if (message.type !== 'ipc') return;
    const { port1, port2 } = new MessageChannel();
    ports.set(message.port, port1);
    port1.onmessage = ({ data }) => toMain({ type: 'message', port: message.port, data });
    port1.addEventListener('close', () => toMain({ type: 'close', port: message.port }));
    for (const listener of listeners[message.channel] ?? [])
      listener({ ports: [port2] }, message.message);
  };
  const electron = {
    ipcRenderer: {
      on: (channel, listener) => {
        listeners[channel] ??= [];
        listeners[channel].push(listener);
      },
      send: (channel, ...args) => toMain({ type: 'ipc', channel, args }),
    },
    contextBridge: {
      exposeInMainWorld: (name, value) => {
        window[name] = value;
      },
    },
  };
  window.require = () => electron;
}

/** `BrowserWindow`, whose page is one of Chromium. */
function windowClass(page, origin) {
  const packed = (_key, value) => (value instanceof Uint8Array ? { $bytes: [...value] } : value);
  const unpacked = (_key, value) =>
    Array.isArray(value?.$bytes) ? new Uint8Array(value.$bytes) : value;
  return class BrowserWindow {
    constructor({ webPreferences }) {
      this.webPreferences = webPreferences;
      this.webContents = Object.assign(new EventEmitter(), { ipc: new EventEmitter() });
    }

    async loadFile() {
      const { webContents } = this;
      let document = 0;
      let queue = Promise.resolve();
      const ports = new Map();
      const toPage = (message) => {
        const text = JSON.stringify(message, packed);
        // In the order in which they were posted. For a closed page they are dropped.
        queue = queue
          .then(() => page.evaluate((each) => window.stubFromMain(each), text))
          .catch(() => undefined);
      };
      const frameOf = (routingId) => ({
        ...{ origin, parent: null, processId: 1, routingId },
        postMessage: (channel, message, [port]) => {
          const id = ports.size;
          ports.set(id, port);
          port.on('message', (data) => toPage({ type: 'message', port: id, data }));
          port.on('close', () => toPage({ type: 'close', port: id }));
          toPage({ type: 'ipc', channel, message, port: id });
        },
      });
      const navigated = () => {
        document += 1;
        webContents.mainFrame = frameOf(document);
        webContents.emit('did-navigate', {}, page.url());
      };
      webContents.mainFrame = frameOf(document);
      await page.exposeFunction('stubToMain', (text) => {
        const message = JSON.parse(text, unpacked);
        if (message.type === 'message') ports.get(message.port)?.postMessage(message.data);
        if (message.type === 'close') ports.get(message.port)?.close();
        if (message.type === 'ipc') {
          webContents.ipc.emit(
            message.channel,
            { senderFrame: webContents.mainFrame },
            ...message.args,
          );
        }
      });
      await page.addInitScript(preloadWorld);
      await page.addInitScript(
        `(() => { const { require } = window; ${readFileSync(this.webPreferences.preload, 'utf8')} })();`,
      );
      page.on('framenavigated', (frame) => {
        if (frame === page.mainFrame() && page.url().startsWith(origin)) navigated();
      });
      await page.goto(`${origin}/page/index.html`);
    }
  };
}

/** The example's own files and the built package, as its import map expects them. */
function serve(home) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
    const file = createReadStream(join(home, path));
    file.on('error', () => response.writeHead(404).end());
    response.setHeader('content-type', types[extname(path)] ?? 'application/octet-stream');
    file.pipe(response);
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}

/**
 * Starts the example with its page open.
 * @param {{ folder: string, file: string, viewport?: { width: number, height: number } }} options
 */
export async function startElectronExample({
  folder,
  file,
  viewport = { width: 900, height: 700 },
}) {
  const home = mkdtempSync(join(tmpdir(), 'electron-example-'));
  const undo = [() => rmSync(home, { recursive: true, force: true })];
  try {
    cpSync(join(root, 'examples', 'electron'), home, { recursive: true });
    mkdirSync(join(home, 'node_modules'));
    symlinkSync(root, join(home, 'node_modules', 'sidecall'));
    execFileSync('cc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', 'probe', 'probe.c'], {
      cwd: home,
    });
    const server = await serve(home);
    undo.push(() => server.close());
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox'], // root has no sandbox; the page is ours
    });
    undo.push(() => browser.close());
    const page = await browser.newPage({ viewport });
    const errors = [];
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text());
    });
    const origin = `http://127.0.0.1:${server.address().port}`;
    const { start } = await import(pathToFileURL(join(home, 'app.mjs')).href);
    const preload = join(root, 'dist', 'adapters', 'electron', 'preload.cjs');
    const running = await start(
      { BrowserWindow: windowClass(page, origin), MessageChannelMain },
      { folder, file, preload, origins: [origin] },
    );
    undo.push(() => running.stop());
    return { page, running, errors, stop: () => undoAll(undo) };
  } catch (error) {
    await undoAll(undo);
    throw error;
  }
}

async function undoAll(undo) {
  for (const each of undo.splice(0).reverse()) await each();
}
