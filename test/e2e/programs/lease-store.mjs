// Stores into a lease in the peer's memory, through its writable view.
import { connect, leased, listen, service, unary } from '../../../dist/index.js';

const LeaseCalls = service('LeaseCalls', { take: unary({ request: leased, response: leased }) });
const options = { leases: 'in-place-trusted', blockAreaBytes: 1 << 20 };
const listener = await listen({ path: process.argv[2], ...options });
listener.serve(LeaseCalls, { take: (_lease, ctx) => ctx.allocate(5000) });
const session = await connect({ path: listener.path, ...options });
const lease = await session.client(LeaseCalls).take(session.allocate(5000));
console.log(JSON.stringify({ copied: lease.copied, byte: lease.bytes[4999] }));
lease.bytes[4999] = 1;
console.log(JSON.stringify({ stored: true }));
