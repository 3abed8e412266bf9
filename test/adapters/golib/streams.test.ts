// The streams of golib between two ends of ours, and peers that break them.
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../src/adapters/golib/chunk-framing.ts';
import { chunkStream, protoStream } from '../../../src/adapters/golib/main.ts';
import { connect } from '../../../src/rendezvous/connect.ts';
import { listen } from '../../../src/rendezvous/listen.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { json } from '../../../src/rpc/contract/json.ts';

const x = Buffer.from('x');

describe("the bytes of golib's streams", () => {
  it.each([
    ['json', '1e7b2254657874223a226920616d227d', { Text: 'i am' }],
    ['proto', '06010801', Buffer.from([8, 1])],
    ['proto', '0e01080112026162', Buffer.from('0801120261 62'.replace(' ', ''), 'hex')],
    ['proto', '180108ffffffffffffffffff01', Buffer.from('08ffffffffffffffffff01', 'hex')],
    ['proto', '0201', Buffer.alloc(0)],
  ])('of a %s stream: %s', async (kind, hex, message) => {
    await using listener = await listen({ protocol: 'plain' });
    const socket = await connect({ path: listener.path, protocol: 'plain' });
    const heard: Buffer[] = [];
    socket.on('data', (chunk) => heard.push(chunk));
    socket.write(Buffer.from(hex, 'hex'));
    for await (const connection of listener) {
      const stream =
        kind === 'json' ? chunkStream(connection, json()) : protoStream(connection, bytes);
      const { value } = await stream[Symbol.asyncIterator]().next();
      if (kind === 'json') expect(value).toEqual(message);
      else expect(Buffer.from(value as Uint8Array)).toEqual(message);
      await stream.send(message as never);
      while (Buffer.concat(heard).byteLength < hex.length / 2) await once(socket, 'data');
      expect(Buffer.concat(heard).toString('hex')).toBe(hex);
      stream.destroy();
      break;
    }
    socket.destroy();
  });

  it('an end and its answer are one byte each', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const socket = await connect({ path: listener.path, protocol: 'plain' });
    const heard: Buffer[] = [];
    socket.on('data', (chunk) => heard.push(chunk));
    socket.write(Buffer.from('0202', 'hex')); // its end
    for await (const connection of listener) {
      const stream = protoStream(connection, bytes);
      const ended = stream.end();
      while (Buffer.concat(heard).byteLength < 4) await once(socket, 'data');
      expect(Buffer.concat(heard).toString('hex').match(/..../g)?.sort()).toEqual(['0202', '0203']);
      socket.write(Buffer.from('0203', 'hex'));
      await ended;
      break;
    }
    socket.destroy();
  });

  it('an end in the middle of a frame is no clean end', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const socket = await connect({ path: listener.path, protocol: 'plain' });
    socket.resume().end(Buffer.from('06010801060108', 'hex'));
    for await (const connection of listener) {
      const got: unknown[] = [];
      const reading = (async () => {
        for await (const message of protoStream(connection, bytes)) got.push(message);
      })();
      await expect(reading).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      expect(got).toHaveLength(1);
      break;
    }
  });
});

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
