// The contract of `npx sidecall gen proto/store.proto --out gen`.
import Long from 'long';
import { createSessionPair } from 'sidecall/testing';
import { root, Store } from './gen/store_sidecall.js';

const { Color } = root.acme.v1;
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
const id = Long.fromString('9223372036854775807');
await store.put({ name: 'apple', id, color: Color.COLOR_RED, picture: Buffer.from('png') });
await store.put({ name: 'sky' });
for await (const item of store.find({ color: Color.COLOR_RED })) {
  console.log(`${item.name} ${item.id} ${Color[item.color]} ${item.picture.length} bytes`);
}
await close();
