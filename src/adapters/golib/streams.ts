// SPDX-License-Identifier: MIT
// The streams of golib over a plain connection: chunks and JSON, which have no end of their own,
// and protobuf, which closes each direction by itself.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { checkBoolean, checkKeys, nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import type { PlainConnection } from '../../rendezvous/plain-listener.ts';
import { bytes, type Codec, decodeWith, encodeWith } from '../../rpc/contract/codec.ts';
import { checkFrames, type FrameOptions, FrameSocket } from './frame-socket.ts';

/** Options of {@link chunkStream}. */
export interface ChunkStreamOptions extends FrameOptions {}

/** Options of {@link protoStream}. */
export interface ProtoStreamOptions extends FrameOptions {
  /**
   * `end()` waits until the peer has ended its direction: a Go program that ends second waits for
   * ever, since its reader has stopped by then. Default: no.
   */
  readonly closeLast?: boolean | undefined;
}

/** Messages in both directions, for `for await`. */
export interface GolibStream<T, In = T> extends AsyncIterable<T>, AsyncDisposable {
  /** The process at the other end. */
  readonly peer: Peer;
  /** Resolves (never rejects) at the end: undefined where it was orderly, else why. */
  readonly closed: Promise<SidecallError | undefined>;
  /**
   * Sends a message. Resolves when there is room for another one.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_ENCODE`, `ERR_SIDECALL_END_OF_STREAM`
   * behind `end()`, and why the connection is over.
   */
  send(message: In): Promise<void>;
  /** Sends no more. What the peer sends is still received. */
  end(): Promise<void>;
  /** Ends the connection at once. */
  destroy(): void;
}

const frameNames = ['receiveMaxBytes', 'frameTimeoutMs'] as const;

/**
 * golib's `chunk` (with the codec `bytes`) or `json/stream` (with `json()`): one message is one
 * chunk. golib has no empty chunks, so that an empty message is refused. The end of the peer behind
 * a whole message ends the iteration; it cannot be told from the death of its process.
 * @param connection of `listen({ protocol: 'plain' })` or `connect({ protocol: 'plain' })`, of
 * which nothing was read.
 * @throws {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { connect, json } from 'sidecall';
 * import { chunkStream } from 'sidecall/golib';
 *
 * const connection = await connect({ path: '/run/user/1000/words/socket', protocol: 'plain' });
 * const words = chunkStream(connection, json<{ Text: string }>());
 * await words.send({ Text: 'hello' });
 * for await (const { Text } of words) console.log(Text);
 * ```
 */
export function chunkStream<T = Uint8Array, In = T>(
  connection: PlainConnection,
  codec: Codec<T, In> = bytes as unknown as Codec<T, In>,
  options: ChunkStreamOptions = {},
): GolibStream<T, In> {
  checkKeys('chunkStream()', options, frameNames);
  return new ChunkStream(frames('chunkStream', connection, options), codec);
}

/**
 * golib's `proto/stream`: messages of protobuf, and an end for each direction, which the peer
 * answers. The end of the connection without it is the death of the peer.
 * @param connection as of {@link chunkStream}.
 * @throws {TypeError | RangeError} for misuse.
 */
export function protoStream<T, In = T>(
  connection: PlainConnection,
  codec: Codec<T, In>,
  options: ProtoStreamOptions = {},
): GolibStream<T, In> {
  checkKeys('protoStream()', options, [...frameNames, 'closeLast']);
  const { closeLast: _, ...rest } = options;
  const closesLast = checkBoolean('closeLast', options.closeLast);
  return new ProtoStream(frames('protoStream', connection, rest), codec, closesLast);
}

