// Both lanes in one process: calls, a stream, a long message, many calls at once, an end.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { bytes, connect, listen, serverStream, service, socketPath, unary } from 'sidecall';

const Desk = service('Desk', {
  double: unary(),
  same: unary({ request: bytes, response: bytes }),
  count: serverStream(),
});

for (const lane of ['ring', 'socket']) {
  const path = socketPath(`calls-${process.pid}-${lane}`);
  const listener = await listen({ path });
  listener.serve(Desk, {
    double: (value) => value * 2,
    same: (value) => value,
    async *count(end) {
      for (let at = 0; at < end; at += 1) yield at;
    },
  });
  const session = await connect({ path, lane });
  assert.equal(session.lane, lane);
  assert.equal(session.peer.pid, process.pid);
  const desk = session.client(Desk);
  for (let at = 0; at < 200; at += 1) assert.equal(await desk.double(at), 2 * at);
  await sleep(100); // a ring sleeps by then
  assert.equal(await desk.double(4), 8);
  let sum = 0;
  for await (const value of desk.count(1_000)) sum += value;
  assert.equal(sum, 499_500);
  const long = new Uint8Array(3_000_000).fill(7);
  assert.deepEqual(Buffer.from(await desk.same(long)), Buffer.from(long));
  const many = await Promise.all(Array.from({ length: 500 }, (_, at) => desk.double(at)));
  assert.equal(many.at(-1), 998);
  await session.close();
  await listener.close();
}
console.log('calls over both lanes');
