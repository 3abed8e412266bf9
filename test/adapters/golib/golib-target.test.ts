// The errors of a Go program, whose wire names few kinds, as our client of golib reads them.
import { describe, expect, it } from 'vitest';
import { chunkStream, connectGolib } from '../../../src/adapters/golib/main.ts';
import { decodePayload, encodePayload, type Payload } from '../../../src/adapters/golib/payload.ts';
import { listen } from '../../../src/rendezvous/listen.ts';
import type { PlainConnection } from '../../../src/rendezvous/plain-listener.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';

const Go = service('go', { fail: unary({ request: bytes, response: bytes }) });

/** The outcome of a call that is answered by this payload. */
async function outcomeOf(answer: Partial<Payload>): Promise<unknown> {
  await using listener = await listen({ protocol: 'plain' });
  await using target = await connectGolib({ path: listener.path });
  const outcome = target
    .client(Go)
    .fail(Buffer.from('x'))
    .catch((error) => error);
  const { value: connection } = await listener[Symbol.asyncIterator]().next();
  const stream = chunkStream(connection as PlainConnection);
  const { value } = await stream[Symbol.asyncIterator]().next();
  const { id } = decodePayload(value as Uint8Array);
  await stream.send(encodePayload({ ...answer, id }));
  const settled = await outcome;
  stream.destroy();
  return settled;
}

describe('connectGolib()', () => {
  it.each([
    ['context deadline exceeded', 'deadline_exceeded'],
    ['read of a file: context deadline exceeded', 'deadline_exceeded'],
    ['context deadline exceeded, or not', 'unknown'],
    ['the context deadline exceeded', 'unknown'],
  ])('an error of a handler that says "%s" has the status %s', async (error, status) => {
    expect(await outcomeOf({ errorKind: 1, error })).toMatchObject({ status });
  });

  it.each([
    [2, 'deadline_exceeded'],
    [3, 'invalid_argument'],
    [4, 'internal'],
    [99, 'unknown'],
  ])('an error of kind %d has the status %s', async (errorKind, status) => {
    expect(await outcomeOf({ errorKind, error: 'some words' })).toMatchObject({
      status,
      message: expect.stringContaining('some words'),
    });
  });

  it('kind 0 is no error, with whatever text', async () => {
    const data = Buffer.from('an answer');
    const outcome = await outcomeOf({ data, errorKind: 0, error: 'some words' });
    expect(Buffer.from(outcome as Uint8Array).toString()).toBe('an answer');
  });
});
