// The memory that a call takes: bytes of JavaScript's heap at the caller, and blocks of the C
// library at both sides (goal P10). The client's young generation holds all of it, so that no
// collection runs meanwhile.
import { PerformanceObserver } from 'node:perf_hooks';
import { measured, objectOf, payloadOf } from '../rows.mjs';
import { borrowedCall } from './echo.mjs';

const inFlight = 16;

export const allocs = {
  name: 'allocs',
  about:
    'memory per call (10,000 calls): bytes of heap at the caller, blocks of the C library at the caller and at the server; mallocs of both sides in Go',
  peers: ['sidecall', 'net', 'child_process-advanced', 'golib-uds', 'grpc-go-uds'],
  codecs: ['bytes', 'borrowed', 'json', 'protobuf'],
  nodeOptions: ['--max-semi-space-size=512', '--min-semi-space-size=512', '--expose-gc'],
  countsBlocks: true,

  cells: ({ codecs, requests, seconds }) =>
    codecs.flatMap((codec) =>
      (codec === 'borrowed' ? [1_024, 1_024_000] : [1_024]).map((size) => ({
        codec,
        size,
        inFlight,
        requests: requests ?? (seconds < 0.5 ? 500 : 10_000),
      })),
    ),

  takes: (peer, { codec }) => codec === 'bytes' || peer === 'sidecall',

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const value = objectOf(cell.size);
    const { requests: calls } = cell;
    const byCodec = {
      bytes: () => peer.echo(payload),
      borrowed: borrowedCall(peer, cell.size),
      json: () => peer.echoJson(value),
      protobuf: () => peer.echoProtobuf(value),
    };
    const call = byCodec[cell.codec];
    // Warm-up: the compiler has done with the code after it, and takes no blocks any more.
    await repeat(call, Math.min(20 * calls, cell.size > 100_000 ? 10_000 : 200_000));
    let collections = 0;
    const observer = new PerformanceObserver((list) => {
      collections += list.getEntries().length;
    });
    observer.observe({ entryTypes: ['gc'] });
    globalThis.gc();
    // A full collection drops compiled code, too. It is compiled again before the count begins.
    await repeat(call, Math.min(4 * calls, cell.size > 100_000 ? 5_000 : 40_000));
    await new Promise((resolve) => setTimeout(resolve, 100));
    collections = 0;
    const before = process.memoryUsage();
    const blocksBefore = peer.blocks();
    const row = await measured(peer, cell, async () => {
      await repeat(call, calls);
      return { calls, errors: 0, latencies: new Float64Array(1) };
    });
    const blocks = peer.blocks();
    const after = process.memoryUsage();
    await new Promise((resolve) => setTimeout(resolve, 100));
    observer.disconnect();
    return {
      ...row,
      heapBytesPerCall: (after.heapUsed - before.heapUsed) / calls,
      externalBytesPerCall: (after.arrayBuffers - before.arrayBuffers) / calls,
      nativeBlocksPerCall: (blocks.own - blocksBefore.own) / calls,
      nativeBlocksPerCallOfServer: (blocks.server - blocksBefore.server) / calls,
      collections,
    };
  },
};

async function repeat(call, total) {
  let begun = 0;
  const caller = async () => {
    while (begun < total) {
      begun += 1;
      await call();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
}
