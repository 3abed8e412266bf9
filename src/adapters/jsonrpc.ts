// SPDX-License-Identifier: MIT
// `sidecall/jsonrpc`: transports for vscode-jsonrpc (8 or later, which the application brings).

import {
  AbstractMessageReader,
  AbstractMessageWriter,
  type DataCallback,
  type Disposable,
  type Message,
  type MessageWriter,
} from 'vscode-jsonrpc';
import { nowMs, setImmediate } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import type { Session } from '../rpc/session/session.ts';
import {
  type JsonRpcChannel,
  JsonRpcConnection,
  messages,
  type OpenChannel,
} from './jsonrpc-connection.ts';
import type { JsonRpcTransport } from './stdio-transport.ts';

export { type JsonRpcTransport, type StdioChild, stdioTransport } from './stdio-transport.ts';

/** Options of {@link jsonrpcTransport}. */
export interface JsonRpcTransportOptions {
  /**
   * Name of the channel; another one for each further connection over the same session. Default
   * `vscode-jsonrpc`.
   */
  readonly name?: string | undefined;
  /**
   * Does this end open the channel? The other end accepts it. Default: the side that connected or
   * spawned opens. A pair of `createSessionPair()` has to say.
   */
  readonly opens?: boolean | undefined;
  /**
   * How long the opening end waits for the other end to accept, which may not know the name yet.
   * Default 5,000; 10 to 60,000.
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * The first message of the accepting end: the other end may send. A notification that JSON-RPC
 * peers may ignore.
 */
const ready = Object.freeze({ jsonrpc: '2.0', method: '$/sidecall/ready' });
const retryFirstMs = 2;
const retryMaxMs = 100;
/**
 * Reader and writer of a JSON-RPC connection over a session, on either lane. Both ends call it.
 * Messages have the flow control of a channel: `writer.write()` resolves when the message was
 * admitted, and what the connection has not taken waits in the window, not in its queue. Where the
 * callback of `reader.listen()` returns a promise, the next message comes when it has settled: a
 * relay that returns what `write()` gave passes the back-pressure on. Disposing the connection ends
 * the channel behind what was written, as does `session.close()` on either side; the session goes
 * on without it. A message may be as long as the other end's `limits.receiveMaxBytes`: language
 * servers want 64 MiB.
 * @throws {TypeError | RangeError} for misuse, and where the name is used already.
 */
export function jsonrpcTransport(
  session: Session,
  options: JsonRpcTransportOptions = {},
): JsonRpcTransport {
  checkKeys('jsonrpcTransport()', options, ['name', 'opens', 'timeoutMs']);
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const name = options.name ?? 'vscode-jsonrpc';
  checkTransport(session, name, options.opens);
  const opens = options.opens ?? opensFor(session.peer);
  const meet = opens ? opening(session, name, timeoutMs) : accepting(session, name);
  const line = new JsonRpcConnection(session, meet);
  return { reader: new LineReader(line), writer: new LineWriter(line) };
}

function checkTransport(session: Session, name: unknown, opens: unknown): void {
  if (typeof session?.openChannel !== 'function') {
    throw wrong('jsonrpcTransport() needs a session');
  }
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0;
  if (bytes === 0 || bytes > wireLimits.methodNameMaxBytes) {
    throw wrong(`jsonrpcTransport(): name must have 1 to ${wireLimits.methodNameMaxBytes} bytes`);
  }
  if (opens === undefined || typeof opens === 'boolean') return;
  throw wrong('jsonrpcTransport(): opens must be true or false');
}

function opensFor({ origin, capturedAt }: Peer): boolean {
  if (origin === 'loopback') {
    throw wrong('jsonrpcTransport(): say `opens: true` at one end and false at the other');
  }
  return capturedAt === 'spawn' ? origin === 'spawned' : capturedAt === 'listen';
}

/**
 * Tries again while the other end does not know the name yet: its program may still be starting.
 */
function opening(session: Session, name: string, timeoutMs: number): OpenChannel {
  return async (left) => {
    const until = nowMs() + timeoutMs;
    for (let pauseMs = retryFirstMs; ; pauseMs = Math.min(2 * pauseMs, retryMaxMs)) {
      try {
        return await openOnce(session, name, Math.max(1, Math.ceil(until - nowMs())), left);
      } catch (error) {
        const isEarly = RpcError.is(error) && error.status === 'unimplemented';
        if (!isEarly || left.aborted || nowMs() + pauseMs > until) throw error;
      }
      await pause(pauseMs, left);
    }
  };
}

async function openOnce(
  session: Session,
  name: string,
  timeoutMs: number,
  left: AbortSignal,
): Promise<JsonRpcChannel> {
  const channel = session.openChannel(messages, { name });
  const cancel = (): void => channel.cancel();
  left.addEventListener('abort', cancel);
  try {
    const { done, value } = await channel.next({ timeoutMs });
    if (done !== true && (value as { method?: unknown } | null)?.method === ready.method) {
      return channel;
    }
    const text = `the other end of the channel '${name}' did not begin with ${ready.method}`;
    throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
  } catch (error) {
    channel.cancel(error);
    throw error;
  } finally {
    left.removeEventListener('abort', cancel);
  }
}

/** @throws {TypeError} where the name is accepted already. */
function accepting(session: Session, name: string): OpenChannel {
  const arrivals = session.channels(messages, { name });
  return async (left) => {
    const stop = (): void => void arrivals.return?.();
    left.addEventListener('abort', stop);
    const { done, value: channel } = await arrivals.next();
    left.removeEventListener('abort', stop);
    void arrivals.return?.(); // one connection: a further one is refused
    if (done === true) throw new SidecallError('ERR_SIDECALL_CLOSED', 'nobody opened the channel');
    const cancel = (): void => channel.cancel();
    left.addEventListener('abort', cancel);
    await channel.send(ready);
    left.removeEventListener('abort', cancel);
    return channel;
  };
}

class LineReader extends AbstractMessageReader {
  readonly #line: JsonRpcConnection;
  #isListening = false;
  #isDisposed = false;

