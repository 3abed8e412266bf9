// Compiled, never run: what the types accept and refuse. Each @ts-expect-error is a test.
import {
  bytes,
  type Client,
  connect,
  type Handlers,
  notification,
  service,
  unary,
} from '../../src/index.ts';

const Indexer = service('Indexer', {
  add: unary<{ path: string }, { words: number }>(),
  ping: unary<void, void>(),
  echo: unary({ request: bytes, response: bytes }),
  log: notification<{ line: string }>(),
});

type Methods = typeof Indexer.methods;

export async function calls(client: Client<Methods>): Promise<void> {
  const { words } = await client.add({ path: 'a' }, { timeoutMs: 5 });
  words satisfies number;
  (await client.echo(new Uint8Array(1))) satisfies Uint8Array;
  await client.ping();
  await client.log({ line: 'x' });
  // @ts-expect-error a request of the wrong type
  await client.add({ path: 1 });
  // @ts-expect-error a request left out
  await client.add();
  // @ts-expect-error a method that is not in the contract
  await client.remove({ path: 'a' });
  // @ts-expect-error an option with a typing error
  await client.add({ path: 'a' }, { timeoutMS: 5 });
  // @ts-expect-error text where bytes are wanted
  await client.echo('text');
}

export const handlers: Handlers<Methods> = {
  add: async ({ path }, ctx) => {
    // U6: nobody reaches a handler without a peer.
    ctx.peer.uid satisfies number | undefined;
    ctx.deadline satisfies number | undefined;
    return { words: path.length };
  },
  ping: () => undefined,
  echo: (payload) => payload,
  log: ({ line }) => void line,
};

export const wrong: Handlers<Methods> = {
  ...handlers,
  // @ts-expect-error an answer of the wrong type
  add: () => ({ words: 'many' }),
};

// @ts-expect-error a handler is missing
export const missing: Handlers<Methods> = { add: handlers.add };

export async function serving(): Promise<void> {
  await using session = await connect({ path: 'x', expect: { uid: 0, modes: ['0600'] } });
  session.serve(Indexer, handlers);
  session.peer.origin satisfies 'kernel' | 'spawned' | 'parent' | 'path' | 'loopback';
  // @ts-expect-error the peer cannot be changed
  session.peer.uid = 0;
  // @ts-expect-error no such lane
  await connect({ path: 'x', lane: 'fast' });
}
