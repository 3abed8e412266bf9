// Each kind of call × each state × each cause of an end: the call settles once, as expected, its
// handler is told, and no resource of it is left.
import { describe, expect, it } from 'vitest';
import type { CallContext } from '../../../src/rpc/contract/call-context.ts';
import type { CallOptions } from '../../../src/rpc/contract/call-options.ts';
import {
  bidi,
  clientStream,
  serverStream,
  service,
  unary,
} from '../../../src/rpc/contract/service.ts';
import { defer, turns, until } from '../../support/contract.ts';
import { lanes, type Pair } from '../../support/pairs.ts';

const Stage = service('Stage', {
  unary: unary<string, string>(),
  serverStream: serverStream<string, string>(),
  clientStream: clientStream<string, string>(),
  bidi: bidi<string, string>(),
});

const kinds = ['unary', 'serverStream', 'clientStream', 'bidi'] as const;
const points = [
  'before it is sent',
  'after it was sent',
  'after headers',
  'in the middle',
  'after the end',
] as const;
const endings = [
  'its caller cancels',
  'its deadline passes',
  'the peer dies',
  'nothing happens',
] as const;

type Kind = (typeof kinds)[number];
type Point = (typeof points)[number];
type Ending = (typeof endings)[number];

/** The handlers' side: it goes as far as it is let. */
class Handlers {
  readonly begun = defer();
  readonly mayAnswer = defer();
  readonly mayEnd = defer();
  readonly took = defer();
  readonly mayHeaders = defer();
  ctx: CallContext | undefined;
  calls = 0;
  settled = 0;

  serve(pair: Pair): void {
    const begin = async (ctx: CallContext): Promise<void> => {
      this.calls += 1;
      this.ctx = ctx;
      this.begun.resolve();
      await Promise.race([this.mayHeaders.promise, aborted(ctx)]);
      ctx.sendHeaders({ stage: 'set' });
    };
    const until_ = (gate: { promise: Promise<void> }, ctx: CallContext): Promise<unknown> =>
      Promise.race([gate.promise, aborted(ctx)]);
    const settled = (): void => void (this.settled += 1);
    pair.far.serve(Stage, {
      unary: async (request, ctx) => {
        try {
          await begin(ctx);
          await until_(this.mayEnd, ctx);
          return request;
        } finally {
          settled();
        }
      },
      serverStream: async function* (this: unknown, request: string, ctx: CallContext) {
        try {
          await begin(ctx);
          await until_(handlers.mayAnswer, ctx);
          yield request;
          await until_(handlers.mayEnd, ctx);
        } finally {
          settled();
        }
      },
      clientStream: async (requests, ctx) => {
        try {
          await begin(ctx);
          let all = '';
          for await (const request of requests) {
            all += request;
            this.took.resolve();
          }
          return all;
        } finally {
          settled();
        }
      },
      bidi: async function* (requests, ctx) {
        try {
          await begin(ctx);
          for await (const request of requests) yield request;
        } finally {
          settled();
        }
      },
    });
    const handlers = this;
  }
}

function aborted({ signal }: CallContext): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

/** The callers' side: brings its call to a point, and says how it ended. */
interface Driver {
  readonly outcome: Promise<string>;
  readonly toMiddle: () => Promise<void>;
  readonly toEnd: () => Promise<void>;
}

function drive(pair: Pair, kind: Kind, handlers: Handlers, options: CallOptions): Driver {
  const stage = pair.near.client(Stage);
  const all = async (messages: AsyncIterable<string>, onFirst: () => void): Promise<string> => {
    let text = '';
    for await (const message of messages) {
      text += message;
      onFirst();
    }
    return text;
  };
  const first = defer();
  switch (kind) {
    case 'unary': {
      const outcome = stage.unary('x', options);
      return {
        outcome,
        toMiddle: async () => undefined,
        toEnd: async () => {
          handlers.mayEnd.resolve();
          await outcome;
        },
      };
    }
    case 'serverStream': {
      const outcome = all(stage.serverStream('x', options), first.resolve);
      return {
        outcome,
        toMiddle: async () => {
          handlers.mayAnswer.resolve();
          await first.promise;
        },
        toEnd: async () => {
          handlers.mayAnswer.resolve();
          handlers.mayEnd.resolve();
          await outcome;
        },
      };
    }
    case 'clientStream': {
      const call = stage.clientStream(options);
      const ended = defer<string>();
      void call.send('x').catch(ended.reject);
      const outcome = ended.promise;
      let isEnding = false;
      // A side that only sends learns of a failure by sending.
      const probe = (async () => {
        while (options.signal?.aborted !== true) {
          await turns(1);
          await new Promise((resolve) => setTimeout(resolve, 5));
          if (isEnding) return;
          await call.send('');
        }
        await call.send('');
      })();
      probe.catch(ended.reject);
      return {
        outcome,
        toMiddle: () => handlers.took.promise,
        toEnd: async () => {
          isEnding = true;
          await call.end().then(ended.resolve, ended.reject);
          await outcome;
        },
      };
    }
    default: {
      const call = stage.bidi(options);
      const outcome = all(call, first.resolve);
      void call.send('x').catch(() => undefined);
      return {
        outcome,
        toMiddle: () => first.promise,
        toEnd: async () => {
          await call.end();
          await outcome;
        },
      };
    }
  }
}

