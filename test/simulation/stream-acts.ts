// Acts of simulated programs: streams, channels, byte streams.
import { RpcError } from '../../src/base/errors.ts';
import type { SessionDuplex } from '../../src/rpc/channels/duplex.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Act } from './act.ts';
import { allOf, countOf, messagesOf, same, sameMessage, wanted } from './contract.ts';
import { enough, type SimulatedProgram } from './program.ts';

type Do = (program: SimulatedProgram, act: Act) => Promise<void>;

const unreadStreams = 40;
const unreadBytes = 16_384;

/** Many streams that are not read, and one that has to move all the same. */
const unread: Do = async (program, act) => {
  const id = program.nextId();
  const request = { id: 0, length: unreadBytes, pauseMs: 0, count: 3 };
  const idle = Array.from({ length: unreadStreams }, () => {
    return program.client.download({ ...request, id: program.nextId() });
  });
  try {
    await program.pause(act.pauseMs);
    let next = 0;
    const moving = { id, length: 100, pauseMs: 0, count: 20 };
    for await (const message of program.client.download(moving)) {
      sameMessage(message, id, moving.length, next);
      next += 1;
    }
    same(next, moving.count);
  } finally {
    for (const [at, stream] of idle.entries()) {
      if (at % 2 === 0) stream.cancel(enough);
      else await stream.return();
    }
  }
};

const channel: Do = async (program, act) => {
  const id = program.nextId();
  const opened = program.session.openChannel(bytes, channelOptions('echo', act));
  const messages = messagesOf(id, act);
  const sendOne = async (message: Uint8Array): Promise<void> => {
    await opened.send(message);
    message.fill(0xee); // it was admitted: its memory is ours again
  };
  const sending = allOf(messages.map(sendOne)).then(() => opened.end());
  sending.catch(() => undefined);
  let next = 0;
  for await (const message of opened) {
    sameMessage(message, id, act.length, next);
    next += 1;
    await program.pause(act.pauseMs);
  }
  await sending;
  same(next, messages.length);
};

const duplex: Do = async (program, act) => {
  const sent = Buffer.concat(messagesOf(program.nextId(), { ...act, count: act.count + 1 }));
  const stream = program.session.openDuplex({ name: 'echo', allowHalfOpen: true });
  const chunks: Buffer[] = [];
  const over = new Promise<void>((resolve, reject) => {
    stream.on('data', (chunk: Buffer) => chunks.push(Buffer.from(chunk)));
    stream.on('end', resolve);
    stream.on('error', reject);
  });
  over.catch(() => undefined);
  stream.end(sent);
  await over;
  if (Buffer.compare(Buffer.concat(chunks), sent) !== 0) throw new Error('a duplex lost bytes');
  await closedOf(stream);
};

export const streamActs = {
  download: (program, act) =>
    program.ended('download', act, async (id, options) => {
      let next = 0;
      for await (const message of program.client.download(wanted(id, act), options)) {
        sameMessage(message, id, act.length, next);
        next += 1;
        await program.pause(act.pauseMs);
      }
      same(next, act.count);
    }),
  downloadLeft: (program, act) =>
    program.left('downloadLeft', act, async (id, options) => {
      const stream = program.client.download(wanted(id, { ...act, count: 100 }), options);
      for (let next = 0; next < act.count; next += 1) {
        const { value, done } = await stream.next();
        if (done === true) return;
        sameMessage(value, id, act.length, next);
      }
      await program.pause(act.pauseMs);
      if (act.count % 2 === 0) await stream.return();
      else stream.cancel(enough);
    }),
  unread,
  upload: (program, act) =>
    program.ended('upload', act, async (id, options) => {
      const messages = messagesOf(id, { ...act, count: act.count + 1 });
      same(await program.client.upload(messages, options), countOf(id, messages));
    }),
  uploadLeft: (program, act) =>
    program.left('uploadLeft', act, async (id, options) => {
      const call = program.client.upload(options);
      for (const message of messagesOf(id, act)) {
        const sent = call.send(message).then(() => void message.fill(0xee));
        sent.catch(() => undefined);
        if (act.count % 3 === 0) await sent;
      }
      await program.pause(act.pauseMs);
      call.cancel(enough);
    }),
  echo: (program, act) =>
    program.ended('echo', act, async (id, options) => {
      const messages = messagesOf(id, { ...act, count: act.count + 1 });
      let next = 0;
      for await (const message of program.client.echo(messages, options)) {
        sameMessage(message, id, act.length, next);
        next += 1;
      }
      same(next, messages.length);
    }),
  echoLeft: (program, act) =>
    program.left('echoLeft', act, async (id, options) => {
      const call = program.client.echo(options);
      const messages = messagesOf(id, { ...act, count: act.count + 1 });
      const sent = messages.map((message) => call.send(message));
      await call.next();
      await program.pause(act.pauseMs);
      if (act.count % 2 === 0) await call.return();
      else call.cancel(enough);
      await Promise.allSettled(sent);
    }),
  channel,
  channelLeft: async (program, act) => {
    const opened = program.session.openChannel(bytes, channelOptions('left', act));
    const sent = messagesOf(program.nextId(), act).map((message) => opened.send(message));
    await program.pause(act.pauseMs);
    if (act.count % 2 === 0) opened.cancel(enough);
    else await opened.return();
    await Promise.allSettled(sent);
  },
  /** Given up while its end is on its way. */
  channelEndedLeft: async (program, act) => {
    const name = act.count % 2 === 0 ? 'echo' : 'ends';
    const opened = program.session.openChannel(bytes, channelOptions(name, act));
    const messages = messagesOf(program.nextId(), { ...act, count: act.count % 4 });
    const sent = messages.map((message) => opened.send(message));
    const ending = opened.end();
    ending.catch(() => undefined);
    await program.pause(act.pauseMs / 10);
    opened.cancel(enough);
    await Promise.allSettled([...sent, ending]);
  },
  channelSubscribed: async (program, act) => {
    const id = program.nextId();
    const opened = program.session.openChannel(bytes, channelOptions('echo', act));
    let next = 0;
    const over = new Promise<void>((resolve, reject) => {
      opened.subscribe({
        message: async (message) => {
          sameMessage(message, id, act.length, next);
          next += 1;
          await program.pause(act.pauseMs);
        },
        end: resolve,
        error: reject,
      });
    });
    over.catch(() => undefined);
    await allOf(messagesOf(id, act).map((message) => opened.send(message)));
    await opened.end();
    await over;
    same(next, act.count);
  },
  duplex,
  duplexLeft: async (program, act) => {
    const stream = program.session.openDuplex({ name: 'left' });
    stream.on('error', () => undefined).resume();
    stream.write(Buffer.alloc(act.length + 1));
    await program.pause(act.pauseMs);
    stream.destroy();
    await closedOf(stream);
  },
  refusedChannel: async ({ session }) => {
    const opened = session.openChannel(bytes, { name: 'nobody' });
    const error = await opened.next().catch((reason: unknown) => reason);
    if (!RpcError.is(error) || error.status !== 'unimplemented') throw error;
  },
} satisfies Record<string, Do>;

function channelOptions(name: string, act: Act): { name: string; windowBytes?: number } {
  return act.windowBytes === 0 ? { name } : { name, windowBytes: act.windowBytes };
}

function closedOf(stream: SessionDuplex): Promise<void> {
  if (stream.closed) return Promise.resolve();
  return new Promise((resolve) => void stream.once('close', () => resolve()));
}
