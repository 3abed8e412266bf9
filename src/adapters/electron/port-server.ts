// SPDX-License-Identifier: MIT
// The calls of a page, made again on a session. The page may run any code by now: everything it
// says is checked, and everything it may hold here has a bound.

import { systemClock } from '../../base/clock.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { pause } from '../../base/pause.ts';
import type { Method, MethodKind, Service } from '../../rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  unary,
} from '../../rpc/contract/service.ts';
import type { CallSource, MainPort } from './electron-types.ts';
import { type MainMessage, type PageMessage, portVersion } from './port.ts';
import { costOf } from './port-values.ts';
import {
  type AnyFunction,
  broken,
  type CallPort,
  type OpenMessage,
  portError,
  RelayedCall,
} from './relayed-call.ts';

/** A method that the page may call. `method` undefined: of any kind, in JSON. */
export interface Allowed {
  readonly name: string;
  readonly method?: Method | undefined;
}

/** The settings of a port. */
export interface PortSettings {
  readonly allowed: ReadonlyMap<string, Allowed>;
  readonly maxInFlight: number;
  readonly onEvent: OnEvent | undefined;
  readonly onClosed: () => void;
}

const kinds: { readonly [Kind in MethodKind]: () => Method } = {
  unary,
  notification,
  serverStream,
  clientStream,
  bidi,
};
const creditMax = 1_024;
// Calls of a page that may wait for a place.
const waitingMax = 4_096;

// Bytes that a page has sent and that were not taken yet, in all calls of a port.
const heldMaxBytes = 64 * 1024 * 1024;
// A call that is given up costs the session's peer more than the page, and keeps a slot of the
// session until its handler has settled. Beyond this rate such a call keeps its place among those
// in flight for a while, so that one page cannot hold all slots.
const givenUpPerSecond = 20;
const givenUpAtOnce = 64;

interface WaitingCall {
  readonly start: () => void;
  /** Bytes that the request of the call holds. */
  readonly cost: number;
}

export class PortServer implements CallPort {
  readonly #port: MainPort;
  readonly #session: CallSource;
  readonly #settings: PortSettings;
  readonly #calls = new Map<number, RelayedCall>();
  readonly #functions = new Map<string, AnyFunction>();
  // Calls beyond those that may be under way, in their order.
  readonly #waiting = new Map<number, WaitingCall>();
  #running = 0;
  #isPausing = false;
  readonly #closed = new AbortController();
  #isClosed = false;
  #heldBytes = 0;
  #cooling = 0;
  #tokens = givenUpAtOnce;
  #filledAt = systemClock.nowMs();

