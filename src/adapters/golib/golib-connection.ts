// SPDX-License-Identifier: MIT
// The calls of one connection with a server of golib, matched by their ids.
import { onAbort } from '../../base/abort-listeners.ts';
import { systemClock } from '../../base/clock.ts';
import type { Delivered } from '../../base/error-codes.ts';
import { RpcError, SidecallError, withoutStack } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ignore } from '../../base/ignore-errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import type { Peer } from '../../base/peer.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import type { FrameSocket } from './frame-socket.ts';
import { decodePayload, ErrorKind, encodePayload, type Payload } from './payload.ts';

interface PendingCall {
  readonly method: string;
  readonly resolve: (data: Uint8Array) => void;
  readonly reject: (error: SidecallError) => void;
}

const idMax = 0xffff_ffff;

/** The calls of one connection. */
export class GolibConnection {
  readonly closed: Promise<SidecallError | undefined>;
  readonly #frames: FrameSocket;
  readonly #onEvent: OnEvent | undefined;
  readonly #pending = new Map<number, PendingCall>();
  #lastId = 0;
  /** Calls that were given up, whose answers may still come. */
  #hasGivenUp = false;
  #hasAnswered = false;
  #hasTold = false;
  #error: SidecallError | undefined;

  constructor(frames: FrameSocket, onEvent: OnEvent | undefined) {
    this.#frames = frames;
    this.#onEvent = onEvent;
    this.closed = frames.closed;
    void this.#readAll();
  }

  get peer(): Peer {
    return this.#frames.peer;
  }

  /** True: no further call can be made. */
  get isOver(): boolean {
    return this.#error !== undefined;
  }

  async call(method: string, data: Uint8Array, ctx: CallContext): Promise<Uint8Array> {
    if (this.#error !== undefined) throw this.#explained(copyOf(this.#error, 'no'));
    const id = this.#nextId();
    const leftMs = (ctx.deadline ?? Number.POSITIVE_INFINITY) - systemClock.nowMs();
    const deadlineNanos =
      BigInt(Math.ceil(Date.now() + Math.min(leftMs, ranges.timeoutMs.max))) * 1_000_000n;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      this.#pending.set(id, { method, resolve, reject });
    });
    answer.catch(ignore);
    const forget = onAbort(ctx.signal, () => {
      this.#hasGivenUp = true;
      this.#pending.get(id)?.reject(new SidecallError('ERR_SIDECALL_CANCELLED'));
      this.#pending.delete(id);
    });
    try {
      await this.#frames.send(encodePayload({ id, deadlineNanos, method, data }));
      return await answer;
    } catch (error) {
      throw this.#explained(SidecallError.from(error));
    } finally {
      forget();
      this.#pending.delete(id);
    }
  }

  close(): void {
    this.#frames.end();
    this.#frames.destroy();
  }

  /** Ids are not 0, and not those of calls that wait. */
  #nextId(): number {
    do this.#lastId = this.#lastId === idMax ? 1 : this.#lastId + 1;
    while (this.#pending.has(this.#lastId));
    return this.#lastId;
  }

  async #readAll(): Promise<void> {
    let error: SidecallError;
    try {
      for (;;) {
        const frame = await this.#frames.next();
        if (frame === undefined) break;
        this.#onAnswer(decodeOf(frame));
      }
      error = peerGone('it has closed the connection');
    } catch (cause) {
      error = SidecallError.from(cause);
    }
    this.#error = error;
    this.#frames.destroy(error);
    for (const { reject } of this.#pending.values()) reject(copyOf(error, 'unknown'));
    this.#pending.clear();
  }

  /** A server of golib that refuses a user closes the connection, without a word. */
  #explained(error: SidecallError): SidecallError {
    if (this.#hasAnswered || error.code !== 'ERR_SIDECALL_PEER_GONE') return error;
    const { code, message, cause, delivered } = error;
    const text = `${message}; its policy may have refused us`;
    return new SidecallError(code, text, { cause, delivered });
  }

  #onAnswer(payload: Payload): void {
    this.#hasAnswered = true;
    const id = payload.id === 0 ? this.#idOf(payload) : payload.id;
    if (id === undefined) return this.#tell(payload);
    const call = this.#pending.get(id);
    if (call === undefined) return; // an answer that comes after its call was given up
    this.#pending.delete(id);
    if (payload.errorKind === ErrorKind.none) call.resolve(payload.data);
    else call.reject(withoutStack(() => errorOf(payload, call.method)));
  }

  /** The call that an error without an id belongs to, where that is certain. */
  #idOf({ error }: Payload): number | undefined {
    const [, named] = /^method\((.*)\): not found$/s.exec(error) ?? [];
    // All calls of a method that is missing get the same error.
    for (const [id, call] of this.#pending) if (call.method === named) return id;
    const [only] = this.#pending.keys();
    return this.#pending.size === 1 && !this.#hasGivenUp ? only : undefined;
  }

  /** Once for a connection: a server can send as many as it likes. */
  #tell({ error }: Payload): void {
    if (this.#hasTold) return;
    this.#hasTold = true;
    const text = `golib: an error of the server that belongs to no call: ${error}`;
    const told = new SidecallError('ERR_SIDECALL_RPC', text);
    emitEvent(this.#onEvent, { type: 'adapter-failed', error: told, peer: this.peer });
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
function decodeOf(frame: Uint8Array): Payload {
  try {
    return decodePayload(frame);
  } catch (cause) {
    throw new SidecallError('ERR_SIDECALL_PROTOCOL', 'golib: a message is no Payload', { cause });
  }
}

function errorOf({ errorKind, error }: Payload, method: string): SidecallError {
  switch (errorKind) {
    case ErrorKind.methodNotFound: {
      const isUnknown = error === `method(${method}): not found`;
      return isUnknown ? new RpcError('unimplemented', error) : errorOfHandler(error);
    }
    case ErrorKind.deadlineExceeded:
      return new RpcError('deadline_exceeded', error);
    case ErrorKind.badData:
      return new RpcError('invalid_argument', error);
    case ErrorKind.server:
      return new RpcError('internal', error);
    default:
      return errorOfHandler(error);
  }
}

/** The words of Go's `context.DeadlineExceeded`, alone or at the end of a wrapped error. */
const deadlineWords = /(?:^|: )context deadline exceeded$/;

/** golib answers a handler that returns the error of its context as one that returns any other. */
function errorOfHandler(error: string): RpcError {
  return new RpcError(deadlineWords.test(error) ? 'deadline_exceeded' : 'unknown', error);
}

/** The error of a connection, for one of its calls. */
function copyOf({ code, message, cause }: SidecallError, delivered: Delivered): SidecallError {
  return new SidecallError(code, message, { cause, delivered });
}

/** The error of a peer whose end has closed. */
function peerGone(why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', `golib: the peer is gone: ${why}`);
}
