// Compiled, never run: what the types accept and refuse. Each @ts-expect-error is a test.

import { protobuf, protobufService } from '../../src/adapters/protobuf.ts';
import {
  bidi,
  bytes,
  type Client,
  clientStream,
  connect,
  type Handlers,
  json,
  notification,
  type Session,
  serverStream,
  service,
  unary,
  validated,
} from '../../src/index.ts';
import { demo } from '../support/proto/demo.js';

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
  // @ts-expect-error options in the place of a request
  await client.ping({ timeoutMs: 5 });
  await client.ping(undefined, { timeoutMs: 5 });
  // @ts-expect-error an option with a typing error
  await client.add({ path: 'a' }, { timeoutMS: 5 });
  // @ts-expect-error text where bytes are wanted
  await client.echo('text');
}

export const handlers: Handlers<Methods> = {
  add: async ({ path }, ctx) => {
    // No caller reaches a handler without a peer.
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
  session.peer.origin satisfies
    | 'kernel'
    | 'spawned'
    | 'parent'
    | 'path'
    | 'loopback'
    | 'tls'
    | 'secret';
  // @ts-expect-error the peer cannot be changed
  session.peer.uid = 0;
  // @ts-expect-error no such lane
  await connect({ path: 'x', lane: 'fast' });
}

const Flow = service('Flow', {
  list: serverStream<{ upTo: number }, { n: number }>(),
  ticks: serverStream<void, number>(),
  sum: clientStream<number, { sum: number }>(),
  chat: bidi<string, { text: string }>(),
});

export async function streams(client: Client<typeof Flow.methods>): Promise<void> {
  for await (const { n } of client.list({ upTo: 3 }, { windowBytes: 1 })) n satisfies number;
  for await (const tick of client.ticks()) tick satisfies number;
  (await client.sum([1, 2])).sum satisfies number;
  const sum = client.sum({ timeoutMs: 5 });
  await sum.send(1);
  (await sum.end()).sum satisfies number;
  const chat = client.chat();
  await chat.send('x');
  for await (const { text } of chat) text satisfies string;
  for await (const { text } of client.chat(['a'])) text satisfies string;
  // @ts-expect-error a request of the wrong type
  client.list({ upTo: '3' });
  // @ts-expect-error a message of the wrong type
  await sum.send('1');
  // @ts-expect-error messages of the wrong type
  await client.sum(['1']);
  // @ts-expect-error a message of the wrong type
  await chat.send(1);
  // @ts-expect-error a server stream is no promise of its messages
  (await client.list({ upTo: 3 })).n satisfies number;
}

export const flowHandlers: Handlers<typeof Flow.methods> = {
  async *list({ upTo }, ctx) {
    ctx.cancelledNow() satisfies boolean | undefined;
    ctx.peer.pid satisfies number | undefined;
    for (let n = 0; n < upTo; n += 1) yield { n };
  },
  ticks: () => [1, 2, 3],
  async sum(numbers, ctx) {
    ctx.peer.pid satisfies number | undefined;
    let sum = 0;
    for await (const number of numbers) sum += number;
    return { sum };
  },
  async *chat(texts, ctx) {
    ctx.peer.pid satisfies number | undefined;
    for await (const text of texts) yield { text };
  },
};

export const wrongStream: Handlers<typeof Flow.methods> = {
  ...flowHandlers,
  // @ts-expect-error messages of the wrong type
  async *ticks() {
    yield 'tick';
  },
};

export async function channels(session: Session): Promise<void> {
  const channel = session.openChannel(json<{ text: string }>(), { name: 'c' });
  await channel.send({ text: 'x' });
  for await (const { text } of channel) text satisfies string;
  for await (const other of session.channels(bytes, { name: 'b' })) {
    (await other.next()).value satisfies Uint8Array | undefined;
  }
  // @ts-expect-error a message of the wrong type
  await channel.send({ text: 1 });
  // @ts-expect-error the name is missing
  session.openChannel(bytes, {});
}

const Indexing = protobufService(demo.Indexer, demo);

export async function protobufs(client: Client<typeof Indexing.methods>): Promise<void> {
  (await client.addOne({ number: 1 })).number satisfies number;
  for await (const { text } of client.listAll({ number: 2 })) text satisfies string;
  (await client.upload([{ data: new Uint8Array(1) }])).number satisfies number;
  const chat = client.chat();
  await chat.send({ words: ['a'] });
  // @ts-expect-error a field of the wrong type
  await client.addOne({ number: '1' });
  // @ts-expect-error no such method
  client.add_one;
  const One = service('One', { ask: unary({ request: protobuf(demo.Q) }) });
  One.methods.ask.request.decode(new Uint8Array(0), true).text satisfies string;
}

const Age = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value: unknown) => ({ value: Number(value) }),
    types: undefined as { input: string; output: number } | undefined,
  },
} as const;

