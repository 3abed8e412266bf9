// A call that has nothing but a short message goes a short way at both ends. With metadata it goes
// the long way: both give the same results, errors and numbers.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { RpcError } from '../../src/index.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import type { CallOptions } from '../../src/rpc/contract/call-options.ts';
import { bytes, type Codec } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { Demo, demoHandlers, turns, until } from '../support/contract.ts';
import { lanes, type Pair } from '../support/pairs.ts';

const picky: Codec<string> = {
  name: 'picky',
  encode(value) {
    if (value === 'unspeakable') throw new Error('no');
    return value;
  },
  decode(view) {
    const text = Buffer.from(view).toString();
    if (text === 'unreadable') throw new Error('no');
    return text;
  },
};

const Table = service('Table', {
  echo: unary({ request: bytes, response: bytes }),
  words: unary<string, string>({ request: picky, response: picky }),
  act: unary<string, unknown>(),
});

/** The calls of the table, each by what is special about it. */
const calls: Readonly<
  Record<string, (client: ReturnType<typeof tableOf>, options?: CallOptions) => Promise<unknown>>
> = {
  bytes: ({ echo }, options) => echo(Buffer.from('abc'), options),
  'no bytes': ({ echo }, options) => echo(new Uint8Array(0), options),
  'a whole frame': ({ echo }, options) => echo(Buffer.alloc(65_536, 7), options),
  'a byte more than a frame': ({ echo }, options) => echo(Buffer.alloc(65_537, 7), options),
  text: ({ words }, options) => words('hello', options),
  'no text': ({ words }, options) => words('', options),
  'a request that cannot be encoded': ({ words }, options) => words('unspeakable', options),
  'a request that cannot be decoded': ({ words }, options) => words('unreadable', options),
  'an answer that cannot be encoded': ({ words }, options) => words('answer unspeakable', options),
  'an answer that cannot be decoded': ({ words }, options) => words('answer unreadable', options),
  'a handler that throws a status': ({ act }, options) => act('status', options),
  'a handler that throws a fault': ({ act }, options) => act('fault', options),
  'a handler that rejects': ({ act }, options) => act('reject', options),
  'a handler that answers later': ({ act }, options) => act('later', options),
  'a handler that answers nothing': ({ act }, options) => act('nothing', options),
  'a handler that sends headers': ({ act }, options) => act('headers', options),
  'a handler that sends trailers': ({ act }, options) => act('trailers', options),
  'a handler that reads its signal': ({ act }, options) => act('signal', options),
};

function tableOf(session: Session) {
  return session.client(Table);
}

function serveTable({ far }: Pair): void {
  const deeds: Record<string, (ctx: CallContext) => unknown> = {
    status: () => {
      throw new RpcError('not_found', 'nowhere');
    },
    fault: () => {
      throw new Error('a fault');
    },
    reject: async () => {
      throw new RpcError('aborted', 'late');
    },
    later: async () => {
      await turns(3);
      return 1;
    },
    nothing: () => undefined,
    headers: (ctx) => ctx.sendHeaders({ first: '1' }),
    trailers: (ctx) => {
      ctx.trailers = { last: '1' };
      return 2;
    },
    signal: (ctx) => ctx.signal.aborted,
  };
  far.serve(Table, {
    echo: (payload) => payload,
    words: (text) => text.replace('answer ', ''),
    act: (deed, ctx) => deeds[deed]?.(ctx),
  });
}

/** Makes the calls three times, one after the other and together. */
async function outcomeOf(pair: Pair, name: string, options?: CallOptions): Promise<unknown> {
  serveTable(pair);
  await Promise.all([pair.near.ping(), pair.far.ping()]); // the windows have been granted
  const client = tableOf(pair.near);
  const call = calls[name] as (typeof calls)[string];
  const outcomes: unknown[] = [];
  const attempt = async (): Promise<void> => {
    try {
      outcomes.push(await call(client, options));
    } catch (error) {
      const { delivered = undefined } = SidecallError.is(error) ? error : {};
      const { status = undefined } = RpcError.is(error) ? error : {};
      outcomes.push({ text: String(error), delivered, status });
    }
  };
  await attempt();
  await Promise.all([attempt(), attempt()]);
  await until(() => pair.far.stats().handlers.running === 0);
  return { outcomes, near: numbersOf(pair.near), far: numbersOf(pair.far) };
}

/** The numbers of a session that do not depend on time. */
function numbersOf(session: Session): unknown {
  const { calls: open, handlers, totals, methods, ends, messages, windows } = session.stats();
  const withoutTimes = ({ called, served }: typeof methods): unknown =>
    [...called, ...served].map(({ latencyMs, ...method }) => ({
      ...method,
      latencies: latencyMs.count,
    }));
  return { open, handlers, totals, methods: withoutTimes(methods), ends, messages, windows };
}

