// A helper that listens, too.
import { listen, parent } from 'sidecall';
import { Sum } from './contract.mjs';

const handlers = {
  add: ({ a, b }, { peer }) => ({ sum: a + b, caller: peer.pid, origin: peer.origin }),
  async *to(most) {
    for (let at = 1; at <= most; at += 1) yield at;
  },
};
const session = await parent();
const listener = await listen({ path: process.argv[2] });
listener.serve(Sum, handlers);
session.serve(Sum, handlers);
// stop() sends it once the session is over: the socket file is ours to remove.
process.once('SIGTERM', async () => {
  await listener.close();
  process.exit();
});
