// Leases are bytes to be read: this file compiles, and each line marked so does not.
import { createHash } from 'node:crypto';
import { type Block, type Lease, leased, type Session, service, unary } from '../../src/index.ts';

declare const lease: Lease;
declare const session: Session;

createHash('sha256').update(lease.bytes);
Buffer.from(lease.bytes);
new Uint8Array(10).set(lease.bytes);
const first: number | undefined = lease.bytes[0];

// @ts-expect-error: elements are read-only
lease.bytes[0] = 1;
// @ts-expect-error: storing methods are not callable
lease.bytes.fill(0);
// @ts-expect-error: storing methods are not callable
lease.bytes.set([1]);

const LeaseCalls = service('LeaseCalls', { take: unary({ request: leased, response: leased }) });
const block: Block = session.allocate(10);
const answer: Promise<Lease> = session.client(LeaseCalls).take(block);
const other: Promise<Lease> = session.client(LeaseCalls).take(new Uint8Array(3));
// @ts-expect-error: a lease is not sent, its bytes are
session.client(LeaseCalls).take(lease);
session.serve(LeaseCalls, { take: (request, ctx) => ctx.allocate(request.keep().byteLength) });
// @ts-expect-error: no bytes
session.serve(LeaseCalls, { take: () => 'words' });

export { answer, first, other };
