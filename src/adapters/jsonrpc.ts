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
import { systemClock } from '../base/clock.ts';
import type { SidecallErrorCode } from '../base/error-codes.ts';
import { SidecallError } from '../base/errors.ts';
import { checkKeys, nodeError } from '../base/misuse.ts';
import type { Session } from '../rpc/session/session.ts';
import { JsonRpcConnection, messages, notJson } from './jsonrpc-connection.ts';
import { type MeetingOptions, meetOn } from './jsonrpc-meeting.ts';
import type { JsonRpcTransport } from './stdio-transport.ts';

export type { MeetingOptions } from './jsonrpc-meeting.ts';
export { sidecallCommand } from './sidecall-command.ts';
export type { FramingName } from './stdio-framing.ts';
export { type RelayEnd, type RelayOptions, relayStdio } from './stdio-relay.ts';
export {
  type JsonRpcTransport,
  type StdioChild,
  type StdioTransportOptions,
  stdioTransport,
} from './stdio-transport.ts';

/** Options of {@link jsonrpcTransport}. */
export type JsonRpcTransportOptions = MeetingOptions;

/**
 * Reader and writer of a JSON-RPC connection over a session, on either lane. Both ends call it.
 * Messages have the flow control of a channel: `writer.write()` resolves when the message was
 * admitted, and what the connection has not taken waits in the window, not in its queue. Where the
 * callback of `reader.listen()` returns a promise, the next message comes when it has settled: a
 * relay that returns what `write()` gave passes the back-pressure on. Disposing the connection ends
 * the channel behind what was written, as does `session.close()` on either side; the session goes
 * on without it. The end of the other side, whatever its cause, is a close (`onClose`), and
 * `session.closed` has the cause; `onError` is told of messages that are lost. A message may be as
 * long as the other end's `limits.receiveMaxBytes`: language servers want 64 MiB.
 * @throws {TypeError | RangeError} for misuse, and where the name is used already.
 */
export function jsonrpcTransport(
  session: Session,
  options: JsonRpcTransportOptions = {},
): JsonRpcTransport {
  checkKeys('jsonrpcTransport()', options, ['name', 'opens', 'timeoutMs']);
  const meet = meetOn('jsonrpcTransport()', session, messages, options);
  const line = new JsonRpcConnection(session, meet);
  return { reader: new LineReader(line), writer: new LineWriter(line) };
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
        await new Promise<void>((resolve) => systemClock.setImmediate(resolve));
      }
      this.#line.end(); // as a socket: when the peer has ended, so do we
    } catch (error) {
      if (!this.#isDisposed && !isEnd(error)) this.fireError(error);
    }
    if (!this.#isDisposed) this.fireClose();
  }

  /**
   * Delivers a message. An error of the callback loses this message only; a slow callback
   * holds back the next one.
   */
  async #deliver(message: Message, callback: (message: Message) => unknown): Promise<void> {
    try {
      if (message === notJson) throw new SidecallError('ERR_SIDECALL_DECODE', notJsonText);
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
      if (!this.#isDisposed && !isEnd(error)) this.fireError(error, message, this.#failures);
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

const notJsonText = 'a message of the other end is no JSON: it is lost';

/** Codes of sessions and channels that are over. */
const ends: ReadonlySet<string> = new Set<SidecallErrorCode>([
  'ERR_SIDECALL_PEER_GONE',
  'ERR_SIDECALL_PEER_UNRESPONSIVE',
  'ERR_SIDECALL_CLOSED',
  'ERR_SIDECALL_GOING_AWAY',
  'ERR_SIDECALL_CANCELLED',
]);

/**
 * True: the end of the other side, which a client is told by `onClose` alone. Clients of language
 * servers stop for good at an error, and start the server again at a close.
 */
function isEnd(error: unknown): boolean {
  return SidecallError.is(error) && ends.has(error.code);
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