  constructor(line: JsonRpcConnection) {
    super();
    this.#line = line;
  }

  listen(callback: DataCallback): Disposable {
    if (this.#isListening) throw wrong('listen() was called before');
    this.#isListening = true;
    void this.#read(callback);
    return { dispose: () => this.dispose() };
  }

  override dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    super.dispose();
    this.#line.dispose();
  }

  async #read(callback: DataCallback): Promise<void> {
    try {
      for await (const message of this.#line.messages()) {
        if (this.#isDisposed) continue; // taken, so that the end behind it arrives
        await this.#deliver(message, callback);
        // The connection takes one message per turn of the event loop: more would pile up in its
        // queue.
        await new Promise((resolve) => setImmediate(resolve));
      }
      this.#line.end(); // as a socket: when the peer has ended, so do we
    } catch (error) {
      if (!this.#isDisposed) this.fireError(error);
    }
    if (!this.#isDisposed) this.fireClose();
  }

  /**
   * Delivers a message. An error of the callback loses this message only; a slow callback
   * holds back the next one.
   */
  async #deliver(message: Message, callback: (message: Message) => unknown): Promise<void> {
    try {
      await callback(message);
    } catch (error) {
      this.fireError(error);
    }
  }
}

class LineWriter extends AbstractMessageWriter implements MessageWriter {
  readonly #line: JsonRpcConnection;
  #isDisposed = false;
  #failures = 0;

  constructor(line: JsonRpcConnection) {
    super();
    this.#line = line;
    const onOver = (): void => {
      if (!this.#isDisposed) this.fireClose();
    };
    line.channel.then((channel) => channel.closed).then(onOver, onOver);
  }

  async write(message: Message): Promise<void> {
    try {
      await this.#line.send(message);
    } catch (error) {
      this.#failures += 1;
      if (!this.#isDisposed) this.fireError(error, message, this.#failures);
      throw error;
    }
  }

  end(): void {
    this.#line.end();
  }

  override dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    super.dispose();
    this.#line.dispose();
  }
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
