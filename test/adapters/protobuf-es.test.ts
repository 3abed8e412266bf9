// Contracts from the descriptors of protobuf-es and of ts-proto, on sessions.
import { describe, expect, it } from 'vitest';
import * as es from '../../src/adapters/protobuf-es.ts';
import * as tsProto from '../../src/adapters/ts-proto.ts';
import type { Handlers, Methods, Service } from '../../src/rpc/contract/method-types.ts';
import { ReflectionService } from '../../src/rpc/serving/reflection.ts';
import { createSessionPair, type SessionPair } from '../../src/testing/session-pair.ts';
import { StoreDefinition, Item as TsItem } from '../support/proto/store.ts';
import { ItemSchema, Store as StoreDescriptor } from '../support/proto/store_pb.js';

const EsStore = es.protobufService(StoreDescriptor);
const TsStore = tsProto.protobufService(StoreDefinition);

function served<M extends Methods>(service: Service<M>, handlers: Handlers<M>): SessionPair {
  const pair = createSessionPair();
  pair.far.serve(service, handlers);
  return pair;
}

describe.each([
  ['protobuf-es', EsStore as unknown as typeof TsStore],
  ['ts-proto', TsStore],
])('a contract of %s', (_, Store) => {
  it('has the names of gRPC, bigint, and bytes of its own', async () => {
    const pictures: Uint8Array[] = [];
    await using pair = served(Store, {
      put: (item) => {
        pictures.push(item.picture);
        return item;
      },
      async *find({ color }) {
        for (let at = 0; at < 3; at += 1) yield { name: `item ${at}`, color };
      },
    });
    expect(Store.wireName('put')).toBe('acme.v1.Store/Put');
    const store = pair.near.client(Store);
    const picture = Buffer.alloc(100_000, 7);
    const answer = await store.put({ name: 'a', id: 2n ** 63n - 1n, picture });
    expect(answer).toMatchObject({ name: 'a', id: 2n ** 63n - 1n, color: 0 });
    await store.put({ picture: Buffer.alloc(100_000, 9) });
    expect(Buffer.from(pictures[0] as Uint8Array).equals(picture)).toBe(true);
    const names: string[] = [];
    for await (const { name, color } of store.find({ color: 1 })) names.push(`${name} ${color}`);
    expect(names).toEqual(['item 0 1', 'item 1 1', 'item 2 1']);
  });

  it('refuses what the message cannot hold, and bytes that are none, in that call alone', async () => {
    await using pair = served(Store, {
      put: (item) => item,
      async *find() {},
    });
    const store = pair.near.client(Store);
    await expect(store.put({ id: 2n ** 70n })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
      delivered: 'no',
    });
    const { methods } = Store;
    expect(() => methods.put.request.decode(Buffer.from([0x0a, 0xff]), false)).toThrow();
    expect((await store.put({ name: 'b' })).name).toBe('b');
  });
});

describe('sidecall/protobuf-es', () => {
  it('hands its files to tools of our own user', async () => {
    await using pair = served(EsStore, { put: (item) => item, async *find() {} });
    const { services } = await pair.near.client(ReflectionService).list();
    expect(services[0]?.methods.map(({ name }) => name)).toEqual([
      'acme.v1.Store/Put',
      'acme.v1.Store/Find',
    ]);
    expect(services[0]?.descriptor).toEqual({ files: [expect.any(String)] });
  });

  it('gives a codec for one message', () => {
    const codec = es.protobuf(ItemSchema);
    const bytes = codec.encode({ name: 'x' }) as Uint8Array;
    expect(codec.decode(bytes, true).name).toBe('x');
  });

  it('refuses what is no descriptor of version 2', () => {
    expect(() => es.protobufService({ typeName: 'acme.v1.Store', methods: {} } as never)).toThrow(
      'protobuf-es 2',
    );
    expect(() => es.protobuf(undefined as never)).toThrow(TypeError);
  });
});

describe('sidecall/ts-proto', () => {
  it('gives a codec for one message', () => {
    const codec = tsProto.protobuf(TsItem);
    const bytes = codec.encode({ name: 'x' }) as Uint8Array;
    expect(codec.decode(bytes, true).name).toBe('x');
  });

  it('refuses what is no generic definition', () => {
    expect(() => tsProto.protobufService({} as never)).toThrow('generic-definitions');
    expect(() => tsProto.protobuf({} as never)).toThrow(TypeError);
  });
});
