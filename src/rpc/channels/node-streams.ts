// SPDX-License-Identifier: MIT
// Streams of calls and channels as streams of Node and of the Web.

import { Buffer } from 'node:buffer';
import { Readable, Writable } from 'node:stream';
import { ReadableStream, WritableStream } from 'node:stream/web';
import { isBytes } from '../../base/brands.ts';
import { isPooled } from '../../base/buffer-pool.ts';

/** Something that messages are sent to: a client stream, a bidi call, a channel. */
export interface MessageSink<T> {
  send(message: T): Promise<void>;
  end(): Promise<unknown>;
  cancel(reason?: unknown): void;
}

/**
 * A Readable of objects. It reads one message ahead; destroying it leaves the iteration, which
 * cancels the call. Streams of Node cannot carry `null` or `undefined`: such a message is its
 * error.
 * @example
 * ```ts
 * import { createWriteStream } from 'node:fs';
 * import { pipeline } from 'node:stream/promises';
 * import { type Session, serverStream, service, toReadable } from 'sidecall';
 *
 * const Log = service('Log', { lines: serverStream<{ path: string }, string>() });
 *
 * async function save(session: Session): Promise<void> {
 *   const lines = toReadable(session.client(Log).lines({ path: 'a.log' }));
 *   await pipeline(lines, createWriteStream('copy.log'));
 * }
 * ```
 */
export function toReadable<T>(messages: AsyncIterable<T>): Readable {
  const iterator = messages[Symbol.asyncIterator]();
  const owned = {
    next: async () => {
      const { done, value } = await iterator.next();
      return { done, value: ownedOf(value) };
    },
    return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]: () => owned,
  };
  return Readable.from(owned as AsyncIterable<T>, { objectMode: true, highWaterMark: 1 });
}

/** A ReadableStream. It reads nothing ahead; cancelling it cancels the call. */
export function toReadableStream<T>(messages: AsyncIterable<T>): ReadableStream<T> {
  const iterator = messages[Symbol.asyncIterator]();
  return new ReadableStream<T>(
    {
      async pull(controller) {
        const step = await iterator.next();
        if (step.done === true) controller.close();
        else controller.enqueue(ownedOf(step.value));
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** A message that its stream reads ahead must not lie in memory that is used again. */
function ownedOf<T>(message: T): T {
  const isBorrowed = isBytes(message) && isPooled(message);
  return isBorrowed ? (Buffer.from(message) as Uint8Array as T) : message;
}

/**
 * A Writable of objects: each write is done when the message was admitted, and `end()` when the
 * sink's was. Destroying it cancels the sink.
 */
export function toWritable<T>(sink: MessageSink<T>): Writable {
  return new Writable({
    objectMode: true,
    highWaterMark: 1,
    write(message: T, _encoding, then) {
      sink.send(message).then(() => then(), then);
    },
    final(then) {
      sink.end().then(() => then(), then);
    },
    destroy(error, then) {
      if (error !== null || !this.writableFinished) sink.cancel(error ?? undefined);
      then(error);
    },
  });
}

/** A WritableStream; aborting it cancels the sink. */
export function toWritableStream<T>(sink: MessageSink<T>): WritableStream<T> {
  return new WritableStream<T>(
    {
      write: (message) => sink.send(message),
      close: async () => {
        await sink.end();
      },
      abort: (reason) => sink.cancel(reason),
    },
    { highWaterMark: 1 },
  );
}
