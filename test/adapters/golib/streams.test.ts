// The streams of golib between two ends of ours, and peers that break them.
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../src/adapters/golib/chunk-framing.ts';
import { chunkStream, protoStream } from '../../../src/adapters/golib/main.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import { listen } from '../../../src/rendezvous/listen.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';

const x = Buffer.from('x');

describe('streams of golib between two of ours', () => {
  it('a message type out of order ends the stream, and tells why', async () => {
    await using listener = await listen({ protocol: 'plain' });
    for (const wrong of [[4], [0], [3], [2, 9]]) {
      const peer = await connect({ path: listener.path, protocol: 'plain' });
      peer.resume().write(encodeFrame(Buffer.from(wrong)));
      for await (const connection of listener) {
        const stream = protoStream(connection, bytes);
        const messages = stream[Symbol.asyncIterator]();
        await expect(messages.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
        break;
      }
      await once(peer, 'close');
    }
  });

  it.each([1, 2, 3])('both ends may end in any order, %s', async (order) => {
    await using listener = await listen({ protocol: 'plain' });
    const near = protoStream(await connect({ path: listener.path, protocol: 'plain' }), bytes);
    for await (const connection of listener) {
      const far = protoStream(connection, bytes, { closeLast: order === 3 });
      await near.send(x);
      await far.send(x);
      const all = async (stream: typeof near): Promise<number> => {
        let count = 0;
        for await (const _ of stream) count += 1;
        return count;
      };
      const counts = Promise.all([all(near), all(far)]);
      if (order === 1) await near.end();
      if (order === 2) await far.end();
      await Promise.all([near.end(), far.end()]);
      expect(await counts).toEqual([1, 1]);
      expect([await near.closed, await far.closed]).toEqual([undefined, undefined]);
      break;
    }
  });

  it('an end that a peer does not answer before it goes is told', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const peer = await connect({ path: listener.path, protocol: 'plain' });
    peer.resume().write(encodeFrame(Buffer.of(2))); // its own end
    for await (const connection of listener) {
      const stream = protoStream(connection, bytes);
      const ended = stream.end();
      peer.end();
      await expect(ended).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      break;
    }
  });

  it('short messages without pause leave turns of the event loop to others', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const peer = await connect({ path: listener.path, protocol: 'plain' });
    const count = 100_000;
    const one = encodeFrame(x);
    peer.end(Buffer.concat(Array.from({ length: count }, () => one)));
    for await (const connection of listener) {
      let turns = 0;
      let isOver = false;
      const turn = (): void => {
        turns += 1;
        if (!isOver) setImmediate(turn);
      };
      turn();
      let seen = 0;
      for await (const _ of chunkStream(connection)) seen += 1;
      isOver = true;
      expect(seen).toBe(count);
      expect(turns).toBeGreaterThan(count / 256);
      break;
    }
  });

  it('the time of a frame does not count while this process stands still', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const peer = await connect({ path: listener.path, protocol: 'plain' });
    const frame = encodeFrame(Buffer.from('a whole frame'));
    for await (const connection of listener) {
      const stream = chunkStream(connection, bytes, { frameTimeoutMs: 100 });
      const messages = stream[Symbol.asyncIterator]();
      const message = messages.next();
      peer.write(frame.subarray(0, 5));
      await new Promise((resolve) => setTimeout(resolve, 20));
      await new Promise((resolve) => setImmediate(resolve)); // timers are what comes next
      peer.write(frame.subarray(5));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
      expect(Buffer.from((await message).value).toString()).toBe('a whole frame');
      stream.destroy();
      break;
    }
  });

  it('an empty message and a send behind the end are refused', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const stream = chunkStream(await connect({ path: listener.path, protocol: 'plain' }));
    await expect(stream.send(Buffer.alloc(0))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
    });
    await stream.end();
    await expect(stream.send(x)).rejects.toMatchObject({ code: 'ERR_SIDECALL_END_OF_STREAM' });
    stream.destroy();
    expect(() => chunkStream({} as never)).toThrow(TypeError);
  });
});
