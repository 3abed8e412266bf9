// A stub of Electron between main and a page: the part that sidecall/electron uses.
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import type { MessagePort } from 'node:worker_threads';

export { MessageChannelMain } from './electron-ports.mjs';

let frames = 0;

/** `WebFrameMain` of a document. */
export class StubFrame {
  readonly processId = 1;
  readonly routingId: number;
  readonly origin: string;
  readonly parent: StubFrame | null;
  onPort: (channel: string, message: unknown, ports: MessagePort[]) => void = () => undefined;

  constructor(origin: string, parent: StubFrame | null = null) {
    frames += 1;
    this.routingId = frames;
    this.origin = origin;
    this.parent = parent;
  }

  postMessage(channel: string, message: unknown, ports: MessagePort[] = []): void {
    setImmediate(() => this.onPort(channel, message, ports));
  }
}

/** `WebContents` of a window: no page at first. */
export class StubWebContents extends EventEmitter {
  readonly ipc = new EventEmitter();
  mainFrame = new StubFrame('null');

  /** Loads a document, which replaces the one before. */
  navigate(origin = 'file://'): StubPage {
    this.mainFrame = new StubFrame(origin);
    this.emit('did-navigate', {}, `${origin}/index.html`);
    return new StubPage(this, this.mainFrame);
  }
}

type Listener = (event: object, ...args: unknown[]) => void;

/** A document with our preload script, and its window. */
export class StubPage {
  readonly window: Record<string, unknown> & { sidecall?: { connect(a: string, b: string): void } };
  readonly #ipc = new EventEmitter();

  constructor(contents: StubWebContents, frame: StubFrame) {
    const messages = new EventEmitter();
    this.window = {
      crypto: globalThis.crypto,
      addEventListener: (type: string, listener: Listener) => messages.on(type, listener),
      removeEventListener: (type: string, listener: Listener) => messages.off(type, listener),
      postMessage: (data: unknown, _target: string, ports: unknown[] = []) =>
        setImmediate(() => messages.emit('message', { source: this.source, data, ports })),
    };
    frame.onPort = (channel, message, ports) => this.#ipc.emit(channel, { ports }, message);
    const electron = {
      ipcRenderer: {
        on: (channel: string, listener: Listener) => this.#ipc.on(channel, listener),
        send: (channel: string, ...args: unknown[]) =>
          setImmediate(() => contents.ipc.emit(channel, { senderFrame: frame }, ...args)),
      },
      contextBridge: {
        exposeInMainWorld: (name: string, value: unknown) => {
          this.window[name] = value;
        },
      },
    };
    const source = readFileSync(
      new URL('../../src/adapters/electron/preload.cjs', import.meta.url),
      'utf8',
    );
    new Function('require', 'window', source)(() => electron, this.window);
  }

  /**
   * The source of this window's events: `globalThis`, which page modules compare as their
   * window.
   */
  source: unknown = globalThis;

  /** Runs code of the page; `globalThis` has the names of its window meanwhile. */
  async run<T>(code: () => Promise<T>): Promise<T> {
    const { crypto: _, ...own } = this.window;
    const before = new Map(Object.keys(own).map((key) => [key, Reflect.get(globalThis, key)]));
    Object.assign(globalThis, own);
    try {
      return await code();
    } finally {
      for (const [key, value] of before) {
        if (value === undefined) Reflect.deleteProperty(globalThis, key);
        else Reflect.set(globalThis, key, value);
      }
    }
  }
}
