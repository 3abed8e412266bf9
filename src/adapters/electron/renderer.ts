// SPDX-License-Identifier: MIT
// `sidecall/electron/renderer`, for a page: typed clients over the port that main gives. It uses
// neither Node nor Electron, and of the DOM only the parts that are declared below.
import { RpcError, SidecallError } from '../../base/errors.ts';
import { checkInteger, checkKeys, checkText } from '../../base/misuse.ts';
import type { Methods, Service } from '../../rpc/contract/method-types.ts';
import type { PageCall, PageConnection } from './page-call.ts';
import { clientOver, type PageClient, type PageClientOptions } from './page-client.ts';
import { type MainMessage, type PageMessage, type PortError, portVersion } from './port.ts';

export type { PageCallOptions } from './page-call.ts';
export type {
  PageBidi,
  PageClient,
  PageClientOptions,
  PageClientStream,
  PageStream,
} from './page-client.ts';

interface PagePort {
  onmessage: ((event: { data: MainMessage }) => void) | null;
  addEventListener(type: 'close', listener: () => void): void;
  postMessage(message: PageMessage): void;
  close(): void;
}

interface PortEvent {
  readonly source: unknown;
  readonly data: { readonly type?: unknown; readonly token?: unknown } | null;
  readonly ports: readonly PagePort[];
}

interface PageWindow {
  readonly sidecall?: { connect(name: string, token: string): void };
  addEventListener(type: 'message', listener: (event: PortEvent) => void): void;
  removeEventListener(type: 'message', listener: (event: PortEvent) => void): void;
  readonly crypto: { randomUUID(): string };
}

/** Options of {@link connectMain}. */
export interface ConnectMainOptions {
  /** The name that was given to `exposeToRenderer({ name })`. Default: `main`. */
  readonly name?: string | undefined;
  /** Milliseconds that main may take to give a port. Default 5,000; 1 to 2,147,483,647. */
  readonly timeoutMs?: number | undefined;
}

const timeoutRange = { standard: 5_000, min: 1, max: 2_147_483_647 };

/**
 * Connects the page to main. Main must have called `exposeToRenderer()`, and the window needs our
 * preload script. The connection belongs to this document: it ends with it.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is no preload
 * script, or main gave no port in time, which it does for pages of an origin that it does not
 * allow; `ERR_SIDECALL_VERSION_MISMATCH` where main has another version of this package.
 */
export async function connectMain(options: ConnectMainOptions = {}): Promise<MainConnection> {
  checkKeys('connectMain()', options, ['name', 'timeoutMs']);
  const name = checkText('name', options.name) ?? 'main';
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, timeoutRange);
  const page = globalThis as unknown as PageWindow;
  if (typeof page.sidecall?.connect !== 'function') {
    const text =
      "there is no preload script: set webPreferences.preload to that of 'sidecall/electron/preload'";
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text, { retryable: false });
  }
  const until = performance.now() + timeoutMs;
  const port = await askForPort(page, name, timeoutMs);
  return new Promise((resolve, reject) => {
    const connection = new MainConnection(port, settle(resolve), settle(reject));
    const timer = setTimeout(
      () => {
        reject(noPort(name, timeoutMs));
        connection.close();
      },
      Math.max(0, until - performance.now()),
    );
    function settle<T>(then: (value: T) => void): (value: T) => void {
      return (value) => {
        clearTimeout(timer);
        then(value);
      };
    }
  });
}

function noPort(name: string, timeoutMs: number): SidecallError {
  const text = `main gave no port for '${name}' within ${timeoutMs} ms: is exposeToRenderer() called with this name, and is this page's origin allowed?`;
  return new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
}

