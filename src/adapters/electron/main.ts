// SPDX-License-Identifier: MIT
// `sidecall/electron`, for the main process: gives the pages of a window a short list of methods of
// a session.

import { SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { leased } from '../../rpc/contract/leases.ts';
import type { Service } from '../../rpc/contract/method-types.ts';
import { checkService } from '../../rpc/contract/service.ts';
import type { CallSource, MainFrame, MainPort, MainWebContents } from './electron-types.ts';
import { channels } from './port.ts';
import { type Allowed, PortServer } from './port-server.ts';

export type { CallSource, MainFrame, MainPort, MainWebContents } from './electron-types.ts';

/** Options of {@link exposeToRenderer}. */
export interface ExposeOptions {
  /** Electron's class: `import { MessageChannelMain } from 'electron'`. */
  readonly MessageChannelMain: new () => { readonly port1: MainPort; readonly port2: unknown };
  /**
   * The methods that the page may call: by their wire names (`'Search.query'`), whose
   * messages are JSON, or contracts, for all of their methods with their codecs.
   */
  readonly allow: readonly (string | Service)[];
  /**
   * Calls of one page that may be under way; further ones wait in their order, at most 4,096.
   * Default 16; 1 to 1,024.
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Origins whose pages get a port, as `WebFrameMain.origin` has them (`app://my`,
   * `http://localhost:5173`). Default: `file://` only.
   */
  readonly origins?: readonly string[] | undefined;
  /**
   * Name of this exposure, for a window with several. The page passes it as `name` to
   * `connectMain()`. Default: `main`.
   */
  readonly name?: string | undefined;
  /** Called for pages that were refused, and for pages that broke the protocol. Default: none. */
  readonly onEvent?: OnEvent | undefined;
}

/** The result of {@link exposeToRenderer}. */
export interface Exposure extends Disposable {
  /** Pages that are connected. */
  readonly connections: number;
  /**
   * Gives no page a port any more, and ends the calls of connected pages with
   * `ERR_SIDECALL_CLOSED`. A second call does nothing.
   */
  close(): void;
}

const inFlightRange = { standard: 16, min: 1, max: 1_024 };
// Most ports of one document: each has its own calls, so a page that connects
// again and again gets no more.
const portsPerDocumentMax = 8;
const defaultOrigins: readonly string[] = ['file://'];

/**
 * Lets the pages of a window call a short list of methods of a session (or helper), over a
 * MessagePort: typed clients, streams with credit in both directions, cancelling, deadlines.
 * `contextIsolation` and `sandbox` stay on. A port belongs to one document and is given only to the
 * main frame, of an allowed origin; when it navigates, its calls are cancelled. An error of the
 * session reaches the page as the same typed error. Values are those of structured clone that JSON
 * knows, and bytes; `Buffer`s arrive as `Uint8Array`s.
 * @param webContents of the window; call this before the page is loaded.
 * @param session whose peer is called; with a {@link Helper} the page lives through restarts.
 * @throws {TypeError | RangeError} for misuse.
 */
export function exposeToRenderer(
  webContents: MainWebContents,
  session: CallSource,
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
    onEvent: checkFunction('onEvent', options.onEvent),
  };
  return new RendererExposure(webContents, session, settings);
}

const optionNames = [
  'MessageChannelMain',
  'allow',
  'maxInFlight',
  'origins',
  'name',
  'onEvent',
] as const satisfies readonly (keyof ExposeOptions)[];

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
  readonly #session: CallSource;
  readonly #settings: Settings;
  readonly #ports = new Set<PortServer>();
  #isClosed = false;

  constructor(webContents: MainWebContents, session: CallSource, settings: Settings) {
    this.#webContents = webContents;
    this.#session = session;
    this.#settings = settings;
    webContents.ipc.on(channels.connect, this.#onConnect);
    // 'did-navigate', not 'did-start-navigation': a navigation that was started may fail, and
    // then the document stays.
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
      const text = `a page was given no port: ${refusal}`;
      const error = new SidecallError('ERR_SIDECALL_PEER_DENIED', text);
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
      // The frame was disposed of in the meantime.
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
    if (typeof token !== 'string' || token.length > 64) return 'its token is not valid';
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

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
