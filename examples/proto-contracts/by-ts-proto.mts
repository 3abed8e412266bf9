// The contract of a definition that ts-proto writes.
import { createSessionPair } from 'sidecall/testing';
import { protobufService } from 'sidecall/ts-proto';
import { Color, type Item, StoreDefinition } from './gen/store.js';

const Store = protobufService(StoreDefinition);
const items: Item[] = [];
const { near, far, close } = createSessionPair();
far.serve(Store, {
  put: (item) => {
    items.push(item);
    return item;
  },
  async *find({ color }) {
    yield* items.filter((item) => item.color === color);
  },
});

const store = near.client(Store);
const id = 9_223_372_036_854_775_807n;
await store.put({ name: 'apple', id, color: Color.COLOR_RED, picture: Buffer.from('png') });
await store.put({ name: 'sky' });
for await (const item of store.find({ color: Color.COLOR_RED })) {
  console.log(`${item.name} ${item.id} ${Color[item.color]} ${item.picture.length} bytes`);
}
await close();
