// Faults: errors of handlers that were not thrown for the caller.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../../src/rendezvous/listen.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../../src/testing/session-pair.ts';
import { turns } from '../../support/contract.ts';

const Shop = service('Shop', { buy: unary<string, string>(), relay: unary<string, string>() });
const stranger = { peer: { uid: 61_001 } };
const failing = {
  buy: (text: string): string => {
    throw new TypeError(text);
  },
  relay: () => '',
};

let warnings: (Error & { code?: string; detail?: string })[] = [];
const listener = (warning: Error): void => void warnings.push(warning);
beforeEach(() => {
  warnings = [];
  process.on('warning', listener);
});
afterEach(() => {
  process.off('warning', listener);
});

function messageOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'no error',
    (error: RpcError) => `${error.status} ${error.message}`,
  );
}

describe('the text of a fault', () => {
  it('crosses to a process of our own', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Shop, failing);
    const { buy } = pair.near.client(Shop);
    expect(await messageOf(buy('no such shelf'))).toBe(
      'internal Shop.buy: TypeError: no such shelf',
    );
    expect(await messageOf(buy('x'.repeat(100_000)))).toHaveLength(
      'internal Shop.buy: '.length + 4_096,
    );
  });

  it('does not cross to a stranger', async () => {
    await using pair = createSessionPair({ far: stranger });
    pair.far.serve(Shop, failing);
    expect(await messageOf(pair.near.client(Shop).buy('/a/path'))).toBe(
      'internal Shop.buy: internal',
    );
  });

  it.each<[string, ListenOptions, string]>([
    ['the default policy', {}, 'internal Shop.buy: TypeError: words'],
    ['a policy of its own', { authorize: () => true }, 'internal Shop.buy: internal'],
  ])(
    'crosses to a process of our user by %s of the listener: see',
    async (_what, options, text) => {
      await using door = await listen(options);
      door.serve(Shop, failing);
      await using session = await connect({ path: door.path });
      expect(await messageOf(session.client(Shop).buy('words'))).toBe(text);
    },
  );

  it('that another process told us is not passed on to a stranger', async () => {
    await using upstream = createSessionPair();
    upstream.far.serve(Shop, failing);
    const relay = {
      buy: () => '',
      relay: (text: string) => upstream.near.client(Shop).buy(text),
    };
    await using own = createSessionPair();
    own.far.serve(Shop, relay);
    expect(await messageOf(own.near.client(Shop).relay('words'))).toBe(
      'internal Shop.relay: Shop.buy: TypeError: words',
    );
    await using other = createSessionPair({ far: stranger });
    other.far.serve(Shop, relay);
    expect(await messageOf(other.near.client(Shop).relay('words'))).toBe(
      'internal Shop.relay: internal',
    );
  });
});

describe('a fault without onEvent', () => {
  it('is printed once, with its stack, by the process that threw', async () => {
    await using pair = createSessionPair({ far: stranger });
    pair.far.serve(Shop, failing);
    for (let call = 0; call < 3; call += 1)
      await messageOf(pair.near.client(Shop).buy('printed once'));
    await turns(2);
    const ours = warnings.filter(({ message }) => message.includes('printed once'));
    expect(ours).toHaveLength(1);
    expect(ours[0]).toMatchObject({
      code: 'SIDECALL_HANDLER_FAILED',
      message: 'the handler of Shop.buy failed: TypeError: printed once',
      detail: expect.stringContaining('failure-reply.test.ts') as string,
    });
  });

  it('is not printed where onEvent takes it, nor is an error for the caller', async () => {
    await using pair = createSessionPair({ far: { onEvent: () => undefined } });
    pair.far.serve(Shop, failing);
    await messageOf(pair.near.client(Shop).buy('taken by onEvent'));
    await using quiet = createSessionPair();
    quiet.far.serve(Shop, {
      ...failing,
      buy: () => {
        throw new RpcError('not_found', 'for the caller');
      },
    });
    await messageOf(quiet.near.client(Shop).buy('x'));
    await turns(2);
    expect(warnings).toEqual([]);
  });

  it('is one of a hundred at most, whatever a peer sends', async () => {
    await using pair = createSessionPair({ far: stranger });
    pair.far.serve(Shop, failing);
    const { buy } = pair.near.client(Shop);
    const long = 'x'.repeat(200_000);
    await messageOf(buy(`${long} short in print`));
    await Promise.all(
      Array.from({ length: 300 }, (_, at) => messageOf(buy(`fault ${at} ${long}`))),
    );
    await turns(2);
    expect(warnings.length).toBeGreaterThan(1);
    expect(warnings.length).toBeLessThanOrEqual(100);
    for (const { message, detail = '' } of warnings) {
      expect(Math.max(message.length, detail.length)).toBeLessThanOrEqual(4_096);
    }
  });

  it('of any kind of value is told', async () => {
    await using pair = createSessionPair();
    const thrown = [undefined, null, 7, Object.create(null), { message: 'no error' }];
    const hostile = Object.defineProperty(new Error('words'), 'name', {
      get: () => {
        throw new Error('from the getter');
      },
    });
    for (const value of [...thrown, hostile]) {
      pair.far.serve(Shop, {
        ...failing,
        buy: () => {
          throw value;
        },
      });
      expect(await messageOf(pair.near.client(Shop).buy('x'))).toMatch(/^internal Shop\.buy: /);
      pair.far.unserve(Shop);
    }
  });
});
