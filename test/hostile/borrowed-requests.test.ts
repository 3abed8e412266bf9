// A peer that reads no answers, and requests in bytes: nothing holds the memory of those that are
// borrowed, nor of those whose answer is a small part of them.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { bytes, type Codec } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { turns } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const MiB = 1024 * 1024;
const storeOf = (request: Codec<Uint8Array>) =>
  service('Store', {
    length: unary({ request, response: bytes }),
    same: unary({ request, response: bytes }),
  });
const attacker = new URL('attackers/unread_requests.py', import.meta.url).pathname;

const firstOf = (request: Uint8Array): Uint8Array => request.subarray(0, 1);

async function usedBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    await turns(5);
    globalThis.gc?.();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe('a peer that reads no answers', () => {
  it.each([
    ['borrowed', 'of their own', bytes.borrowed, () => new Uint8Array(1)],
    ['borrowed', 'in the request', bytes.borrowed, firstOf],
    ['plain', 'in the request', bytes, firstOf],
  ])('does not hold the memory of its %s requests, with answers %s', async (...row) => {
    const [, , request, length] = row;
    const Store = storeOf(request);
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using listener = await listen({ path });
    let long = 0;
    listener.serve(Store, {
      length: (message) => {
        if (message.length > 1) long += 1;
        return length(message);
      },
      same: (message) => message,
    });
    await using session = await connect({ path });
    const before = await usedBytes();
    const few = rounds(1_000, 300);
    const args = [attacker, path, '24000', String(few), String(MiB)];
    await using peer = startProgram('', args, { command: 'python3' });
    const said = (await peer.next()) as { sent: number };
    expect(said).toEqual({ sent: 24_000 + few, ended: '' });
    expect(long).toBe(few);
    // The pool keeps 64 MiB at most, and the session its answers and its queue.
    expect((await usedBytes()) - before).toBeLessThan(100 * MiB);
    // An honest peer is served meanwhile, by requests and answers of many mebibytes.
    const message = Buffer.alloc(3 * MiB, 'honest');
    for (let call = 0; call < 20; call += 1) {
      const answer = await session.client(Store).same(message);
      expect(Buffer.compare(answer, message)).toBe(0);
    }
  });
});