describe.each(lanes)('plain calls over the $lane', ({ openPair }) => {
  it.each(Object.keys(calls))('have the same outcome as others: %s', async (name) => {
    await using short = await openPair({ onFarEvent: () => undefined });
    await using long = await openPair({ onFarEvent: () => undefined });
    const plain = await outcomeOf(short, name);
    expect(plain).toEqual(await outcomeOf(long, name, { metadata: { way: 'long' } }));
  });

  it('a context that is kept shows its own call, whatever calls follow', async () => {
    await using pair = await openPair();
    const kept: CallContext[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        add: ({ a, b }, ctx) => {
          kept.push(ctx);
          return { sum: a + b };
        },
        echo: (payload, ctx) => {
          kept.push(ctx);
          return payload;
        },
        same: async (value, ctx) => {
          await turns(1);
          kept.push(ctx);
          return value;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    for (let round = 0; round < 3; round += 1) {
      await demo.add({ a: 1, b: 2 });
      await demo.echo(Buffer.from('x'));
      await demo.same('y');
      await demo.add({ a: 1, b: 2 }, { metadata: { own: 'z' } });
    }
    const methods = ['Demo.add', 'Demo.echo', 'Demo.same', 'Demo.add'];
    expect(kept.map((ctx) => ctx.method)).toEqual([...methods, ...methods, ...methods]);
    for (const [at, ctx] of kept.entries()) {
      expect(ctx.cancelledNow()).toBe(true);
      expect(ctx.signal.aborted).toBe(false);
      expect(ctx.deadline).toBe(undefined);
      expect(ctx.metadata).toEqual(at % 4 === 3 ? { own: 'z' } : {});
      expect(ctx.peer).toBe(pair.far.peer);
      ctx.trailers = { late: '1' };
      ctx.sendHeaders({ late: '1' });
      expect(ctx.trailers).toEqual({ late: '1' });
    }
    const heard: unknown[] = [];
    const hear = (metadata: unknown): void => void heard.push(metadata);
    await demo.add({ a: 1, b: 2 }, { onHeaders: hear, onTrailers: hear });
    expect(heard).toEqual([]);
    expect(pair.far.stats().calls.open + pair.far.inspect().streams.length).toBe(0);
  });

  it('a handler that ends the session in the middle fails its own call alone', async () => {
    await using pair = await openPair();
    const ends: unknown[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        add: ({ a, b }, ctx) => {
          if (a === 1) {
            pair.far.terminate(new SidecallError('ERR_SIDECALL_SYSTEM', 'a test'));
            ends.push([pair.far.state, ctx.signal.aborted]);
          }
          return { sum: a + b };
        },
      }),
    );
    const demo = pair.near.client(Demo);
    expect(await demo.add({ a: 5, b: 0 })).toEqual({ sum: 5 });
    const [outcome] = await Promise.allSettled([demo.add({ a: 1, b: 0 })]);
    // A ring ends behind what has arrived before, which is answered.
    const isOver = pair.far.lane !== 'ring';
    expect(ends).toEqual([isOver ? ['closed', true] : ['open', false]]);
    expect(outcome?.status).toBe(isOver ? 'rejected' : 'fulfilled');
    expect(pair.far.stats().handlers.running).toBe(0);
  });

  const uses: Record<string, (ctx: CallContext, far: Session) => void> = {
    'sets trailers': (ctx) => {
      ctx.trailers = { secret: '1' };
    },
    'reads its signal': (ctx) => void ctx.signal,
    'sends headers': (ctx) => ctx.sendHeaders({ secret: '1' }),
    'ends the session': (_, far) =>
      far.terminate(new SidecallError('ERR_SIDECALL_SYSTEM', 'a test')),
  };
  it.each(
    Object.keys(uses).flatMap((use) => [false, true].map((isLate) => [use, isLate] as const)),
  )(
    'an answer whose encoding %s leaves nothing to the next call (late: %s)',
    async (use, isLate) => {
      await using pair = await openPair({ onFarEvent: () => undefined });
      const signals: AbortSignal[] = [];
      const answer = (ctx: CallContext): unknown => ({
        toJSON: () => {
          uses[use]?.(ctx, pair.far);
          return 'encoded';
        },
      });
      pair.far.serve(Table, {
        echo: (payload, ctx) => {
          signals.push(ctx.signal);
          ctx.sendHeaders({ own: '1' });
          return payload;
        },
        words: (text) => text,
        act: isLate ? async (_, ctx) => answer(ctx) : (_, ctx) => answer(ctx),
      });
      await Promise.all([pair.near.ping(), pair.far.ping()]);
      const table = tableOf(pair.near);
      const [outcome] = await Promise.allSettled([table.act('use')]);
      if (/session/.test(use)) return;
      expect(outcome).toEqual({ status: 'fulfilled', value: 'encoded' });
      const heard: unknown[] = [];
      const hear = (metadata: unknown): void => void heard.push({ ...(metadata as object) });
      await table.echo(Buffer.from('x'), { onHeaders: hear, onTrailers: hear });
      expect(heard).toEqual([{ own: '1' }]);
      await table.act('use');
      expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    },
  );

  it('a handler sees itself among the open calls', async () => {
    await using pair = await openPair();
    const seen: unknown[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        add: ({ a, b }) => {
          const { streams, stats } = pair.far.inspect();
          seen.push([stats.handlers.running, streams.map(({ method, state }) => [method, state])]);
          return { sum: a + b };
        },
      }),
    );
    const demo = pair.near.client(Demo);
    for (let round = 0; round < 3; round += 1) await demo.add({ a: 1, b: 2 });
    expect(seen).toEqual(Array(3).fill([1, [['Demo.add', 'open']]]));
  });
});
