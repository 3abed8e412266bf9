// SPDX-License-Identifier: MIT
// stdioTransport(): JSON-RPC with a program over its standard input and output.

import type { Readable, Writable } from 'node:stream';
import {
  AbstractMessageReader,
  AbstractMessageWriter,
  type DataCallback,
  type Disposable,
  type Message,
  type MessageReader,
  type MessageWriter,
} from 'vscode-jsonrpc';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { nodeError } from '../base/misuse.ts';
import { BodyDecoder, framed } from './stdio-framing.ts';

/**
 * The pair that `createMessageConnection()` of vscode-jsonrpc and `createConnection()` of
 * vscode-languageserver take.
 */
export interface JsonRpcTransport {
  readonly reader: MessageReader;
  readonly writer: MessageWriter;
}

/** A child with pipes for its standard input and output. */
export interface StdioChild {
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
}

/**
 * Reader and writer of a JSON-RPC connection with a plain server, over its standard input and
 * output, in the framing of the Language Server Protocol: what a client needs to have both kinds of
 * servers behind one interface. Where the callback of `reader.listen()` returns a promise, the
 * server is not read meanwhile. A child that dies closes the connection; nothing is thrown from its
 * pipes.
 * @throws {TypeError} where the child was not spawned with `stdio: ['pipe', 'pipe', …]`.
 */
export function stdioTransport(child: StdioChild): JsonRpcTransport {
  const { stdin, stdout } = child ?? {};
  if (!stdin || !stdout) {
    const text =
      "stdioTransport() needs a child with pipes: spawn(…, { stdio: ['pipe', 'pipe', 'inherit'] })";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  // A pipe of a dead child emits 'error', which would end the process without a listener. The
  // writer reports the error when it is written to.
  stdin.on('error', ignore);
  stdout.on('error', ignore);
  return { reader: new StdioReader(stdout), writer: new StdioWriter(stdin) };
}

class StdioReader extends AbstractMessageReader {
  readonly #stdout: Readable;
  readonly #decoder = new BodyDecoder();
  #isDisposed = false;

  constructor(stdout: Readable) {
    super();
    this.#stdout = stdout;
  }

  listen(callback: DataCallback): Disposable {
    void this.#read(callback);
    return { dispose: () => this.dispose() };
  }

  override dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    super.dispose();
    this.#stdout.resume();
  }

  async #read(callback: DataCallback): Promise<void> {
    try {
      for await (const chunk of this.#stdout.iterator({ destroyOnReturn: false })) {
        if (this.#isDisposed) break;
        for (const body of this.#decoder.push(chunk as Buffer)) await this.#deliver(body, callback);
      }
      if (!this.#isDisposed && this.#decoder.isMidway) {
        this.fireError(new SidecallError('ERR_SIDECALL_PROTOCOL', 'the last message was cut off'));
      }
    } catch (error) {
      if (!this.#isDisposed) this.fireError(error);
    }
    this.#stdout.resume(); // what it still prints must not block it
    if (!this.#isDisposed) this.fireClose();
  }

  /** An error of the callback, and a body that is no JSON, lose this message only. */
  async #deliver(body: Buffer, callback: (message: Message) => unknown): Promise<void> {
    if (this.#isDisposed) return;
    try {
      await callback(JSON.parse(body.toString()));
    } catch (error) {
      this.fireError(error);
    }
  }
}

class StdioWriter extends AbstractMessageWriter implements MessageWriter {
  readonly #stdin: Writable;
  #failures = 0;

  constructor(stdin: Writable) {
    super();
    this.#stdin = stdin;
    stdin.on('close', () => this.fireClose());
  }

  async write(message: Message): Promise<void> {
    const bytes = framed(JSON.stringify(message));
    try {
      await new Promise<void>((resolve, reject) => {
        this.#stdin.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
    } catch (error) {
      this.#failures += 1;
      this.fireError(error, message, this.#failures);
      throw error;
    }
  }

  end(): void {
    this.#stdin.end();
  }
}
