// Compiled, never run: contracts of protobuf-es and of ts-proto have the types of their messages.
// Each @ts-expect-error is a test.
import { protobufService as esService } from '../../src/adapters/protobuf-es.ts';
import { protobufService as tsService } from '../../src/adapters/ts-proto.ts';
import type { Client, Handlers } from '../../src/index.ts';
import { StoreDefinition } from '../support/proto/store.ts';
import { Color, Store } from '../support/proto/store_pb.js';

const EsStore = esService(Store);
const TsStore = tsService(StoreDefinition);

export async function es(client: Client<typeof EsStore.methods>): Promise<bigint> {
  const item = await client.put({ name: 'x', id: 1n, color: Color.RED });
  // @ts-expect-error a number is no bigint
  await client.put({ id: 1 });
  // @ts-expect-error the message has no such field
  await client.put({ nam: 'x' });
  for await (const { name } of client.find({ color: Color.RED })) name.trim();
  // @ts-expect-error bytes are no text
  const text: string = item.picture;
  return text === '' ? 0n : item.id;
}

export async function ts(client: Client<typeof TsStore.methods>): Promise<bigint> {
  const item = await client.put({ name: 'x', id: 1n });
  // @ts-expect-error a number is no bigint
  await client.put({ id: 1 });
  // @ts-expect-error the message has no such field
  await client.put({ nam: 'x' });
  for await (const { name } of client.find({})) name.trim();
  return item.id;
}

export const handlers: Handlers<typeof EsStore.methods> = {
  put: ({ name }) => ({ name }),
  // @ts-expect-error a stream is needed
  find: () => ({ name: 'x' }),
};
