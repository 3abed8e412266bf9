// SPDX-License-Identifier: MIT
// The calls of one Go program, made on a session within this process, whose peer it is.
import { errorText } from '../../base/error-text.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ignore } from '../../base/ignore-errors.ts';
import { checkLimits, ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import { closeInOrder, type PlainConnection } from '../../rendezvous/plain-listener.ts';
import { bytes } from '../../rpc/contract/codec.ts';
import type { Registry } from '../../rpc/serving/registry.ts';
import { Session } from '../../rpc/session/session.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { type LoopbackTransport, loopbackPair } from '../../wire/loopback-transport.ts';
import { type FrameLimits, FrameSocket } from './frame-socket.ts';
import { decodePayload, ErrorKind, encodePayload, type Payload } from './payload.ts';

/** The settings that all connections of a listener have in common. */
export interface ServingSettings {
  readonly registry: Registry;
  readonly onEvent: OnEvent | undefined;
  readonly wireName: (methodName: string) => string;
  readonly callsMax: number;
  readonly answerMaxBytes: number;
  readonly frames: FrameLimits;
}

const gigabyte = sessionRanges.receiveMaxBytes.max;
const nearLimits = checkLimits({ receiveMaxBytes: gigabyte, sendQueueMaxBytes: gigabyte });
/** Requests of one connection that handlers are at work on: then it is not read. */
const requestsMaxBytes = 64 * 1_048_576;
/** Time for handlers that run: all of it. */
const lastCalls = { deadlineMs: ranges.closeDeadlineMs.max };
const codecs = { request: bytes, response: bytes };

/** The calls of one Go program, made on a session within this process, whose peer it is. */
export class ServedConnection {
  readonly #settings: ServingSettings;
  readonly #frames: FrameSocket;
  readonly #near: Session;
  readonly #far: Session;
  readonly #gone = new AbortController();
  /** Ids of calls that are at work. */
  readonly #running = new Set<number>();
  #requestBytes = 0;
  readonly #nearEnd: LoopbackTransport;
  /** Answers that wait until the Go program reads. */
  #waiting = 0;
  #hasTold = false;
  #wake: () => void = ignore;

  constructor(connection: PlainConnection, settings: ServingSettings) {
    const { registry, onEvent, callsMax } = settings;
    const { peer } = connection;
    this.#settings = settings;
    this.#frames = new FrameSocket(connection, settings.frames);
    const [nearEnd, farEnd] = loopbackPair();
    this.#nearEnd = nearEnd;
    // The far end has the usual send queue: what is not read there bounds the handlers that start.
    const own = checkLimits({ receiveMaxBytes: gigabyte, streamsMax: callsMax });
    const common = { laneReason: 'golib', peer };
    this.#near = new Session({ ...common, own: nearLimits, remote: own, transport: nearEnd });
    this.#far = new Session({
      ...common,
      own,
      remote: nearLimits,
      transport: farEnd,
      registry,
      introspection: false,
      onEvent,
    });
    void this.#frames.closed.then(() => this.#gone.abort());
    connection[closeInOrder] = () => this.#frames.stopReading();
  }

  /** Never rejects. Ends with the connection, when all that was asked is answered. */
  async serve(): Promise<void> {
    try {
      for (;;) {
        const frame = await this.#frames.next();
        if (frame === undefined) break;
        this.#begin(decodePayload(frame));
        // A Go program starts as many calls as it likes.
        while (this.#isFull) await this.#nextEnd();
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

  get #isFull(): boolean {
    const isFull = this.#running.size >= this.#settings.callsMax;
    return isFull || (this.#requestBytes > requestsMaxBytes && this.#running.size > 0);
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
    const bytesOfIt = payload.data.length;
    this.#running.add(id);
    this.#requestBytes += bytesOfIt;
    void this.#answer(payload).finally(() => {
      this.#running.delete(id);
      this.#requestBytes -= bytesOfIt;
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
      answer = { id, ...errorOf(method, error) };
    }
    await this.#send(encodePayload(answer));
  }

  /** While an answer waits for the Go program, the session takes no further ones from handlers. */
  async #send(answer: Uint8Array): Promise<void> {
    this.#waiting += 1;
    this.#nearEnd.isHeld = true;
    try {
      await this.#frames.send(answer);
    } catch {
      // A connection that is gone needs no answer.
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#nearEnd.release();
    }
  }

  /** @throws {RpcError} `unimplemented` for a name that the application does not translate. */
  #wireNameOf(method: string): string {
    let name: unknown;
    try {
      name = this.#settings.wireName(method);
    } catch (cause) {
      this.#tell(`wireName('${method}') failed: ${errorText(cause)}`, cause);
    }
    if (typeof name !== 'string') throw new RpcError('unimplemented');
    return name;
  }

  async #call(method: string, data: Uint8Array, leftMs: number): Promise<Uint8Array> {
    const { registry, answerMaxBytes } = this.#settings;
    const name = this.#wireNameOf(method);
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
      isBuiltIn: served.isBuiltIn,
      isIdempotent: false,
    };
    const timeoutMs = Math.min(leftMs, ranges.timeoutMs.max);
    const { signal } = this.#gone;
    const given = await this.#near.target
      .call(callable, data, { timeoutMs, signal })
      .catch((error: unknown) => {
        throw withoutName(name, error);
      });
    const answer = callable.kind === CallKind.notification ? undefined : (given as Uint8Array);
    if (answer !== undefined && answer.length > answerMaxBytes) {
      const text = `the answer of ${answer.length} bytes exceeds answerMaxBytes ${answerMaxBytes}`;
      throw new RpcError('resource_exhausted', text);
    }
    return answer ?? new Uint8Array(0);
  }

  #fail(cause: unknown): void {
    if (this.#frames.error === undefined && !SidecallError.is(cause)) {
      this.#frames.destroy(wrong('a message is no Payload', cause));
    } else this.#frames.destroy(SidecallError.from(cause));
    const { error } = this.#frames;
    if (error !== undefined && error.code !== 'ERR_SIDECALL_PEER_GONE') this.#tellError(error);
  }

  /** Once for a connection: its peer can cause as many as it likes. */
  #tell(what: string, cause?: unknown): void {
    if (this.#hasTold) return;
    this.#hasTold = true;
    this.#tellError(wrong(what, cause));
  }

  #tellError(error: SidecallError): void {
    emitEvent(this.#settings.onEvent, { type: 'adapter-failed', error, peer: this.#frames.peer });
  }
}

function wrong(what: string, cause?: unknown): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `golib: ${what}`, { cause });
}

/** The session puts the wire name in front of its errors, which the Go program need not know. */
function withoutName(name: string, error: unknown): SidecallError {
  const failure = SidecallError.from(error);
  const prefix = `${name}: `;
  if (!failure.message.startsWith(prefix)) return failure;
  return new RpcError(failure.status, failure.message.slice(prefix.length));
}

function errorOf(method: string, error: unknown): Partial<Payload> {
  const { message, status } = SidecallError.from(error);
  // golib uses the text as a format.
  const words = (message || status).replaceAll('%', '%%');
  switch (status) {
    case 'unimplemented':
      return {
        errorKind: ErrorKind.methodNotFound,
        error: message === '' ? `method(${method}): not found`.replaceAll('%', '%%') : words,
      };
    case 'deadline_exceeded':
      return { errorKind: ErrorKind.deadlineExceeded, error: words };
    case 'invalid_argument':
      return { errorKind: ErrorKind.badData, error: words };
    default:
      return { errorKind: ErrorKind.server, error: words };
  }
}