  constructor(port: MainPort, session: CallSource, settings: PortSettings) {
    this.#port = port;
    this.#session = session;
    this.#settings = settings;
    port.on('message', ({ data }) => this.#onMessage(data));
    port.on('close', () => this.close(new SidecallError('ERR_SIDECALL_PEER_GONE')));
    port.start();
    this.post({ t: 'ready', version: portVersion, maxInFlight: settings.maxInFlight });
  }

  /**
   * Cancels what is under way, tells the page, and closes the port. A second
   * call has no further effect.
   */
  close(error: SidecallError): void {
    if (this.#isClosed) return;
    this.post({ t: 'bye', error: portError(error) });
    this.#isClosed = true;
    for (const call of this.#calls.values()) call.cancel(error);
    this.#calls.clear();
    this.#waiting.clear();
    this.#closed.abort();
    this.#port.close();
    this.#settings.onClosed();
  }

  /** False: the message cannot be cloned. */
  post(message: MainMessage): boolean {
    if (this.#isClosed) return true;
    try {
      this.#port.postMessage(message);
      return true;
    } catch {
      return false;
    }
  }

  release(cost: number): void {
    this.#heldBytes -= cost;
  }

  onCallEnded(id: number, isGivenUp: boolean): void {
    this.#calls.delete(id);
    this.#running -= 1;
    if (isGivenUp) this.#cooling += 1;
    this.#startWaiting();
  }

  /** Calls that take a place: those under way, and those given up too quickly. */
  get #inFlight(): number {
    const now = systemClock.nowMs();
    const refilled = ((now - this.#filledAt) / 1_000) * givenUpPerSecond;
    this.#tokens = Math.min(givenUpAtOnce, this.#tokens + refilled);
    this.#filledAt = now;
    const cooled = Math.min(this.#cooling, Math.floor(this.#tokens));
    this.#cooling -= cooled;
    this.#tokens -= cooled;
    return this.#running + this.#cooling;
  }

  #onMessage(data: unknown): void {
    if (this.#isClosed) return;
    try {
      this.#dispatch(checkMessage(data));
    } catch (error) {
      // A page that breaks the protocol runs foreign code, or another version of this package.
      const failure = SidecallError.from(error);
      emitEvent(this.#settings.onEvent, { type: 'refused', error: failure, peer: undefined });
      this.close(failure);
    }
  }

  #dispatch(message: PageMessage): void {
    const call = this.#calls.get(message.id);
    if (message.t === 'open') {
      if (call !== undefined) throw broken('a call whose id is in use');
      return this.#open(message);
    }
    if (call === undefined) return; // it has ended meanwhile
    if (message.t === 'message') this.#take(call, message.value);
    else if (message.t === 'end') call.requests.end();
    else if (message.t === 'credit') call.responses.grant(message.count);
    else this.#cancel(message.id, call);
  }

  #cancel(id: number, call: RelayedCall): void {
    call.cancel(new SidecallError('ERR_SIDECALL_CANCELLED'));
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    this.#calls.delete(id);
    this.release(waiting.cost);
  }

  /** Starts what waits, as long as there are places. */
  #startWaiting(): void {
    const { maxInFlight } = this.#settings;
    for (const [id, { start }] of this.#waiting) {
      if (this.#inFlight >= maxInFlight) break;
      this.#waiting.delete(id);
      this.#running += 1;
      start();
    }
    // Places of calls that were given up too quickly are freed by time only, so a timer is needed.
    if (this.#waiting.size > 0 && this.#cooling > 0 && !this.#isPausing) void this.#startLater();
  }

  async #startLater(): Promise<void> {
    this.#isPausing = true;
    await pause(systemClock, 1_000 / givenUpPerSecond, this.#closed.signal);
    this.#isPausing = false;
    if (!this.#isClosed) this.#startWaiting();
  }

  #open(message: OpenMessage): void {
    const { id, method, kind } = message;
    if (this.#waiting.size >= waitingMax) {
      const text = `${method}: ${waitingMax} calls of the page already wait for a place`;
      return this.#refuse(id, new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', text));
    }
    const allowed = this.#settings.allowed.get(method);
    if (allowed === undefined) {
      return this.#refuse(id, new RpcError('permission_denied', `${method} is not allowed here`));
    }
    if (allowed.method !== undefined && allowed.method.kind !== kind) {
      const text = `${method} is of kind ${allowed.method.kind}, not ${kind}`;
      return this.#refuse(id, new RpcError('unimplemented', text));
    }
    let cost: number;
    try {
      cost = costOf(message.value);
      this.#hold(cost);
    } catch (error) {
      return this.#refuse(id, SidecallError.from(error));
    }
    this.#calls.set(id, new RelayedCall(this, message));
    const start = (): void => {
      const call = this.#calls.get(id) as RelayedCall;
      const { method: description } = allowed;
      const answers =
        description !== undefined && 'response' in description ? description.response : undefined;
      const plain = answers?.plain && ((value: unknown) => answers.plain?.(value));
      void call.run(this.#functionOf(allowed, kind), plain).then(() => this.release(cost));
    };
    this.#waiting.set(id, { start, cost });
    this.#startWaiting();
  }

  /** A request of a stream. */
  #take(call: RelayedCall, value: unknown): void {
    let cost: number;
    try {
      cost = costOf(value);
      this.#hold(cost);
    } catch (error) {
      return call.fail(SidecallError.from(error));
    }
    call.requests.push(value, cost);
  }

  #hold(cost: number): void {
    if (this.#heldBytes + cost > heldMaxBytes) {
      const text = `the page has sent ${this.#heldBytes} bytes that nobody has taken yet`;
      throw new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text);
    }
    this.#heldBytes += cost;
  }

  #refuse(id: number, error: SidecallError): void {
    this.post({ t: 'error', id, error: portError(error) });
  }

  #functionOf({ name, method }: Allowed, kind: MethodKind): AnyFunction {
    const key = `${kind} ${name}`;
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    const methods = { call: method ?? kinds[kind]() };
    const service: Service = { name, methods, wireName: () => name };
    const { call } = this.#session.client(service) as unknown as { call: AnyFunction };
    this.#functions.set(key, call);
    return call;
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
function checkMessage(data: unknown): PageMessage {
  const message = data as { readonly [key: string]: unknown } | null;
  if (typeof message !== 'object' || message === null)
    throw broken('a message that is not an object');
  const { t, id, method, kind, timeoutMs, metadata, count } = message;
  if (!Number.isSafeInteger(id) || (id as number) < 0) throw broken('a message without an id');
  if (t === 'open') {
    if (typeof method !== 'string' || method.length > wireLimits.methodNameMaxBytes) {
      throw broken('a call without a method');
    }
    if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind))
      throw broken('an unknown kind of call');
    const isTime =
      timeoutMs === undefined ||
      (Number.isInteger(timeoutMs) &&
        (timeoutMs as number) >= 0 &&
        (timeoutMs as number) <= ranges.timeoutMs.max);
    if (!isTime) throw broken('an invalid time-out');
    const isMetadata = typeof metadata === 'object' && metadata !== null;
    if (metadata !== undefined && !isMetadata) throw broken('invalid metadata');
    if (isMetadata && Object.keys(metadata).length > wireLimits.metadataEntriesMax) {
      throw broken('invalid metadata');
    }
  } else if (t === 'credit') {
    const isCount = Number.isInteger(count) && (count as number) > 0;
    if (!isCount || (count as number) > creditMax) throw broken('an invalid credit');
  } else if (t !== 'message' && t !== 'end' && t !== 'cancel')
    throw broken('a message of an unknown type');
  return message as unknown as PageMessage;
}
