// The service that most tests call.
import { bytes } from '../../src/rpc/codec.ts';
import { type Handlers, notification, service, unary } from '../../src/rpc/service.ts';

export const Desk = service('Desk', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  echo: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  same: unary<unknown, unknown>(),
  hang: unary<void, void>(),
  fail: unary<string, void>(),
  log: notification<string>(),
});

/** Handlers that do the obvious; `overrides` replaces some. */
export function deskHandlers(
  overrides: Partial<Handlers<typeof Desk.methods>> = {},
): Handlers<typeof Desk.methods> {
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

/** A promise with its handles outside. */
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

/** One turn of the event loop, or several. */
export async function turns(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Waits for a state that some event brings about; the test's watchdog bounds it. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}