function askForPort(page: PageWindow, name: string, timeoutMs: number): Promise<PagePort> {
  const token = page.crypto.randomUUID();
  return new Promise((resolve, reject) => {
    const onMessage = ({ source, data, ports }: PortEvent): void => {
      if (source !== page || data?.type !== 'sidecall:port' || data.token !== token) return;
      const [port] = ports;
      if (port === undefined) return;
      stop();
      resolve(port);
    };
    const timer = setTimeout(() => {
      stop();
      reject(noPort(name, timeoutMs));
    }, timeoutMs);
    const stop = (): void => {
      clearTimeout(timer);
      page.removeEventListener('message', onMessage);
    };
    page.addEventListener('message', onMessage);
    page.sidecall?.connect(name, token);
  });
}

/** A page's connection to main. */
export class MainConnection {
  /**
   * Resolves (never rejects) when the connection is over: undefined after our own `close()`, else
   * why.
   */
  readonly closed: Promise<SidecallError | undefined>;
  readonly #port: PagePort;
  readonly #calls = new Map<number, PageCall>();
  readonly #line: PageConnection = {
    begin: (call) => {
      if (this.#failure !== undefined) throw this.#failure;
      const id = this.#nextId;
      this.#nextId += 1;
      this.#calls.set(id, call);
      return id;
    },
    post: (message) => {
      if (!this.#isOver) this.#port.postMessage(message);
    },
    remove: (id) => void this.#calls.delete(id),
  };
  #nextId = 0;
  #maxInFlight = 0;
  #failure: SidecallError | undefined;
  #isOver = false;
  #resolveClosed: (error: SidecallError | undefined) => void = () => undefined;
  #isReady: (connection: MainConnection) => void;
  #isRefused: (error: SidecallError) => void;

  /** @internal Use `connectMain()`. */
  constructor(
    port: PagePort,
    isReady: (connection: MainConnection) => void,
    isRefused: (error: SidecallError) => void,
  ) {
    this.#port = port;
    this.#isReady = isReady;
    this.#isRefused = isRefused;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    const gone = 'main has closed the port, or has ended';
    port.addEventListener('close', () =>
      this.#end(new SidecallError('ERR_SIDECALL_PEER_GONE', gone)),
    );
    port.onmessage = ({ data }) => this.#onMessage(data);
  }

  /** The number of calls that main lets this connection have under way. */
  get maxInFlight(): number {
    return this.#maxInFlight;
  }

  /**
   * The typed functions of a service that main allows. They reject with `RpcError` for what a
   * handler said, `SidecallError` for what happened on the way, `signal.reason` for an abort of
   * your own.
   */
  client<M extends Methods>(service: Service<M>, options?: PageClientOptions): PageClient<M> {
    return clientOver(this.#line, service, options);
  }

  /** Cancels what is under way, and closes the port. A second call has no further effect. */
  close(): void {
    this.#end(undefined);
  }

  #onMessage(message: MainMessage): void {
    if (message.t === 'ready') {
      this.#maxInFlight = message.maxInFlight;
      if (message.version === portVersion) return this.#isReady(this);
      const text = `main speaks version ${message.version} of the port, this page ${portVersion}`;
      return this.#end(new SidecallError('ERR_SIDECALL_VERSION_MISMATCH', text));
    }
    if (message.t === 'bye') return this.#end(fromPort(message.error));
    const call = this.#calls.get(message.id);
    if (call === undefined) return; // given up meanwhile
    if (message.t === 'message') call.onResponse(message.value);
    else if (message.t === 'credit') call.onCredit(message.count);
    else if (message.t === 'headers') call.onHeaders(message.metadata);
    else if (message.t === 'trailers') call.onTrailers(message.metadata);
    else if (message.t === 'result') call.onResult(message.value);
    else call.onFailure(fromPort(message.error));
  }

  #end(error: SidecallError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = error ?? new SidecallError('ERR_SIDECALL_CLOSED');
    for (const call of [...this.#calls.values()]) call.onFailure(this.#failure);
    this.#calls.clear();
    this.#port.close();
    this.#isRefused(this.#failure);
    this.#resolveClosed(error);
  }
}

function fromPort(error: PortError): SidecallError {
  const { code, status, message, delivered, retryable, details, metadata } = error;
  if (error.rpc) return new RpcError(status, message, { details, metadata });
  return new SidecallError(code, message, { delivered, retryable });
}
