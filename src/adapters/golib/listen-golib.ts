// SPDX-License-Identifier: MIT
// listenGolib(): services for Go programs that call by golib's RPC.
import { RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ignore } from '../../base/ignore-errors.ts';
import { checkLimits, ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import { checkInteger, nodeError } from '../../base/misuse.ts';
import { type ListenBaseOptions, listen } from '../../rendezvous/listen.ts';
import type { PlainConnection, PlainListener } from '../../rendezvous/plain-listener.ts';
import { bytes } from '../../rpc/contract/codec.ts';
import { held } from '../../rpc/serving/hold-door.ts';
import { Registry, type Services } from '../../rpc/serving/registry.ts';
import { Session } from '../../rpc/session/session.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { loopbackPair } from '../../wire/loopback-transport.ts';
import { type FrameOptions, FrameSocket } from './frame-socket.ts';
import { decodePayload, ErrorKind, encodePayload, type Payload } from './payload.ts';

/** Options of {@link listenGolib}. */
export interface ListenGolibOptions extends ListenBaseOptions, FrameOptions {
  /** A `server()`, which then closes this listener too; or a list of `implement(…)`. */
  readonly services: Services;
  /**
   * The wire name of the method that a Go program calls by this name. Default: the same name.
   */
  readonly wireName?: ((methodName: string) => string) | undefined;
  /** Handlers at work for one connection; then it is not read. Default 1,024; 1 to 65,536. */
  readonly callsPerConnection?: number | undefined;
  /**
   * Largest answer, in bytes: 32 less than the `MaxSize` of the Go programs, which close their
   * connection at a longer one. A longer answer is an error of its call. Default 1 GiB, the most;
   * at least 1.
   */
  readonly answerMaxBytes?: number | undefined;
}

const callsRange = { standard: 1_024, min: 1, max: 65_536 };
const answerRange = { standard: ranges.blockBytes.max, min: 1, max: ranges.blockBytes.max };
const ownNames = [
  'services',
  'wireName',
  'callsPerConnection',
  'answerMaxBytes',
  'receiveMaxBytes',
  'frameTimeoutMs',
];

/**
 * Listens at a path for Go programs that call by golib's `chunk/rpc`, `json/rpc` or `proto/rpc`.
 * The kernel says who calls, as at any listener. Methods with streams are refused. golib's clients
 * check mode, uid and gid of the socket file: give them those of `mode`, `owner` and `gid` (a
 * client without a list of modes refuses exactly 0770, by a mistake of golib).
 * @throws (as rejection) what `listen({ protocol: 'plain' })` rejects with; `ERR_SIDECALL_CLOSED`
 * where the server of `services` was closed; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { implement, service, unary } from 'sidecall';
 * import { listenGolib } from 'sidecall/golib';
 *
 * const Sums = service('math', { sum: unary<{ Ints: number[] }, { Sum: number }>() });
 * const sum = ({ Ints }: { Ints: number[] }) => ({ Sum: Ints.reduce((a, b) => a + b, 0) });
 *
 * await listenGolib({ path: '/run/user/1000/math/socket', services: [implement(Sums, { sum })] });
 * ```
 */
export async function listenGolib(options: ListenGolibOptions): Promise<PlainListener> {
  if (typeof options !== 'object' || options === null || options.services === undefined) {
    const text = 'listenGolib() needs services: a server(), or a list of implement(…)';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const { services, wireName, receiveMaxBytes, frameTimeoutMs, onEvent } = options;
  if (wireName !== undefined && typeof wireName !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'wireName must be a function');
  }
  const registry = new Registry();
  registry.addAll(services);
  const settings: ServingSettings = {
    registry,
    onEvent,
    wireName: wireName ?? ((name) => name),
    callsMax: checkInteger('callsPerConnection', options.callsPerConnection, callsRange),
    answerMaxBytes: checkInteger('answerMaxBytes', options.answerMaxBytes, answerRange),
    frames: { receiveMaxBytes, frameTimeoutMs },
  };
  const entries = Object.entries(options).filter(([name]) => !ownNames.includes(name));
  const door: ListenBaseOptions = Object.fromEntries(entries);
  const listener = await listen({ ...door, protocol: 'plain' });
  void serveAll(listener, settings);
  return held(services, listener);
}

interface ServingSettings {
  readonly registry: Registry;
  readonly onEvent: OnEvent | undefined;
  readonly wireName: (methodName: string) => string;
  readonly callsMax: number;
  readonly answerMaxBytes: number;
  readonly frames: FrameOptions;
}

async function serveAll(listener: PlainListener, settings: ServingSettings): Promise<void> {
  for await (const connection of listener) {
    if (!connection.destroyed) void new ServedConnection(connection, settings).serve();
  }
}

const gigabyte = sessionRanges.receiveMaxBytes.max;
const limits = checkLimits({ receiveMaxBytes: gigabyte, sendQueueMaxBytes: gigabyte });
/** Time for handlers that run: all of it. */
const lastCalls = { deadlineMs: ranges.closeDeadlineMs.max };
const codecs = { request: bytes, response: bytes };

/** The calls of one Go program, made on a session within this process, whose peer it is. */
class ServedConnection {
  readonly #settings: ServingSettings;
  readonly #frames: FrameSocket;
  readonly #near: Session;
  readonly #far: Session;
  readonly #gone = new AbortController();
  /** Ids of calls that are at work. */
  readonly #running = new Set<number>();
  #wake: () => void = ignore;

  constructor(connection: PlainConnection, settings: ServingSettings) {
    const { registry, onEvent } = settings;
    const { peer } = connection;
    this.#settings = settings;
    this.#frames = new FrameSocket(connection, settings.frames);
    const [nearEnd, farEnd] = loopbackPair();
    const common = { own: limits, remote: limits, laneReason: 'golib', peer };
    this.#near = new Session({ ...common, transport: nearEnd });
    this.#far = new Session({
      ...common,
      transport: farEnd,
      registry,
      introspection: false,
      onEvent,
    });
    void this.#frames.closed.then(() => this.#gone.abort());
  }

  /** Never rejects. Ends with the connection, when all that was asked is answered. */
  async serve(): Promise<void> {
    try {
      for (;;) {
        const frame = await this.#frames.next();
        if (frame === undefined) break;
        this.#begin(decodePayload(frame));
        // A Go program starts as many calls as it likes.
        while (this.#running.size >= this.#settings.callsMax) await this.#nextEnd();
      }
      while (this.#running.size > 0 && !this.#gone.signal.aborted) await this.#nextEnd();
      this.#frames.end();
    } catch (cause) {
      this.#fail(cause);
    } finally {
      void this.#near.close(lastCalls);
      void this.#far.close(lastCalls);
    }
  }

  #nextEnd(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #begin(payload: Payload): void {
    const { id } = payload;
    // An id of 0 cannot be answered: golib's counter has passed its end.
    if (id === 0) return this.#tell('a call with the id 0 was dropped: it cannot be answered');
    if (this.#running.has(id)) throw wrong(`the id ${id} is in use`);
    this.#running.add(id);
    void this.#answer(payload).finally(() => {
      this.#running.delete(id);
      this.#wake();
    });
  }

  async #answer({ id, method, data, deadlineNanos }: Payload): Promise<void> {
    const leftMs = Number(deadlineNanos / 1_000_000n - BigInt(Date.now()));
    let answer: Partial<Payload>;
    try {
      if (leftMs <= 0) throw new RpcError('deadline_exceeded', 'the deadline has passed');
      answer = { id, data: await this.#call(method, data, leftMs) };
    } catch (error) {
      answer = { id, ...this.#errorOf(method, error) };
    }
    // A connection that is gone needs no answer.
    await this.#frames.send(encodePayload(answer)).catch(ignore);
  }

  async #call(method: string, data: Uint8Array, leftMs: number): Promise<Uint8Array> {
    const { wireName, registry, answerMaxBytes } = this.#settings;
    const name = wireName(method);
    const served = registry.find(name);
    if (served === undefined) throw new RpcError('unimplemented');
    if (served.isStreaming || served.kind === 'clientStream') {
      throw new RpcError('unimplemented', `${name} has streams, which golib's RPC has not`);
    }
    const isNotification = served.kind === 'notification';
    const callable = {
      name,
      kind: served.callKind,
      request: codecs.request,
      response: isNotification ? undefined : codecs.response,
      isBulk: false,
      isIdempotent: false,
    };
    const timeoutMs = Math.min(leftMs, ranges.timeoutMs.max);
    const { signal } = this.#gone;
    const given = await this.#near.target.call(callable, data, { timeoutMs, signal });
    const answer = callable.kind === CallKind.notification ? undefined : (given as Uint8Array);
    if (answer !== undefined && answer.byteLength > answerMaxBytes) {
      const text = `the answer of ${answer.byteLength} bytes exceeds answerMaxBytes ${answerMaxBytes}`;
      throw new RpcError('resource_exhausted', text);
    }
    return answer ?? new Uint8Array(0);
  }

  #errorOf(method: string, error: unknown): Partial<Payload> {
    const failure = SidecallError.from(error);
    const prefix = `${this.#settings.wireName(method)}: `;
    const text = failure.message.startsWith(prefix)
      ? failure.message.slice(prefix.length)
      : failure.message;
    // golib uses the text as a format.
    const words = (text || failure.status).replaceAll('%', '%%');
    switch (failure.status) {
      case 'unimplemented':
        return {
          errorKind: ErrorKind.methodNotFound,
          error: text === '' ? `method(${method}): not found`.replaceAll('%', '%%') : words,
        };
      case 'deadline_exceeded':
        return { errorKind: ErrorKind.deadlineExceeded, error: words };
      case 'invalid_argument':
        return { errorKind: ErrorKind.badData, error: words };
      default:
        return { errorKind: ErrorKind.server, error: words };
    }
  }

  #fail(cause: unknown): void {
    if (this.#frames.error === undefined && !SidecallError.is(cause)) {
      this.#frames.destroy(wrong('a message is no Payload', cause));
    } else this.#frames.destroy(SidecallError.from(cause));
    const { error } = this.#frames;
    if (error !== undefined && error.code !== 'ERR_SIDECALL_PEER_GONE') this.#tellError(error);
  }

  #tell(what: string): void {
    this.#tellError(wrong(what));
  }

  #tellError(error: SidecallError): void {
    emitEvent(this.#settings.onEvent, { type: 'adapter-failed', error, peer: this.#frames.peer });
  }
}

function wrong(what: string, cause?: unknown): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `golib: ${what}`, { cause });
}
