// Bytes that are spoilt on their way between golib's and gRPC's clients and servers of ours: each
// call settles with a typed error or its answer, and other connections are not disturbed.
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connectGolib, listenGolib } from '../../src/adapters/golib/main.ts';
import { grpcTarget, listenGrpc } from '../../src/adapters/grpc/main.ts';
import { SidecallError } from '../../src/base/errors.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { scratchDirectory } from '../support/programs.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

const Store = service('Store', { same: unary({ request: bytes, response: bytes }) });
const services = [implement(Store, { same: (message) => message })];
const count = rounds(400, 100);

type Same = (message: Uint8Array, options: { timeoutMs: number }) => Promise<Uint8Array>;

interface Wire {
  /** True: the bytes of servers are spoilt, too. */
  readonly spoilsAnswers: boolean;
  listen(): Promise<AsyncDisposable & { readonly path?: string | undefined }>;
  /** Calls `same` at the path, and closes. */
  use(path: string, calls: (same: Same) => Promise<void>): Promise<void>;
}

const wires: { readonly [name: string]: Wire } = {
  golib: {
    spoilsAnswers: true,
    listen: () => listenGolib({ services, frameTimeoutMs: 50 }),
    async use(path, calls) {
      const target = await connectGolib({ path, frameTimeoutMs: 50 });
      await calls(target.client(Store).same);
      await target.close({ deadlineMs: 0 });
    },
  },
  gRPC: {
    // As a client, grpc-js 1.14 keeps the descriptor of a connection whose server breaks HTTP/2.
    spoilsAnswers: false,
    listen: () => listenGrpc({ services }),
    async use(path, calls) {
      const target = grpcTarget(`unix:${path}`);
      await calls(target.client(Store).same);
      await target.close({ deadlineMs: 0 });
    },
  },
};

/** Passes bytes between a path and another one; `spoil` changes those of one direction. */
async function proxied(
  from: string,
  to: string,
  spoil: { readonly isAnswer: boolean; readonly how: (bytes: Buffer) => Buffer },
): Promise<AsyncDisposable> {
  const sockets = new Set<Socket>();
  const pass = (source: Socket, target: Socket, isSpoilt: boolean): void => {
    source.on('data', (chunk) => target.write(isSpoilt ? spoil.how(chunk) : chunk));
    source.on('end', () => target.end());
    source.on('error', () => target.destroy());
    source.on('close', () => target.destroy());
  };
  const server = createServer((near) => {
    const far = connectSocket(to);
    for (const socket of [near, far]) sockets.add(socket);
    pass(near, far, !spoil.isAnswer);
    pass(far, near, spoil.isAnswer);
  });
  await new Promise<void>((resolve) => server.listen(from, resolve));
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Spoils the bytes behind the first `at` of them, once. */
function corruption(random: Random): (bytes: Buffer) => Buffer {
  const kind = random.next(4);
  const value = random.next(256);
  let left = random.next(400);
  return (chunk) => {
    const at = left;
    left -= chunk.byteLength;
    if (at < 0 || left >= 0) return chunk;
    const [before, after] = [chunk.subarray(0, at), chunk.subarray(at)];
    if (kind === 0) return before; // the rest of the chunk is lost
    if (kind === 1) return Buffer.concat([before, after, after]);
    if (kind === 2) return Buffer.concat([before, Buffer.alloc(1 + (value % 16), value), after]);
    return Buffer.concat([before, Buffer.of(value), after.subarray(1)]);
  };
}

describe.each(Object.entries(wires))('the wire of %s', (_name, wire) => {
  it('spoilt bytes end in an answer or a typed error, and disturb no other connection', async () => {
    const random = Random.fromEnvironment();
    console.log(`spoilt bytes: SIDECALL_SEED=${random.seed}, ${count} rounds`);
    using scratch = scratchDirectory();
    await using listener = await wire.listen();
    const path = listener.path as string;
    const outcomes: Record<string, number> = {};
    await wire.use(path, async (canary) => {
      for (let round = 0; round < count; round += 1) {
        const between = scratch.file(`s${round}`);
        const spoil = {
          isAnswer: wire.spoilsAnswers && random.chance(50),
          how: corruption(random),
        };
        await using _proxy = await proxied(between, path, spoil);
        const size = random.next(200);
        await wire.use(between, async (same) => {
          const calls = Array.from({ length: 4 }, (_, at) =>
            same(Buffer.alloc(size, at), { timeoutMs: 300 }),
          );
          for (const result of await Promise.allSettled(calls)) {
            const error: unknown = result.status === 'rejected' ? result.reason : undefined;
            const outcome = error === undefined ? 'answered' : SidecallError.from(error).code;
            outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
            if (error !== undefined) expect(SidecallError.is(error)).toBe(true);
          }
        });
        expect(await canary(Buffer.of(round % 256), { timeoutMs: 60_000 })).toHaveLength(1);
      }
    });
    console.log(`spoilt bytes: ${JSON.stringify(outcomes)}`);
    expect(outcomes.answered).toBeGreaterThan(0);
    expect(Object.keys(outcomes).length).toBeGreaterThan(1);
  });
});
