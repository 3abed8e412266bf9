// A service whose messages are leases, one method of each kind.
import { type Block, type Lease, leased } from '../../src/rpc/contract/leases.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';

type Out = Block | Uint8Array;
const both = { request: leased, response: leased };

export const LeaseCalls = service('LeaseCalls', {
  /** Answers with as many bytes, each one more. */
  raise: unary(both),
  take: unary<Lease, { sum: number; copied: boolean }, Out>({ request: leased }),
  drop: notification<Lease, Out>({ request: leased }),
  upload: clientStream<Lease, { sum: number }, Out>({ request: leased }),
  download: serverStream<
    { messages: number; bytes: number },
    Lease,
    { messages: number; bytes: number },
    Out
  >({ response: leased }),
  exchange: bidi(both),
});

/** The sum of all bytes, weighted by their index. */
export function sumOf(bytes: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    sum = (sum * 31 + (bytes[at] as number)) % 2_147_483_647;
  }
  return sum;
}

export function fill(bytes: Uint8Array, seed: number): number {
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = (seed + at * 7) & 0xff;
  return sumOf(bytes);
}

export type LeaseHandlers = Handlers<typeof LeaseCalls.methods>;

/** Handlers of LeaseCalls, in blocks where there are any; `overrides` replaces some. */
export function leaseHandlers(overrides: Partial<LeaseHandlers> = {}): LeaseHandlers {
  const raised = (lease: Lease, block: Block): Block => {
    for (let at = 0; at < lease.byteLength; at += 1) {
      block.bytes[at] = ((lease.bytes[at] as number) + 1) & 0xff;
    }
    return block;
  };
  return {
    raise: (lease, ctx) => raised(lease, ctx.allocate(lease.byteLength)),
    take: (lease) => ({ sum: sumOf(lease.bytes), copied: lease.copied }),
    drop: () => undefined,
    async upload(leases) {
      let sum = 0;
      for await (const lease of leases) {
        sum = (sum + sumOf(lease.bytes)) % 2_147_483_647;
        lease.release();
      }
      return { sum };
    },
    async *download({ messages, bytes }, ctx) {
      for (let at = 0; at < messages; at += 1) {
        const block = ctx.allocate(bytes);
        fill(block.bytes, at);
        yield block;
      }
    },
    async *exchange(leases, ctx) {
      for await (const lease of leases) {
        yield raised(lease, ctx.allocate(lease.byteLength));
        lease.release();
      }
    },
    ...overrides,
  };
}
