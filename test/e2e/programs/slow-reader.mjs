// Sends 2,000 messages of 1 kB and one of 16 MiB through a ring of 64 KiB to a slow reader.
import { bytes, connect, listen, notification, service } from '../../../dist/index.js';
import { say } from './demo.mjs';

const options = { path: process.argv[2], ringBytes: 65_536, lane: 'ring' };
const limits = { receiveMaxBytes: 17 * 1024 * 1024 };
const Feed = service('Feed', { item: notification({ request: bytes }) });
const expected = (at) => Buffer.alloc(at === 1_000 ? 16 * 1024 * 1024 : 1_024, at % 251);

let seen = 0;
let wrong = 0;
let resolve;
const all = new Promise((done) => {
  resolve = done;
});
const listener = await listen({ ...options, limits });
listener.serve(Feed, {
  item: async (item) => {
    const at = seen++;
    if (Buffer.compare(item, expected(at)) !== 0) wrong += 1;
    if (at % 100 === 0) await new Promise((done) => setTimeout(done, 5));
    if (at === 2_000) resolve();
  },
});
const session = await connect({ ...options, limits });
const { item } = session.client(Feed);
await Promise.all(Array.from({ length: 2_001 }, (_, at) => item(expected(at))));
await all;
say({ lane: session.lane, seen, wrong });
await session.close();
await listener.close();
