// Sessions that close amid a thousand reads and leases, again and again: for an addon that is built
// with AddressSanitizer, which SIDECALL_NATIVE names. Argument: rounds.
import { setImmediate as turn } from 'node:timers/promises';
import { bytes, connect, leased, listen, service, unary } from '../../../dist/index.js';

const rounds = Number(process.argv[2] ?? 1_000);
const Work = service('Work', {
  echo: unary({ request: bytes, response: bytes }),
  raise: unary({ request: leased, response: leased }),
});
const options = {
  lane: 'ring',
  ringBytes: 262_144,
  blockAreaBytes: 1_048_576,
  leases: 'in-place-trusted',
};
const listener = await listen(options);
listener.serve(Work, {
  echo: (payload) => payload,
  raise: (lease, ctx) => {
    const block = ctx.allocate(lease.byteLength);
    block.bytes.set(lease.bytes);
    return block;
  },
});
const accepted = listener[Symbol.asyncIterator]();
const ends = { answered: 0, cut: 0, leases: 0 };
for (let round = 0; round < rounds; round += 1) {
  const near = await connect({ path: listener.path, ...options });
  const { value: far } = await accepted.next();
  const client = near.client(Work);
  const leases = [];
  const calls = Array.from({ length: 1_000 }, async (_, at) => {
    if (at % 2 === 0) return void (await client.echo(Buffer.alloc(at * 7)));
    const block = near.allocate(1 + at * 5);
    block.bytes.fill(at);
    const lease = await client.raise(block);
    if (lease.bytes[0] !== (at & 0xff)) throw new Error('a wrong answer');
    leases.push(lease);
  });
  const settled = Promise.allSettled(calls);
  // The end comes at another moment each time, and from either side.
  for (let turns = 0; turns < round % 40; turns += 1) await turn();
  const closing = [near, far][round % 2].close({ deadlineMs: round % 3 === 0 ? 3 : 0 });
  for (const outcome of await settled) {
    if (outcome.status === 'fulfilled') ends.answered += 1;
    else if (outcome.reason?.code?.startsWith('ERR_SIDECALL_')) ends.cut += 1;
    else throw outcome.reason;
  }
  await closing;
  await Promise.all([near.closed, far.closed]);
  // The memory of a lease stays until it is released, whatever has become of its session.
  let sum = 0;
  for (const lease of leases) for (const byte of lease.bytes) sum += byte;
  if (Number.isNaN(sum)) throw new Error('unreadable leases');
  for (const lease of leases) lease.release();
  ends.leases += leases.length;
  if (round % 50 === 0) globalThis.gc?.();
}
await listener.close();
process.stdout.write(`${JSON.stringify({ rounds, ...ends })}\n`);
