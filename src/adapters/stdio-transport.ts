// SPDX-License-Identifier: MIT
// stdioTransport(): JSON-RPC with a program over its standard input and output.

import { Buffer } from 'node:buffer';
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
import { ignore } from '../base/ignore-errors.ts';
import { checkKeys, nodeError } from '../base/misuse.ts';
import {
  type BodyDecoder,
  type Framing,
  type FramingName,
  framingOf,
  TextReports,
} from './stdio-framing.ts';

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

/** Options of {@link stdioTransport}. */
export interface StdioTransportOptions {
  /** How messages follow each other on the pipes. Default `content-length`. */
  readonly framing?: FramingName | undefined;
}

/**
 * Reader and writer of a JSON-RPC connection with a plain server, over its standard input and
 * output: what a client needs to have both kinds of
 * servers behind one interface. Where the callback of `reader.listen()` returns a promise, the
 * server is not read meanwhile. A child that dies closes the connection; nothing is thrown from its
 * pipes.
 * @throws {TypeError} for a framing that is none, and where the child was not spawned with
 * `stdio: ['pipe', 'pipe', …]`.
 */
export function stdioTransport(
  child: StdioChild,
  options: StdioTransportOptions = {},
): JsonRpcTransport {
  checkKeys('stdioTransport()', options, ['framing']);
  const framing = framingOf(options.framing);
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
  return { reader: new StdioReader(stdout, framing), writer: new StdioWriter(stdin, framing) };
}

class StdioReader extends AbstractMessageReader {
  readonly #stdout: Readable;
  readonly #decoder: BodyDecoder;
  readonly #texts = new TextReports((error) => this.fireError(error));
  #isDisposed = false;

  constructor(stdout: Readable, framing: Framing) {
    super();
    this.#stdout = stdout;
    this.#decoder = framing.decoder((text) => this.#texts.add(text));
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
      const last = this.#isDisposed ? undefined : this.#decoder.end();
      if (last !== undefined) await this.#deliver(last, callback);
      this.#texts.flush();
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
  readonly #framing: Framing;
  #failures = 0;

  constructor(stdin: Writable, framing: Framing) {
    super();
    this.#stdin = stdin;
    this.#framing = framing;
    stdin.on('close', () => this.fireClose());
  }

  async write(message: Message): Promise<void> {
    const bytes = this.#framing.frame(Buffer.from(JSON.stringify(message)));
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
