// The handlers of simulated programs, and what they do with channels that they accept.
import { RpcError } from '../../src/base/errors.ts';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import type { SessionDuplex } from '../../src/rpc/channels/duplex.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Lease } from '../../src/rpc/contract/leases.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import {
  type Counted,
  countOf,
  messageOf,
  readMessage,
  same,
  sameMessage,
  type Wanted,
} from './contract.ts';
import type { SimulatedProgram } from './program.ts';

/** Handlers of `Program`. */
export function handlersOf(program: SimulatedProgram) {
  const answer = async (request: Wanted, ctx: CallContext): Promise<Uint8Array> => {
    const { id, length, pauseMs } = request;
    program.noteSeen(id);
    if (id % 5 === 0) ctx.cancelledNow();
    await program.pause(pauseMs);
    if (id % 5 === 0) ctx.cancelledNow();
    return messageOf(id, 0, length);
  };
  return {
    get: answer,
    job: answer,
    put: (message: Uint8Array): Counted => {
      const { id } = readMessage(message);
      program.noteSeen(id);
      return countOf(id, [message]);
    },
    fail: async ({ id, pauseMs }: Wanted): Promise<void> => {
      program.noteSeen(id);
      await program.pause(pauseMs);
      throw new RpcError('not_found', 'as wanted', { details: { id } });
    },
    lease: (lease: Lease, ctx: CallContext) => {
      const { id } = readMessage(lease.bytes as unknown as Uint8Array);
      program.noteSeen(id);
      const block = ctx.allocate(lease.byteLength);
      block.bytes.set(lease.bytes as unknown as Uint8Array);
      return block;
    },
    relay: async (request: Wanted): Promise<Uint8Array> => {
      program.noteSeen(request.id);
      const id = program.nextId();
      const inner = await program.client.get({ ...request, id }).catch((error: unknown) => {
        throw RpcError.is(error) ? error : new RpcError('aborted', String(error));
      });
      sameMessage(inner, id, request.length);
      return messageOf(request.id, 0, request.length);
    },
    headers: async (request: Wanted, ctx: CallContext): Promise<Uint8Array> => {
      ctx.sendHeaders({ first: ctx.metadata.mark as string });
      const message = await answer(request, ctx);
      ctx.trailers = { last: ctx.metadata.mark as string };
      return message;
    },
    wait: ({ id }: Wanted, { signal }: CallContext): Promise<void> => {
      program.noteSeen(id);
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
    },
    note: async (message: Uint8Array): Promise<void> => {
      const { id, number } = readMessage(message);
      // Notifications of handlers of notifications go before others.
      const line = number === 0 ? program.name : `${program.name}, replies`;
      if (program.isAlive) program.ledger.onHandled(line, id);
      await program.pause(id % 3);
    },
    noteBack: async (request: Wanted): Promise<void> => {
      program.noteSeen(request.id);
      for (let left = request.count; left > 0; left -= 1) {
        const message = messageOf(program.nextId(), 1, 10);
        await program.client.note(message, { timeoutMs: 'none' }).catch(() => undefined);
      }
    },
    download: (request: Wanted): AsyncGenerator<Uint8Array, void> => {
      program.noteSeen(request.id);
      return answers(program, request);
    },
    upload: (messages: AsyncIterable<Uint8Array>): Promise<Counted> => counted(program, messages),
    echo: (messages: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> =>
      echoed(program, messages),
  };
}

async function* answers(
  program: SimulatedProgram,
  { id, count, length, pauseMs }: Wanted,
): AsyncGenerator<Uint8Array, void> {
  for (let number = 0; number < count; number += 1) {
    await program.pause(pauseMs);
    yield messageOf(id, number, length);
  }
}

async function counted(
  program: SimulatedProgram,
  messages: AsyncIterable<Uint8Array>,
): Promise<Counted> {
  let [id, count, total] = [0, 0, 0];
  try {
    for await (const message of messages) {
      const read = readMessage(message);
      same(read.number, count);
      id = read.id;
      if (count === 0) program.noteSeen(id);
      count += 1;
      total += message.byteLength;
    }
  } finally {
    await program.pause(count % 3); // a handler works on for a while after it was given up
  }
  return { id, messages: count, bytes: total };
}

async function* echoed(
  program: SimulatedProgram,
  messages: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  let count = 0;
  for await (const message of messages) {
    const { id, number } = readMessage(message);
    if (count === 0) program.noteSeen(id);
    same(number, count);
    count += 1;
    yield message;
  }
}

/** Accepts the channels and byte streams of the peer, by their names. */
export function acceptAll(session: Session): void {
  acceptChannels(session, 'echo', echoChannel);
  acceptChannels(session, 'left', leaveChannel);
  acceptChannels(session, 'ends', endChannel);
  acceptDuplexes(session, 'echo', (stream) => void stream.pipe(stream));
  acceptDuplexes(session, 'left', (stream) => void stream.once('data', () => stream.destroy()));
}

async function acceptChannels(
  session: Session,
  name: string,
  run: (channel: Channel<Uint8Array>) => Promise<void>,
): Promise<void> {
  for await (const channel of session.channels(bytes, { name })) {
    run(channel).catch(() => channel.cancel());
  }
}

async function echoChannel(channel: Channel<Uint8Array>): Promise<void> {
  for await (const message of channel) await channel.send(message);
  await channel.end();
}

/** Ends its half first, and reads what comes. */
async function endChannel(channel: Channel<Uint8Array>): Promise<void> {
  const ending = channel.end();
  for await (const message of channel) readMessage(message);
  await ending;
}

async function leaveChannel(channel: Channel<Uint8Array>): Promise<void> {
  const { done, value } = await channel.next();
  if (done !== true && readMessage(value).id % 2 === 0) channel.cancel();
  else await channel.return();
}

async function acceptDuplexes(
  session: Session,
  name: string,
  run: (stream: SessionDuplex) => void,
): Promise<void> {
  for await (const stream of session.duplexes({ name })) {
    stream.on('error', () => undefined);
    run(stream);
  }
}
