// The contract of a service that protoc-gen-es describes.
import { protobufService } from 'sidecall/protobuf-es';
import { createSessionPair } from 'sidecall/testing';
import { Color, Store as StoreDescriptor } from './gen/store_pb.js';

const Store = protobufService(StoreDescriptor);
const items = [];
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
await store.put({ name: 'apple', id, color: Color.RED, picture: Buffer.from('png') });
await store.put({ name: 'sky' });
for await (const item of store.find({ color: Color.RED })) {
  console.log(`${item.name} ${item.id} ${Color[item.color]} ${item.picture.length} bytes`);
}
await close();