function frames(what: string, connection: PlainConnection, options: FrameOptions): FrameSocket {
  if (typeof connection?.write === 'function' && connection.peer !== undefined) {
    return new FrameSocket(connection, checkFrames(options));
  }
  const text = `${what}() needs a connection of listen() or connect() with protocol 'plain'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

function encoded<T, In>(codec: Codec<T, In>, message: In): Buffer {
  const made = encodeWith(codec as Codec<unknown, In>, message);
  return typeof made === 'string' ? Buffer.from(made) : Buffer.from(made);
}

function ended(): SidecallError {
  return new SidecallError(
    'ERR_SIDECALL_END_OF_STREAM',
    'the stream was ended: nothing can be sent',
  );
}

class ChunkStream<T, In> implements GolibStream<T, In> {
  readonly closed: Promise<SidecallError | undefined>;
  readonly #frames: FrameSocket;
  readonly #codec: Codec<T, In>;
  #hasEnded = false;

  constructor(socket: FrameSocket, codec: Codec<T, In>) {
    this.#frames = socket;
    this.#codec = codec;
    this.closed = socket.closed;
  }

  get peer(): Peer {
    return this.#frames.peer;
  }

  async send(message: In): Promise<void> {
    if (this.#hasEnded) throw ended();
    const made = encoded(this.#codec, message);
    if (made.length > 0) return this.#frames.send(made);
    throw new SidecallError('ERR_SIDECALL_ENCODE', 'golib carries no empty message');
  }

  async end(): Promise<void> {
    this.#hasEnded = true;
    this.#frames.end();
  }

  destroy(): void {
    this.#frames.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const frame = await this.#frames.next();
      if (frame === undefined) return;
      yield decoded(this.#frames, this.#codec, frame);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.destroy();
    await this.closed;
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_DECODE`; the connection is over then. */
function decoded<T, In>(socket: FrameSocket, codec: Codec<T, In>, frame: Uint8Array): T {
  try {
    return decodeWith(codec as unknown as Codec<T>, frame, true);
  } catch (error) {
    socket.destroy(SidecallError.from(error));
    throw error;
  }
}

const MessageType = { data: 1, close: 2, closeAck: 3 } as const;

class ProtoStream<T, In> implements GolibStream<T, In> {
  readonly closed: Promise<SidecallError | undefined>;
  readonly #frames: FrameSocket;
  readonly #codec: Codec<T, In>;
  readonly #closesLast: boolean;
  readonly #messages = new Fifo<{ readonly message: T }>();
  #reading: Promise<void> | undefined;
  #ending: Promise<void> | undefined;
  #hasSentClose = false;
  #isAcked = false;
  #isPeerDone = false;
  /** Woken by the peer's close, by its answer to ours, and by the end of the connection. */
  readonly #waiters = new Set<() => void>();

  constructor(socket: FrameSocket, codec: Codec<T, In>, closesLast: boolean) {
    this.#frames = socket;
    this.#codec = codec;
    this.#closesLast = closesLast;
    this.closed = socket.closed;
    void this.closed.then(() => this.#wakeAll());
  }

  get peer(): Peer {
    return this.#frames.peer;
  }

  async send(message: In): Promise<void> {
    if (this.#ending !== undefined) throw ended();
    const made = encoded(this.#codec, message);
    await this.#frames.send(Buffer.concat([Buffer.of(MessageType.data), made]));
  }

  /** Resolves when the peer has answered. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  destroy(): void {
    this.#frames.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const first = this.#messages.shift();
      if (first !== undefined) {
        this.#wakeAll(); // there is room for one more
        yield first.message;
      } else if (this.#isPeerDone) return;
      else await this.#readOne();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.destroy();
    await this.closed;
  }

  async #end(): Promise<void> {
    if (this.#closesLast) await this.#until(() => this.#isPeerDone);
    this.#hasSentClose = true;
    await this.#frames.send(Buffer.of(MessageType.close));
    await this.#until(() => this.#isAcked);
  }

  /** Reads on until `isDone`: ends and answers lie between messages, which are kept. */
  async #until(isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      if (this.#messages.length < keptMax) await this.#readOne();
      else await new Promise<void>((resolve) => this.#waiters.add(resolve));
      const { error } = this.#frames;
      if (error !== undefined && !isDone()) throw error;
    }
  }

  /** Reads one frame. Callers that come meanwhile get the same read. */
  #readOne(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
      this.#wakeAll();
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const frame = await this.#frames.next();
    if (frame === undefined) {
      if (!this.#isPeerDone) throw this.#gone('it has not ended its direction');
      if (this.#hasSentClose && !this.#isAcked) throw this.#gone('it has not answered our end');
      return;
    }
    const type = frame[0];
    if (type === MessageType.data && !this.#isPeerDone) {
      this.#messages.push({ message: decoded(this.#frames, this.#codec, frame.subarray(1)) });
    } else if (type === MessageType.close && !this.#isPeerDone && frame.length === 1) {
      this.#isPeerDone = true;
      await this.#frames.send(Buffer.of(MessageType.closeAck));
      this.#finish();
    } else if (
      type === MessageType.closeAck &&
      this.#hasSentClose &&
      !this.#isAcked &&
      frame.length === 1
    ) {
      this.#isAcked = true;
      this.#finish();
    } else throw this.#broken('ERR_SIDECALL_PROTOCOL', `message type ${type} out of order`);
  }

  #finish(): void {
    if (this.#isAcked && this.#isPeerDone) this.#frames.end();
  }

  #gone(why: string): SidecallError {
    return this.#broken('ERR_SIDECALL_PEER_GONE', `the peer is gone: ${why}`);
  }

  #broken(code: 'ERR_SIDECALL_PROTOCOL' | 'ERR_SIDECALL_PEER_GONE', what: string): SidecallError {
    const error = new SidecallError(code, `golib: ${what}`);
    this.#frames.destroy(error);
    return error;
  }

  #wakeAll(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}

/** Messages that are kept while an end is waited for. */
const keptMax = 64;
