// The service that most tests call.
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';

export const Demo = service('Demo', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  echo: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  same: unary<unknown, unknown>(),
  hang: unary<void, void>(),
  fail: unary<string, void>(),
  log: notification<string>(),
});

/** Handlers that do as their methods are named; `overrides` replaces some. */
export function demoHandlers(
  overrides: Partial<Handlers<typeof Demo.methods>> = {},
): Handlers<typeof Demo.methods> {
  return {
    add: ({ a, b }) => ({ sum: a + b }),
    echo: (payload) => payload,
    same: async (value) => value,
    hang: (_request, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      }),
    fail: (words) => {
      throw new Error(words);
    },
    log: () => undefined,
    ...overrides,
  };
}

/** A method of each kind of stream, and of bytes. */
export const Flow = service('Flow', {
  count: serverStream<{ to: number }, number>(),
  sum: clientStream<number, { sum: number }>(),
  shout: bidi<string, string>(),
  download: serverStream<{ messages: number; bytes: number }, Uint8Array>({ response: bytes }),
  upload: clientStream<Uint8Array, { bytes: number }>({ request: bytes }),
  echo: bidi<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
});

/** As {@link demoHandlers}. */
export function flowHandlers(
  overrides: Partial<Handlers<typeof Flow.methods>> = {},
): Handlers<typeof Flow.methods> {
  return {
    async *count({ to }) {
      for (let at = 1; at <= to; at += 1) yield at;
    },
    async sum(numbers) {
      let sum = 0;
      for await (const number of numbers) sum += number;
      return { sum };
    },
    async *shout(words) {
      for await (const word of words) yield word.toUpperCase();
    },
    async *download({ messages, bytes }) {
      for (let at = 0; at < messages; at += 1) yield new Uint8Array(bytes).fill(at);
    },
    async upload(pieces) {
      let bytes = 0;
      for await (const piece of pieces) bytes += piece.byteLength;
      return { bytes };
    },
    async *echo(pieces) {
      yield* pieces;
    },
    ...overrides,
  };
}

/** Collects all values of an iteration. */
export async function collect<T>(messages: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const message of messages) all.push(message);
  return all;
}

/** A promise with its `resolve` and `reject`. */
export function defer<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (reason: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Waits for `count` turns of the event loop. */
export async function turns(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Waits until `condition` holds; the test's timeout bounds it. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 2));
}
