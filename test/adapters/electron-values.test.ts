// Values for a page are what the contract's type says, or a typed error.
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { exposeToRenderer } from '../../src/adapters/electron/main.ts';
import { connectMain } from '../../src/adapters/electron/renderer.ts';
import { protobuf } from '../../src/adapters/protobuf.ts';
import type { Codec } from '../../src/rpc/contract/codec.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { MessageChannelMain, StubWebContents } from '../support/electron.ts';

const { root } = protobufjs.parse(`
  syntax = "proto3";
  message Entry { string name = 1; int64 at = 2; repeated int32 sizes = 3; Entry inner = 4; bytes data = 5; }
`);
interface Entry {
  readonly name?: string;
  readonly at?: unknown;
  readonly sizes?: number[];
  readonly inner?: Entry | null;
  readonly data?: Uint8Array;
}
const entry = protobuf<Entry>(root.lookupType('Entry') as never);

/** A codec whose values are of a class, with plain data for pages, and without. */
class Point {
  readonly x: number;

  constructor(x: number) {
    this.x = x;
  }
}
const points: Codec<Point> = {
  name: 'point',
  encode: ({ x }) => String(x),
  decode: (bytes) => new Point(Number(Buffer.from(bytes).toString())),
};
const plainPoints: Codec<Point> = { ...points, plain: ({ x }) => ({ x }) };

const Odd = service('Odd', {
  entry: unary<Entry, Entry>({ request: entry, response: entry }),
  entries: serverStream<Entry, Entry>({ request: entry, response: entry }),
  point: unary<number, Point>({ response: points }),
  plainPoint: unary<number, Point>({ response: plainPoints }),
});

async function withPage(
  run: (client: Awaited<ReturnType<typeof connect>>) => Promise<void>,
): Promise<void> {
  const contents = new StubWebContents();
  const pair = createSessionPair();
  pair.far.serve(Odd, {
    entry: (request) => request,
    async *entries(request) {
      yield request;
    },
    point: (x) => new Point(x),
    plainPoint: (x) => new Point(x),
  });
  const exposure = exposeToRenderer(contents, pair.near, { MessageChannelMain, allow: [Odd] });
  const page = contents.navigate();
  await run(await connect(page));
  exposure.close();
  await pair.close();
}

async function connect(page: ReturnType<StubWebContents['navigate']>) {
  const connection = await page.run(() => connectMain({ timeoutMs: 60_000 }));
  return connection.client(Odd);
}

describe('a page', () => {
  const whole = { name: '', at: 0, sizes: [], inner: null, data: [] };

  it('sees the defaults of protobuf, and 64-bit numbers as numbers', () =>
    withPage(async (client) => {
      const empty = (await client.entry({})) as Entry;
      expect({ ...empty, data: [...(empty.data ?? [])] }).toEqual(whole);
      const full = (await client.entry({
        name: 'x',
        at: 2 ** 40,
        sizes: [1, 2],
        inner: { at: -5 },
        data: new Uint8Array([7]),
      })) as Entry;
      expect(full).toMatchObject({
        name: 'x',
        at: 2 ** 40,
        sizes: [1, 2],
        inner: { at: -5, name: '' },
      });
      expect(full.data).toEqual(new Uint8Array([7]));
      for await (const each of client.entries({ at: 3 })) expect(each).toMatchObject({ at: 3 });
    }));

  it('is told of a 64-bit number that no number holds', () =>
    withPage(async (client) => {
      const request = { at: { low: -1, high: 0x7fff_ffff, unsigned: false } };
      await expect(client.entry(request)).rejects.toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    }));

  it('is told of values of a class, unless their codec says what they are as plain data', () =>
    withPage(async (client) => {
      expect(await client.plainPoint(7)).toEqual({ x: 7 });
      await expect(client.point(7)).rejects.toMatchObject({
        code: 'ERR_SIDECALL_ENCODE',
        message: expect.stringContaining('Point'),
      });
    }));
});
