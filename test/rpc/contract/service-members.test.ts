// Methods as functions of a client: none is lost, and nothing else is taken for requests.
import { expect, it } from 'vitest';
import { clientStream, service, unary } from '../../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../../src/testing/session-pair.ts';

/** A variable, since a literal `then` looks like a promise. */
const named = 'then';

it('two methods that would be one function of a client are refused, by name', () => {
  expect(() => service('A', { [named]: unary(), then$: unary() })).toThrow(
    /then and then\$ would be one function/,
  );
  expect(Object.keys(service('B', { [named]: unary() }).methods)).toEqual(['then']);
});

it('a promise is no stream of requests, and no options', async () => {
  await using pair = createSessionPair();
  const Up = service('Up', { up: clientStream<number, number>() });
  pair.far.serve(Up, { up: async () => 1 });
  const { up } = pair.near.client(Up) as unknown as { up(requests: unknown): Promise<number> };
  await expect(up(Promise.resolve([1]))).rejects.toThrow(/got a promise/);
});
