// SPDX-License-Identifier: MIT
// `sidecall/electron`, for the main process: gives the pages of a window a short list of methods of a session.
// Types of Electron are described here as far as they are used, so that nothing of it is imported.
import { nodeError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import type { ClientOptions } from '../../rpc/calling/client.ts';
import { leased } from '../../rpc/contract/leases.ts';
import {
  type Client,
  checkService,
  type Methods,
  type Service,
} from '../../rpc/contract/service.ts';
import { channels } from './port.ts';
import { type Allowed, PortServer } from './port-server.ts';

/** Electron's `MessagePortMain`, as far as it is used. */
export interface MainPort {
  // biome-ignore lint/suspicious/noExplicitAny: as Electron declares it
  on(event: 'message', listener: (event: { data: any }) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  postMessage(message: unknown): void;
  start(): void;
  close(): void;
}

/** Electron's `WebFrameMain`, as far as it is used. */
export interface MainFrame {
  readonly origin: string;
  readonly parent: unknown;
  readonly processId: number;
  readonly routingId: number;
  // biome-ignore lint/suspicious/noExplicitAny: as Electron declares it
  postMessage(channel: string, message: any, transfer?: any[]): void;
}

/** Electron's `WebContents`, as far as it is used. */
export interface MainWebContents {
  readonly mainFrame: Pick<MainFrame, 'processId' | 'routingId'>;
  readonly ipc: {
    // biome-ignore-start lint/suspicious/noExplicitAny: as Electron declares it
    on(channel: string, listener: (event: any, ...args: any[]) => void): unknown;
    removeListener(channel: string, listener: (...args: any[]) => void): unknown;
  };
  on(event: any, listener: (...args: any[]) => void): unknown;
  removeListener(event: any, listener: (...args: any[]) => void): unknown;
  // biome-ignore-end lint/suspicious/noExplicitAny: as Electron declares it
}

/** A session, or a helper whose calls live through restarts. */
export interface Callable {
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M>;
}

/** Options of {@link exposeToRenderer}. */
export interface ExposeOptions {
  /** Electron's class: `import { MessageChannelMain } from 'electron'`. */
  readonly MessageChannelMain: new () => { readonly port1: MainPort; readonly port2: unknown };
  /**
   * What the page may call, and nothing else: methods by their wire names (`'Search.query'`), whose messages are JSON, or
   * contracts, for all of their methods with their codecs.
   */
  readonly allow: readonly (string | Service)[];
  /**
   * Calls of one page that may be under way; further ones wait in their order, at most 4,096.
   * Default 16; 1 to 1,024.
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Origins whose pages get a port, as `WebFrameMain.origin` has them (`app://my`, `http://localhost:5173`). Default: `file://`
   * only.
   */
  readonly origins?: readonly string[] | undefined;
  /** Tells several apart that one window is given: the page says it to `connectMain({ name })`. Default: `main`. */
  readonly name?: string | undefined;
  /** Told of pages that were refused, and of those that broke the rules. */
  readonly onEvent?: OnEvent | undefined;
}

/** What {@link exposeToRenderer} gives. */
export interface Exposure extends Disposable {
  /** Pages that are connected. */
  readonly connections: number;
  /** No page gets a port from now on; calls of those that have one end with `CLOSED`. Twice is once. */
  close(): void;
}

const inFlightRange = { standard: 16, min: 1, max: 1_024 };
// A page that connects again and again holds so many ports, each with its own calls.
const portsPerDocumentMax = 8;
const defaultOrigins: readonly string[] = ['file://'];

/**
 * Lets the pages of a window call a short list of methods of a session (or helper), over a MessagePort: typed clients, streams
 * with credit in both directions, cancelling, deadlines. `contextIsolation` and `sandbox` stay on. A port belongs to one document
 * and is given only to the main frame, of an allowed origin; when it navigates, its calls are cancelled. What goes
 * wrong at the session reaches the page as the same typed error. Values are those of structured clone that JSON knows, and
 * bytes; `Buffer`s arrive as `Uint8Array`s.
 * @param webContents of the window; call this before the page is loaded.
 * @param session whose peer is called; with a {@link Helper} the page lives through restarts.
 * @throws {TypeError | RangeError} for misuse.
 */
export function exposeToRenderer(
  webContents: MainWebContents,
  session: Callable,
  options: ExposeOptions,
): Exposure {
  checkKeys('exposeToRenderer()', options, optionNames);
  if (typeof options.MessageChannelMain !== 'function') {
    throw wrong("exposeToRenderer() needs MessageChannelMain of 'electron' in its options");
  }
  if (typeof webContents?.ipc?.on !== 'function' || typeof session?.client !== 'function') {
    throw wrong(
      'exposeToRenderer(webContents, session, options) needs a WebContents and a session',
    );
  }
  const settings: Settings = {
    allowed: checkAllow(options.allow),
    maxInFlight: checkInteger('maxInFlight', options.maxInFlight, inFlightRange),
    origins: checkOrigins(options.origins),
    name: checkName(options.name),
    MessageChannelMain: options.MessageChannelMain,
    onEvent: options.onEvent,
  };
  return new RendererExposure(webContents, session, settings);
}

const optionNames = ['MessageChannelMain', 'allow', 'maxInFlight', 'origins', 'name', 'onEvent'];

interface Settings {
  readonly allowed: ReadonlyMap<string, Allowed>;
  readonly maxInFlight: number;
  readonly origins: readonly string[];
  readonly name: string;
  readonly MessageChannelMain: ExposeOptions['MessageChannelMain'];
  readonly onEvent: OnEvent | undefined;
}

class RendererExposure implements Exposure {
  readonly #webContents: MainWebContents;
  readonly #session: Callable;
  readonly #settings: Settings;
  readonly #ports = new Set<PortServer>();
  #isClosed = false;

  constructor(webContents: MainWebContents, session: Callable, settings: Settings) {
    this.#webContents = webContents;
    this.#session = session;
    this.#settings = settings;
    webContents.ipc.on(channels.connect, this.#onConnect);
    // Not when a navigation starts: it may come to nothing, and the document stays.
    webContents.on('did-navigate', this.#onGone);
    webContents.on('render-process-gone', this.#onGone);
    webContents.on('destroyed', this.#onDestroyed);
  }

  get connections(): number {
    return this.#ports.size;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#webContents.ipc.removeListener(channels.connect, this.#onConnect);
    this.#webContents.removeListener('did-navigate', this.#onGone);
    this.#webContents.removeListener('render-process-gone', this.#onGone);
    this.#webContents.removeListener('destroyed', this.#onDestroyed);
    this.#endAll(new SidecallError('ERR_SIDECALL_CLOSED', 'main has closed the connection'));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  readonly #onConnect = (
    event: { readonly senderFrame: MainFrame | null },
    name: unknown,
    token: unknown,
  ): void => {
    if (name !== this.#settings.name) return; // another exposure's
    const frame = event.senderFrame;
    const refusal = this.#whyNot(frame, token);
    if (refusal !== undefined || frame === null) {
      const words = `a page was given no port: ${refusal}`;
      const error = new SidecallError('ERR_SIDECALL_PEER_DENIED', words);
      return emitEvent(this.#settings.onEvent, { type: 'refused', error, peer: undefined });
    }
    const { port1, port2 } = new this.#settings.MessageChannelMain();
    const server = new PortServer(port1, this.#session, {
      ...this.#settings,
      onClosed: () => this.#ports.delete(server),
    });
    this.#ports.add(server);
    try {
      frame.postMessage(channels.port, token, [port2]);
    } catch {
      // It was disposed of in this very moment.
      server.close(new SidecallError('ERR_SIDECALL_PEER_GONE', 'the page has gone'));
    }
  };

  #whyNot(frame: MainFrame | null, token: unknown): string | undefined {
    if (frame === null) return 'its frame is gone';
    const { mainFrame } = this.#webContents;
    const isMain =
      frame.parent === null &&
      frame.processId === mainFrame.processId &&
      frame.routingId === mainFrame.routingId;
    if (!isMain) return 'it is not the main frame';
    const { origins } = this.#settings;
    if (!origins.includes(frame.origin)) {
      return `its origin is '${frame.origin}', allowed are ${origins.join(', ')}`;
    }
    if (typeof token !== 'string' || token.length > 64) return 'its token is none';
    return this.#ports.size < portsPerDocumentMax
      ? undefined
      : `it has ${portsPerDocumentMax} ports already`;
  }

  readonly #onGone = (): void => {
    this.#endAll(new SidecallError('ERR_SIDECALL_PEER_GONE', 'the page has gone'));
  };

  readonly #onDestroyed = (): void => this.close();

  #endAll(error: SidecallError): void {
    for (const port of [...this.#ports]) port.close(error);
  }
}

function checkAllow(allow: ExposeOptions['allow']): Map<string, Allowed> {
  if (!Array.isArray(allow) || allow.length === 0) {
    throw wrong("exposeToRenderer(): allow must be a list, as ['Search.query']");
  }
  const allowed = new Map<string, Allowed>();
  for (const entry of allow) {
    if (typeof entry === 'string' && entry !== '') allowed.set(entry, { name: entry });
    else {
      checkService('exposeToRenderer().allow', entry);
      for (const [member, method] of Object.entries((entry as Service).methods)) {
        const name = (entry as Service).wireName(member);
        if (
          [method.request, 'response' in method ? method.response : undefined].includes(
            leased as never,
          )
        ) {
          throw wrong(`exposeToRenderer(): ${name} takes or gives leases, which no page can hold`);
        }
        allowed.set(name, { name, method });
      }
    }
  }
  return allowed;
}

function checkName(name: string | undefined): string {
  if (name === undefined) return 'main';
  if (typeof name === 'string' && name !== '') return name;
  throw wrong('exposeToRenderer(): name must be a text');
}

function checkOrigins(origins: readonly string[] | undefined): readonly string[] {
  if (origins === undefined) return defaultOrigins;
  const isList = Array.isArray(origins) && origins.every((origin) => typeof origin === 'string');
  // '*' would be taken for a wild card, and 'null' is the origin of anything sandboxed.
  if (isList && !origins.includes('*') && !origins.includes('null')) return [...origins];
  throw wrong(
    "exposeToRenderer(): origins must be a list, as ['app://my']; '*' and 'null' are none",
  );
}

function wrong(words: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
}
