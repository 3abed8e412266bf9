// The errors of a Go program, whose wire names few kinds, as our client of golib reads them.
import { describe, expect, it } from 'vitest';
import { chunkStream, connectGolib } from '../../../src/adapters/golib/main.ts';
import { decodePayload, encodePayload } from '../../../src/adapters/golib/payload.ts';
import { listen } from '../../../src/rendezvous/listen.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';

const Go = service('go', { fail: unary({ request: bytes, response: bytes }) });

describe('connectGolib()', () => {
  it.each([
    ['context deadline exceeded', 'deadline_exceeded'],
    ['read of a file: context deadline exceeded', 'deadline_exceeded'],
    ['context deadline exceeded, or not', 'unknown'],
    ['the context deadline exceeded', 'unknown'],
  ])('an error of a handler that says "%s" has the status %s', async (error, status) => {
    await using listener = await listen({ protocol: 'plain' });
    await using target = await connectGolib({ path: listener.path });
    const call = target.client(Go).fail(Buffer.from('x'));
    for await (const connection of listener) {
      const stream = chunkStream(connection);
      const { value } = await stream[Symbol.asyncIterator]().next();
      const { id } = decodePayload(value as Uint8Array);
      await stream.send(encodePayload({ id, errorKind: 1, error }));
      await expect(call).rejects.toMatchObject({ status });
      stream.destroy();
      break;
    }
  });

  it.each([
    [2, 'deadline_exceeded'],
    [3, 'invalid_argument'],
    [4, 'internal'],
    [99, 'unknown'],
  ])('an error of kind %d has the status %s', async (errorKind, status) => {
    await using listener = await listen({ protocol: 'plain' });
    await using target = await connectGolib({ path: listener.path });
    const call = target.client(Go).fail(Buffer.from('x'));
    for await (const connection of listener) {
      const stream = chunkStream(connection);
      const { value } = await stream[Symbol.asyncIterator]().next();
      const { id } = decodePayload(value as Uint8Array);
      await stream.send(encodePayload({ id, errorKind, error: 'some words' }));
      await expect(call).rejects.toMatchObject({
        status,
        message: expect.stringContaining('some words'),
      });
      stream.destroy();
      break;
    }
  });
});
