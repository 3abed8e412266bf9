// Protobuf services and messages over every lane, by static modules and by reflection.
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { protobuf, protobufService } from '../../src/adapters/protobuf.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { collect, turns } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { demo } from '../support/proto/demo.js';

const Indexer = protobufService(demo.Indexer, demo);
const root = await protobufjs.load(
  new URL('../support/proto/demo.proto', import.meta.url).pathname,
);

const handlers: Handlers<typeof Indexer.methods> = {
  addOne: ({ number, text, data }) => ({ number: number + 1, text, data }),
  async *listAll({ number }) {
    for (let at = 0; at < number; at += 1) yield { number: at };
  },
  async upload(pieces) {
    let number = 0;
    for await (const { data } of pieces) number += data.byteLength;
    return { number };
  },
  async *chat(words) {
    for await (const { text, number } of words) yield { text: `${text}!`, number: number + 1 };
  },
};

describe.each(lanes)("protobuf over the '$lane'", ({ openPair }) => {
  it('a static service has all four kinds, under the names of gRPC', async () => {
    await using pair = await openPair();
    pair.far.serve(Indexer, handlers);
    const indexer = pair.near.client(Indexer);
    const answer = await indexer.addOne({
      number: 41,
      text: 'ä€𝄞',
      data: new Uint8Array([1, 2, 3]),
    });
    expect(answer).toBeInstanceOf(demo.A);
    expect(answer.number).toBe(42);
    expect(answer.text).toBe('ä€𝄞');
    expect([...answer.data]).toEqual([1, 2, 3]);
    expect((await collect(indexer.listAll({ number: 4 }))).map(({ number }) => number)).toEqual([
      0, 1, 2, 3,
    ]);
    expect(
      (await indexer.upload([{ data: new Uint8Array(5) }, { data: new Uint8Array(7) }])).number,
    ).toBe(12);
    const chat = indexer.chat();
    await chat.send({ text: 'hi', number: 1 });
    expect((await chat.next()).value?.text).toBe('hi!');
    await chat.end();
    expect(await collect(chat)).toEqual([]);
    expect(Indexer.wireName('listAll')).toBe('demo.Indexer/list_all');
  });

  it('10,000 messages pipelined are answered in order, then the end', async () => {
    await using pair = await openPair();
    pair.far.serve(Indexer, handlers);
    const numbers = Array.from({ length: 10_000 }, (_, number) => ({ number, text: 'x' }));
    const answers = await collect(pair.near.client(Indexer).chat(numbers));
    expect(answers.map(({ number }) => number)).toEqual(numbers.map(({ number }) => number + 1));
  });

  it('a service of reflection speaks to a static one', async () => {
    await using pair = await openPair();
    pair.far.serve(Indexer, handlers);
    const reflected = protobufService(root.lookupService('demo.Indexer'));
    const indexer = pair.near.client(reflected);
    const answer = await indexer.addOne?.({ number: 1, data: Buffer.from('abc') });
    expect(answer.number).toBe(2);
    expect(Buffer.from(answer.data).toString()).toBe('abc');
    const listed: { number: number }[] = await collect(indexer.listAll?.({ number: 2 }));
    expect(listed.map(({ number }) => number)).toEqual([0, 1]);
    expect(reflected.wireName('addOne')).toBe('demo.Indexer/AddOne');
    expect(JSON.stringify(reflected.descriptor?.())).toContain('AddOne');
  });

  it('bytes that were decoded never change, whatever arrives later', async () => {
    await using pair = await openPair();
    const kept: Uint8Array[] = [];
    pair.far.serve(Indexer, {
      ...handlers,
      addOne: ({ data }) => {
        kept.push(data);
        return { data };
      },
    });
    const indexer = pair.near.client(Indexer);
    const answers: demo.A[] = [];
    for (let at = 0; at < 40; at += 1) {
      answers.push(
        await indexer.addOne({ data: new Uint8Array(at % 2 === 0 ? 100 : 200_000).fill(at) }),
      );
    }
    await turns(5);
    for (const list of [kept, answers.map(({ data }) => data)]) {
      list.forEach((data, at) => {
        expect(data.every((byte) => byte === at)).toBe(true);
      });
    }
  });

  it('as a codec for service() and for channels', async () => {
    await using pair = await openPair();
    const Mixed = service('Mixed', {
      ask: unary({ request: protobuf(demo.Q), response: protobuf(demo.A) }),
    });
    pair.far.serve(Mixed, { ask: ({ text }) => ({ text: text.toUpperCase() }) });
    expect((await pair.near.client(Mixed).ask({ text: 'a' })).text).toBe('A');
    const accepted = pair.far.channels(protobuf(demo.Q), { name: 'q' });
    const channel = pair.near.openChannel(protobuf(demo.Q), { name: 'q' });
    await channel.send(demo.Q.create({ number: 3 }));
    const { value: other } = await accepted.next();
    expect((await other?.next())?.value?.number).toBe(3);
    await Promise.all([channel.end(), other?.end()]);
    await accepted.return?.();
  });

  it('what cannot be decoded, or is nested too deep, is invalid_argument', async () => {
    await using pair = await openPair();
    pair.far.serve(Indexer, handlers);
    const { bytes } = await import('../../src/rpc/contract/codec.ts');
    const raw = service('demo.Indexer', { AddOne: unary({ request: bytes, response: bytes }) });
    const renamed = { ...raw, wireName: () => 'demo.Indexer/AddOne' };
    const indexer = pair.near.client(renamed);
    await expect(indexer.AddOne(Buffer.from([0x0a, 0xff, 0xff]))).rejects.toMatchObject({
      status: 'invalid_argument',
    });
    let deep = Buffer.alloc(0);
    for (let depth = 0; depth < 150; depth += 1) {
      const head = [0x22, ...varint(deep.byteLength)];
      deep = Buffer.concat([Buffer.from(head), deep]);
    }
    await expect(indexer.AddOne(deep)).rejects.toMatchObject({ status: 'invalid_argument' });
    expect((await pair.near.client(Indexer).addOne({ number: 1 })).number).toBe(2);
  });
});

