import {
  type ExposeOptions,
  type Exposure,
  exposeToRenderer,
} from '../../src/adapters/electron/main.ts';
import { connectMain, type MainConnection } from '../../src/adapters/electron/renderer.ts';
import { RpcError, type SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
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
import { createSessionPair, type SessionPair } from '../../src/testing/session-pair.ts';
import { MessageChannelMain, type StubPage, StubWebContents } from './electron.ts';

export const Search = service('Search', {
  query: unary<{ text: string }, { hits: number }>(),
  blob: unary<{ size: number }, { data: Uint8Array; parts: Uint8Array[] }>(),
  raw: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  note: notification<string>(),
  list: serverStream<{ to: number }, number>(),
  sum: clientStream<number, number>(),
  chat: bidi<string, string>(),
  hang: unary<void, void>(),
  fail: unary<{ kind: string }, void>(),
});

interface Noted {
  readonly notes: string[];
  readonly reasons: unknown[];
  listed: number;
}

function handlersNoting(noted: Noted): Handlers<typeof Search.methods> {
  return {
    query: ({ text }) => ({ hits: text.length }),
    blob: ({ size }) => ({ data: Buffer.from('x'.repeat(size)), parts: [Buffer.from('part')] }),
    raw: (payload) => payload.map((byte) => byte + 1),
    note: (text) => void noted.notes.push(text),
    async *list({ to }, { signal }) {
      try {
        for (let at = 0; at < to; at += 1) {
          noted.listed += 1;
          yield at;
        }
      } finally {
        if (signal.aborted) noted.reasons.push(signal.reason);
      }
    },
    async sum(numbers) {
      let sum = 0;
      for await (const number of numbers) sum += number;
      return sum;
    },
    async *chat(texts, ctx) {
      ctx.sendHeaders({ room: 'one' });
      ctx.trailers = { left: 'yes' };
      for await (const text of texts) yield text.toUpperCase();
    },
    hang: (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          noted.reasons.push((signal.reason as SidecallError).code);
          resolve();
        });
      }),
    fail: ({ kind }) => {
      if (kind === 'rpc') {
        throw new RpcError('not_found', 'no such page', {
          details: { page: 7 },
          metadata: { a: 'b' },
        });
      }
      throw new Error('/etc/secret');
    },
  };
}

export interface Bench extends AsyncDisposable {
  readonly contents: StubWebContents;
  readonly pair: SessionPair;
  readonly exposure: Exposure;
  readonly events: SidecallEvent[];
  readonly noted: Noted;
  readonly page: StubPage;
}

export function bench(options: Partial<ExposeOptions> = {}): Bench {
  const contents = new StubWebContents();
  const pair = createSessionPair();
  const noted: Noted = { notes: [], reasons: [], listed: 0 };
  pair.far.serve(Search, handlersNoting(noted));
  const events: SidecallEvent[] = [];
  const exposure = exposeToRenderer(contents, pair.near, {
    MessageChannelMain,
    allow: [Search],
    onEvent: (event) => void events.push(event),
    ...options,
  });
  const page = contents.navigate();
  const dispose = async (): Promise<void> => {
    exposure.close();
    await pair.close();
  };
  return { contents, pair, exposure, events, noted, page, [Symbol.asyncDispose]: dispose };
}

export function connected(page: StubPage, name?: string): Promise<MainConnection> {
  return page.run(() => connectMain({ name, timeoutMs: 60_000 }));
}

export async function failureOf(promise: Promise<unknown>): Promise<SidecallError> {
  try {
    await promise;
  } catch (error) {
    return error as SidecallError;
  }
  throw new Error('it did not fail');
}