export async function schemas(session: Session): Promise<void> {
  const Checked = service('Checked', { set: unary({ request: validated<string, number>(Age) }) });
  await session.client(Checked).set('3');
  session.serve(Checked, { set: (age) => age satisfies number });
  // @ts-expect-error the schema takes a text
  await session.client(Checked).set(3);
}

// Types that JSON carries, and types that it does not.
interface Tree {
  readonly name: string;
  readonly children: readonly Tree[];
}
type Value = string | number | boolean | null | Value[] | { [name: string]: Value };

export const carried = service('Carried', {
  tree: unary<Tree, Value>(),
  bytes: unary<{ data: Uint8Array; more?: Buffer[] | undefined }, [number, 'x']>(),
  nothing: unary<void, undefined>(),
  anything: unary<unknown, unknown>(),
  sent: unary<{ at: string }, void, { at: Date }>(),
  own: unary<{ at: Date }, Map<string, bigint>>({ request: dates, response: maps }),
  half: unary<{ at: Date }, { words: number }>({ request: dates }),
  text: notification<{ line: string }>(),
});

declare const dates: import('../../src/index.ts').Codec<{ at: Date }>;
declare const maps: import('../../src/index.ts').Codec<Map<string, bigint>>;

export const notCarried = service('NotCarried', {
  // @ts-expect-error a Date arrives as a string
  date: unary<{ at: Date }, void>(),
  // @ts-expect-error a Date in the answer, somewhere
  dates: serverStream<void, { list: readonly { at?: Date | undefined }[] }>({ priority: 'bulk' }),
  // @ts-expect-error a Map becomes {}
  map: unary<{ byName: Map<string, number> }, void>(),
  // @ts-expect-error a bigint does not become anything
  bigint: clientStream<{ n: bigint }, void>(),
  // @ts-expect-error methods stay behind
  methods: bidi<{ f(): void }, string>(),
  // @ts-expect-error the answer has a codec, the request has none
  half: unary<{ at: Date }, Uint8Array>({ response: bytes }),
  // @ts-expect-error the request has a codec, the answer has none
  rest: unary<Uint8Array, { at: Date }>({ request: bytes }),
  // @ts-expect-error as above
  told: notification<{ at: Date }>(),
});

// @ts-expect-error a codec of what JSON does not carry
json<{ at: Date }>() satisfies import('../../src/index.ts').Codec<{ at: Date }>;

export async function letters(client: Client<typeof Flow.methods>): Promise<void> {
  // @ts-expect-error a text is no stream of its letters
  client.chat('abc');
}

export const lettersOut: Handlers<typeof Flow.methods> = {
  ...flowHandlers,
  // @ts-expect-error as above
  chat: () => 'abc',
};

export function partial(session: Session): void {
  session.serve(Indexer, { ping: () => undefined }, { partial: true });
  // @ts-expect-error handlers are missing
  session.serve(Indexer, { ping: () => undefined });
  // @ts-expect-error handlers are missing, and it says that none may be
  session.serve(Indexer, { ping: () => undefined }, { partial: false });
  // @ts-expect-error a handler of the wrong type
  session.serve(Indexer, { add: () => 'words' }, { partial: true });
}