describe('protobufService()', () => {
  it('reaches two methods whose members would be one, or names both', () => {
    const parsed = (methods: string) => {
      const text = `syntax = "proto3"; package p; message M {} service S { ${methods} }`;
      return protobufService(protobufjs.parse(text).root.lookupService('p.S'));
    };
    const { methods, wireName } = parsed('rpc GetX(M) returns (M); rpc get_x(M) returns (M);');
    expect(Object.keys(methods).map((name) => wireName(name))).toEqual(['p.S/GetX', 'p.S/get_x']);
    expect(Object.keys(methods)).toEqual(['getX', 'get_x']);
    expect(() => parsed('rpc Get(M) returns (M); rpc get(M) returns (M);')).toThrow(
      "p.S/get and p.S/Get are one member, 'get'",
    );
  });

  it('says what is wrong with what it was given', () => {
    expect(() => protobufService({} as never)).toThrow('needs a service of protobufjs');
    expect(() => protobufService(class Empty {}, demo)).toThrow('found no methods');
    expect(() => protobufService(demo.Indexer, {})).toThrow("no message type 'Q'");
    expect(() => protobuf({} as never)).toThrow('needs a message type');
  });
});

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

describe('another copy of protobufjs in the tree', () => {
  it('reads and writes as ours does, and its bytes are its own', async () => {
    const { root } = fileURLToPath(import.meta.resolve('protobufjs')).match(
      /^(?<root>.*protobufjs)\//,
    )?.groups as { root: string };
    const copy = join(mkdtempSync(join(tmpdir(), 'copy-')), 'protobufjs');
    cpSync(root, copy, { recursive: true });
    const modules = dirname(root);
    symlinkSync(join(modules, 'long'), join(dirname(copy), 'long'));
    const other = createRequire(import.meta.url)(copy) as typeof protobufjs;
    expect(other.Reader).not.toBe(protobufjs.Reader);
    const type = new other.Type('Note')
      .add(new other.Field('text', 1, 'string'))
      .add(new other.Field('raw', 2, 'bytes'));
    const codec = protobuf<Record<string, unknown>>(type as never);
    const encoded = Buffer.from(
      codec.encode({ text: 'é', raw: Buffer.from([1, 2]) }) as Uint8Array,
    );
    const decoded = codec.decode(encoded, false);
    encoded.fill(0);
    expect(decoded).toMatchObject({ text: 'é', raw: Buffer.from([1, 2]) });
    rmSync(dirname(copy), { recursive: true });
  });
});

describe('memory that the encoder uses again', () => {
  it('is copied where a message waits: for a slot, for the window, for the transport', async () => {
    const { openLoopback } = await import('../support/pairs.ts');
    await using pair = openLoopback({
      near: { streamWindowBytes: 16_384 },
      far: { streamsMax: 3, streamWindowBytes: 16_384 },
    });
    pair.far.serve(Indexer, {
      ...handlers,
      addOne: async ({ number, data }) => {
        await turns(1);
        return { number, data };
      },
    });
    const indexer = pair.near.client(Indexer);
    const size = (at: number): number => (at % 7 === 0 ? 90_000 : 3000);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, at) =>
        indexer.addOne({ number: at, data: new Uint8Array(size(at)).fill(at) }),
      ),
    );
    answers.forEach(({ number, data }, at) => {
      expect(number).toBe(at);
      expect(data).toHaveLength(size(at));
      expect(data.every((byte) => byte === at)).toBe(true);
    });
    const call = indexer.upload();
    const sends = Array.from({ length: 60 }, (_, at) =>
      call.send({ number: at, data: new Uint8Array(size(at)) }),
    );
    const sum = sends.reduce((total, _send, at) => total + size(at), 0);
    expect((await call.end()).number).toBe(sum);
    const words = Array.from({ length: 2000 }, (_, at) => ({ number: at, text: `word ${at}` }));
    const said = await collect(indexer.chat(words));
    expect(said.map(({ text }) => text)).toEqual(words.map(({ text }) => `${text}!`));
  });

  it('is not kept where a message was long, and survives one that cannot be encoded', () => {
    const codec = protobuf(demo.Q);
    const long = codec.encode({ data: new Uint8Array(100_000) }) as Uint8Array;
    const first = Buffer.from(codec.encode({ number: 1, text: 'a' }) as Uint8Array);
    expect(long.byteLength).toBeGreaterThan(100_000);
    const broken = {
      number: 2,
      inner: {
        get number(): number {
          throw new Error('a getter');
        },
      },
    };
    expect(() => codec.encode(broken)).toThrow('a getter');
    const nested = {
      get text(): string {
        return Buffer.from(codec.encode({ number: 1, text: 'a' }) as Uint8Array).toString('hex');
      },
    };
    const outer = codec.decode(codec.encode(nested) as Uint8Array, true);
    expect(outer.text).toBe(first.toString('hex'));
    expect(Buffer.from(codec.encode({ number: 1, text: 'a' }) as Uint8Array)).toEqual(first);
  });
});