async function bringTo(
  point: Point,
  driver: Driver,
  handlers: Handlers,
  headers: Promise<void>,
): Promise<void> {
  if (point === 'before it is sent') return turns(3);
  await handlers.begun.promise;
  if (point === 'after it was sent') return;
  handlers.mayHeaders.resolve();
  await headers;
  if (point === 'after headers') return;
  await driver.toMiddle();
  if (point === 'in the middle') return;
  await driver.toEnd();
}

const reason = new Error('given up');
const timeoutMs = 60;

function expected(point: Point, ending: Ending): unknown {
  if (ending === 'nothing happens' || point === 'after the end') return 'x';
  if (ending === 'its caller cancels') return reason;
  const code =
    ending === 'the peer dies' ? 'ERR_SIDECALL_PEER_GONE' : 'ERR_SIDECALL_DEADLINE_EXCEEDED';
  return expect.objectContaining({
    code,
    delivered: point === 'before it is sent' ? 'no' : 'unknown',
  });
}

describe.each(lanes)("the life of a call over the '$lane'", ({ openPair }) => {
  const rows = kinds.flatMap((kind) =>
    points.flatMap((point) => endings.map((ending) => ({ kind, point, ending }))),
  );

  it.each(rows)('$kind, $point, $ending', async ({ kind, point, ending }) => {
    await using pair = await openPair({ far: { streamsMax: 1 } });
    const handlers = new Handlers();
    handlers.serve(pair);
    const stop = new AbortController();
    const headers = defer();
    const options: CallOptions = {
      signal: stop.signal,
      onHeaders: () => headers.resolve(),
      ...(ending === 'its deadline passes' && { timeoutMs }),
    };
    // One handler at a time: what holds the place keeps the call from being sent.
    const blocking = new AbortController();
    const isBlocked = point === 'before it is sent';
    const blocker = isBlocked
      ? pair.near.client(Stage).unary('blocks', { signal: blocking.signal })
      : undefined;
    blocker?.catch(() => undefined);
    const driver = drive(pair, kind, handlers, options);
    let settled = 0;
    const outcome = driver.outcome.then(
      (value) => {
        settled += 1;
        return value;
      },
      (error: unknown) => {
        settled += 1;
        return error;
      },
    );
    const isThere = bringTo(point, driver, handlers, headers.promise);
    // On a machine that is busy the deadline may pass on the way, also on that to the end.
    const isTimed = ending === 'its deadline passes';
    isThere.catch(() => undefined);
    await (isTimed ? Promise.race([isThere, outcome]) : isThere);
    const isLate = isTimed && (await outcome) instanceof Error;
    const hasEnded = point === 'after the end' && !isLate;
    if (isTimed && hasEnded) await new Promise((done) => setTimeout(done, timeoutMs + 5)); // it passes
    if (ending === 'its caller cancels') stop.abort(reason);
    if (ending === 'the peer dies') pair.cut();
    if (ending === 'nothing happens') {
      if (isBlocked) blocking.abort(new Error('enough'));
      handlers.mayHeaders.resolve();
      handlers.mayAnswer.resolve();
      handlers.mayEnd.resolve();
      if (point !== 'after the end') await driver.toEnd();
    }
    const at = point === 'after the end' && isLate ? 'in the middle' : point;
    expect(await outcome).toEqual(expected(at, ending));
    blocking.abort(new Error('enough'));
    const isCut = !isBlocked && !hasEnded && ending !== 'nothing happens';
    // The handler may have answered at the moment at which the deadline passed.
    const isOver = (): boolean => handlers.settled === handlers.calls;
    if (isCut) await until(() => isOver() || handlers.ctx?.signal.aborted === true);
    handlers.mayEnd.resolve();
    await until(isOver);
    await until(() => pair.far.stats().handlers.running === 0);
    expect(settled).toBe(1);
    if (isBlocked && ending !== 'nothing happens') expect(handlers.calls).toBe(1); // the one that held the place
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });
});
