// A simulated honest program at one end of a connection: it serves, and it acts.
import { RpcError, SidecallError } from '../../src/base/errors.ts';
import type { Metadata } from '../../src/base/metadata.ts';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import type { SessionDuplex } from '../../src/rpc/channels/duplex.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import type { CallOptions } from '../../src/rpc/contract/call-options.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Lease } from '../../src/rpc/contract/leases.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import type { SimulatedProcess } from '../../src/testing/simulation/process.ts';
import type { Act, ActKind } from './act.ts';
import {
  type Counted,
  messageOf,
  Program,
  type ProgramClient,
  readMessage,
  type Wanted,
} from './contract.ts';
import type { Ledger } from './ledger.ts';

/** An error by which a program gives up a call of its own. */
export const enough = new Error('the program has enough');

/** The parts of a program. */
export interface ProgramParts {
  /** Of the end, for the ledger. */
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly session: Session;
  readonly ledger: Ledger;
  /** A number for each call of the run. */
  readonly nextId: () => number;
}

export class SimulatedProgram {
  readonly name: string;
  readonly session: Session;
  readonly process: SimulatedProcess;
  readonly #ledger: Ledger;
  readonly #nextId: () => number;
  readonly #client: ProgramClient;
  readonly #retrying: ProgramClient;
  /** The program at the other end. */
  peer!: SimulatedProgram;

  constructor({ name, process, session, ledger, nextId }: ProgramParts) {
    this.name = name;
    this.session = session;
    this.process = process;
    this.#ledger = ledger;
    this.#nextId = nextId;
    this.#client = session.client(Program);
    this.#retrying = session.client(Program, { retry: { attempts: 5, firstMs: 5 } });
    session.serve(Program, this.#handlers());
    void this.#acceptChannels();
    void this.#acceptDuplexes();
  }

  /** Does one act. Rejects with what went wrong. */
  act(act: Act): Promise<void> {
    return this.#acts[act.kind](act);
  }

  /** The process of this end records: a dead one records nothing. */
  get #isAlive(): boolean {
    return !this.process.isDead;
  }

  #pause(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    return new Promise((resolve) => void this.process.setTimeout(resolve, ms));
  }

  readonly #acts: Record<ActKind, (act: Act) => Promise<void>> = {
    get: (act) => this.#get(act),
    gets: (act) => allOf(Array.from({ length: act.count }, () => this.#get(act))),
    put: (act) =>
      this.#ended('put', act, (id, options) => {
        const sent = messageOf(id, 0, act.length);
        return this.#client.put(sent, options).then((counted) => {
          same(counted, { id, messages: 1, bytes: sent.byteLength });
        });
      }),
    fail: (act) =>
      this.#ended('fail', act, async (id, options) => {
        const error = await this.#client.fail(wanted(id, act), options).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        if (!RpcError.is(error) || error.status !== 'not_found') throw error;
        same(error.details, { id });
      }),
    headers: (act) =>
      this.#ended('headers', act, async (id, options) => {
        const told: Metadata[] = [];
        const answer = await this.#client.headers(wanted(id, act), {
          ...options,
          metadata: { mark: `${id}` },
          onHeaders: (metadata) => told.push(metadata),
          onTrailers: (metadata) => told.push(metadata),
        });
        sameMessage(answer, id, act.length);
        same(told, [{ first: `${id}` }, { last: `${id}` }]);
      }),
    wait: (act) =>
      this.#ended('wait', { ...act, giveUpMs: act.giveUpMs || 5 }, (id, options) =>
        this.#client.wait(wanted(id, act), options),
      ),
    unserved: async () => {
      const error = await this.session.call('Program.absent').catch((reason: unknown) => reason);
      if (!RpcError.is(error) || error.status !== 'unimplemented') throw error;
    },
    ping: async () => {
      await this.session.ping();
    },
    liveness: async () => {
      await this.session.liveness();
    },
    relay: (act) =>
      this.#ended('relay', act, async (id, options) =>
        sameMessage(await this.#client.relay(wanted(id, act), options), id, act.length),
      ),
    mutual: async (act) => {
      if (this.peer.process.isDead) return this.#get(act);
      const peerDied = new Promise<void>((resolve) => this.peer.process.whenDead(resolve));
      const theirs = this.peer.act({ ...act, kind: 'get' });
      await allOf([this.#get(act), Promise.race([theirs, peerDied])]);
    },
    note: (act) => this.#note(act),
    notes: (act) => allOf(Array.from({ length: act.count }, () => this.#note(act))),
    noteBack: (act) => this.#client.noteBack(wanted(this.#nextId(), act), { timeoutMs: 'none' }),
    untyped: async (act) => {
      await this.session.notify('Program.absent', act.length).catch((error: unknown) => {
        if (!RpcError.is(error)) throw error;
      });
    },
    download: (act) =>
      this.#ended('download', act, async (id, options) => {
        let next = 0;
        for await (const message of this.#client.download(wanted(id, act), options)) {
          sameMessage(message, id, act.length, next);
          next += 1;
          await this.#pause(act.pauseMs);
        }
        same(next, act.count);
      }),
    downloadLeft: (act) =>
      this.#left('downloadLeft', act, async (id, options) => {
        const stream = this.#client.download(wanted(id, { ...act, count: 100 }), options);
        for (let next = 0; next < act.count; next += 1) {
          const { value, done } = await stream.next();
          if (done === true) return;
          sameMessage(value, id, act.length, next);
        }
        await this.#pause(act.pauseMs);
        if (act.count % 2 === 0) await stream.return();
        else stream.cancel(enough);
      }),
    upload: (act) =>
      this.#ended('upload', act, async (id, options) => {
        const messages = messagesOf(id, { ...act, count: act.count + 1 });
        same(await this.#client.upload(messages, options), countOf(id, messages));
      }),
    uploadLeft: (act) =>
      this.#left('uploadLeft', act, async (id, options) => {
        const call = this.#client.upload(options);
        for (const message of messagesOf(id, act)) {
          const sent = call.send(message).then(() => void message.fill(0xee));
          sent.catch(() => undefined);
          if (act.count % 3 === 0) await sent;
        }
        await this.#pause(act.pauseMs);
        call.cancel(enough);
      }),
    echo: (act) =>
      this.#ended('echo', act, async (id, options) => {
        const messages = messagesOf(id, { ...act, count: act.count + 1 });
        let next = 0;
        for await (const message of this.#client.echo(messages, options)) {
          sameMessage(message, id, act.length, next);
          next += 1;
        }
        same(next, messages.length);
      }),
    echoLeft: (act) =>
      this.#left('echoLeft', act, async (id, options) => {
        const call = this.#client.echo(options);
        const messages = messagesOf(id, { ...act, count: act.count + 1 });
        const sent = messages.map((message) => call.send(message));
        await call.next();
        await this.#pause(act.pauseMs);
        if (act.count % 2 === 0) await call.return();
        else call.cancel(enough);
        await Promise.allSettled(sent);
      }),
    channel: (act) => this.#channel(act),
    channelLeft: async (act) => {
      const channel = this.session.openChannel(bytes, this.#channelOptions('left', act));
      const id = this.#nextId();
      const sent = messagesOf(id, act).map((message) => channel.send(message));
      await this.#pause(act.pauseMs);
      if (act.count % 2 === 0) channel.cancel(enough);
      else await channel.return();
      await Promise.allSettled(sent);
    },
    channelSubscribed: async (act) => {
      const id = this.#nextId();
      const channel = this.session.openChannel(bytes, this.#channelOptions('echo', act));
      let next = 0;
      const over = new Promise<void>((resolve, reject) => {
        channel.subscribe({
          message: async (message) => {
            sameMessage(message, id, act.length, next);
            next += 1;
            await this.#pause(act.pauseMs);
          },
          end: resolve,
          error: reject,
        });
      });
      over.catch(() => undefined);
      await allOf(messagesOf(id, act).map((message) => channel.send(message)));
      await channel.end();
      await over;
      same(next, act.count);
    },
    duplex: (act) => this.#duplex(act),
    duplexLeft: async (act) => {
      const stream = this.session.openDuplex({ name: 'left' });
      stream.on('error', () => undefined).resume();
      stream.write(Buffer.alloc(act.length + 1));
      await this.#pause(act.pauseMs);
      stream.destroy();
      await closedOf(stream);
    },
    refusedChannel: async () => {
      const channel = this.session.openChannel(bytes, { name: 'nobody' });
      const error = await channel.next().catch((reason: unknown) => reason);
      if (!RpcError.is(error) || error.status !== 'unimplemented') throw error;
    },
    lease: (act) => this.#lease(act, false),
    leaseKept: (act) => this.#lease(act, true),
    leaseFreed: async (act) => {
      const block = this.session.allocate(act.length + 8);
      await this.#pause(act.pauseMs);
      block.free();
    },
    job: (act) => this.#job(act),
    jobs: (act) => allOf(Array.from({ length: act.count }, () => this.#job(act))),
    close: async () => {
      await this.session.close({ deadlineMs: 600_000 });
    },
    closeSoon: async (act) => {
      await this.session.close({ deadlineMs: act.giveUpMs });
    },
  };

  #get(act: Act): Promise<void> {
    return this.#ended('get', act, async (id, options) =>
      sameMessage(await this.#client.get(wanted(id, act), options), id, act.length),
    );
  }

  #job(act: Act): Promise<void> {
    return this.#ended(
      'job',
      act,
      async (id, options) =>
        sameMessage(await this.#retrying.job(wanted(id, act), options), id, act.length),
      true,
    );
  }

  async #note(act: Act): Promise<void> {
    const id = this.#nextId();
    const message = messageOf(id, 0, act.length);
    await this.#client.note(message, { timeoutMs: 'none' });
    message.fill(0xee); // it was admitted: its memory is ours again
    if (this.#isAlive) this.#ledger.onAdmitted(this.peer.name, id);
  }

  async #lease(act: Act, isKept: boolean): Promise<void> {
    await this.#ended('lease', act, async (id, options) => {
      const message = messageOf(id, 0, act.length);
      const block = this.session.allocate(message.byteLength);
      block.bytes.set(message);
      const answer = await this.#client.lease(block, options);
      if (isKept) await this.#pause(act.pauseMs);
      sameMessage(answer.bytes as unknown as Uint8Array, id, act.length);
      answer.release();
    });
  }

  async #channel(act: Act): Promise<void> {
    const id = this.#nextId();
    const channel = this.session.openChannel(bytes, this.#channelOptions('echo', act));
    const messages = messagesOf(id, act);
    const sendOne = async (message: Uint8Array): Promise<void> => {
      await channel.send(message);
      message.fill(0xee); // it was admitted: its memory is ours again
    };
    const sending = allOf(messages.map(sendOne)).then(() => channel.end());
    sending.catch(() => undefined);
    let next = 0;
    for await (const message of channel) {
      sameMessage(message, id, act.length, next);
      next += 1;
      await this.#pause(act.pauseMs);
    }
    await sending;
    same(next, messages.length);
  }

  #channelOptions(name: string, act: Act): { name: string; windowBytes?: number } {
    return act.windowBytes === 0 ? { name } : { name, windowBytes: act.windowBytes };
  }

  async #duplex(act: Act): Promise<void> {
    const sent = Buffer.concat(messagesOf(this.#nextId(), { ...act, count: act.count + 1 }));
    const stream = this.session.openDuplex({ name: 'echo', allowHalfOpen: true });
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
  }

  /** A call whose handler notes that it saw it. */
  async #ended(
    what: string,
    act: Act,
    run: (id: number, options: CallOptions) => Promise<unknown>,
    isRepeated = false,
  ): Promise<void> {
    const id = this.#nextId();
    const options = this.#options(act);
    let error: unknown;
    try {
      await run(id, options);
    } catch (reason) {
      error = reason;
    }
    if (!this.#isAlive) return;
    this.#ledger.onEnd(id, what, error, isRepeated);
    if (error === undefined) return;
    if (error === enough && act.giveUpMs > 0) return;
    if (act.giveUpMs > 0 && act.giveUpBy === 'timeout' && isDeadline(error)) return;
    throw error;
  }

  /** A stream that its caller leaves: the handler may never see it. */
  async #left(
    what: string,
    act: Act,
    run: (id: number, options: CallOptions) => Promise<void>,
  ): Promise<void> {
    const id = this.#nextId();
    try {
      await run(id, this.#options({ ...act, giveUpMs: 0 }));
    } catch (error) {
      if (this.#isAlive) throw new Error(`${what} (${id})`, { cause: error });
    }
  }

  #options(act: Act): CallOptions {
    const window = act.windowBytes === 0 ? {} : { windowBytes: act.windowBytes };
    if (act.giveUpMs === 0) return window;
    if (act.giveUpBy === 'timeout') return { ...window, timeoutMs: act.giveUpMs };
    const stop = new AbortController();
    this.process.setTimeout(() => stop.abort(enough), act.giveUpMs);
    return { ...window, signal: stop.signal };
  }

  #handlers() {
    const seen = (id: number): void => {
      if (this.#isAlive) this.#ledger.onSeen(id);
    };
    const answer = async (
      { id, length, pauseMs }: Wanted,
      ctx: CallContext,
    ): Promise<Uint8Array> => {
      seen(id);
      if (id % 5 === 0) ctx.cancelledNow();
      await this.#pause(pauseMs);
      if (id % 5 === 0) ctx.cancelledNow();
      return messageOf(id, 0, length);
    };
    return {
      get: answer,
      job: answer,
      put: (message: Uint8Array): Counted => {
        const { id } = readMessage(message);
        seen(id);
        return countOf(id, [message]);
      },
      fail: async ({ id, pauseMs }: Wanted): Promise<void> => {
        seen(id);
        await this.#pause(pauseMs);
        throw new RpcError('not_found', 'as wanted', { details: { id } });
      },
      lease: (lease: Lease, ctx: CallContext) => {
        const { id } = readMessage(lease.bytes as unknown as Uint8Array);
        seen(id);
        const block = ctx.allocate(lease.byteLength);
        block.bytes.set(lease.bytes as unknown as Uint8Array);
        return block;
      },
      relay: async (request: Wanted): Promise<Uint8Array> => {
        seen(request.id);
        const id = this.#nextId();
        const inner = await this.#client.get({ ...request, id }).catch((error: unknown) => {
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
        seen(id);
        if (signal.aborted) return Promise.resolve();
        return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
      },
      note: async (message: Uint8Array): Promise<void> => {
        const { id, number } = readMessage(message);
        // Notifications of handlers of notifications go before others.
        const line = number === 0 ? this.name : `${this.name}, replies`;
        if (this.#isAlive) this.#ledger.onHandled(line, id);
        await this.#pause(id % 3);
      },
      noteBack: async (request: Wanted): Promise<void> => {
        seen(request.id);
        for (let left = request.count; left > 0; left -= 1) {
          await this.#client
            .note(messageOf(this.#nextId(), 1, 10), { timeoutMs: 'none' })
            .catch(() => undefined);
        }
      },
      download: (request: Wanted): AsyncGenerator<Uint8Array, void> => {
        seen(request.id);
        return this.#answers(request);
      },
      upload: async (messages: AsyncIterable<Uint8Array>): Promise<Counted> => {
        let [id, count, total] = [0, 0, 0];
        try {
          for await (const message of messages) {
            const read = readMessage(message);
            same(read.number, count);
            if (count === 0) {
              id = read.id;
              seen(id);
            }
            count += 1;
            total += message.byteLength;
          }
        } finally {
          await this.#pause(count % 3); // a handler works on for a while after it was given up
        }
        return { id, messages: count, bytes: total };
      },
      echo: (messages: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> =>
        echoed(messages, seen),
    };
  }

  async *#answers({ id, count, length, pauseMs }: Wanted): AsyncGenerator<Uint8Array, void> {
    for (let number = 0; number < count; number += 1) {
      await this.#pause(pauseMs);
      yield messageOf(id, number, length);
    }
  }

  async #acceptChannels(): Promise<void> {
    const answer = async (channel: Channel<Uint8Array>): Promise<void> => {
      for await (const message of channel) await channel.send(message);
      await channel.end();
    };
    const leave = async (channel: Channel<Uint8Array>): Promise<void> => {
      const { done, value } = await channel.next();
      if (done !== true && readMessage(value).id % 2 === 0) channel.cancel(enough);
      else await channel.return();
    };
    const accept = async (name: string, run: typeof answer): Promise<void> => {
      for await (const channel of this.session.channels(bytes, { name })) {
        run(channel).catch(() => channel.cancel());
      }
    };
    await Promise.all([accept('echo', answer), accept('left', leave)]);
  }

  async #acceptDuplexes(): Promise<void> {
    const accept = async (name: string, run: (stream: SessionDuplex) => void): Promise<void> => {
      for await (const stream of this.session.duplexes({ name })) {
        stream.on('error', () => undefined);
        run(stream);
      }
    };
    await Promise.all([
      accept('echo', (stream) => void stream.pipe(stream)),
      accept('left', (stream) => void stream.once('data', () => stream.destroy())),
    ]);
  }
}

async function* echoed(
  messages: AsyncIterable<Uint8Array>,
  seen: (id: number) => void,
): AsyncGenerator<Uint8Array, void> {
  let count = 0;
  for await (const message of messages) {
    const { id, number } = readMessage(message);
    if (count === 0) seen(id);
    same(number, count);
    count += 1;
    yield message;
  }
}

function wanted(id: number, { length, pauseMs, count }: Act): Wanted {
  return { id, length, pauseMs, count };
}

function messagesOf(id: number, { count, length }: Act): Uint8Array[] {
  return Array.from({ length: count }, (_, number) => messageOf(id, number, length));
}

function countOf(id: number, messages: readonly Uint8Array[]): Counted {
  const sum = messages.reduce((total, { byteLength }) => total + byteLength, 0);
  return { id: messages.length === 0 ? 0 : id, messages: messages.length, bytes: sum };
}

/** All settle; then the first failure, if there is one. */
async function allOf(promises: readonly Promise<unknown>[]): Promise<void> {
  const ends = await Promise.allSettled(promises);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

function closedOf(stream: SessionDuplex): Promise<void> {
  if (stream.closed) return Promise.resolve();
  return new Promise((resolve) => void stream.once('close', () => resolve()));
}

function isDeadline(error: unknown): boolean {
  return SidecallError.is(error) && error.status === 'deadline_exceeded';
}

function sameMessage(message: Uint8Array, id: number, length: number, number = 0): void {
  const read = readMessage(message);
  same(read, { id, number });
  same(message.byteLength, Math.max(8, length));
}

function same(got: unknown, expected: unknown): void {
  const [first, second] = [JSON.stringify(got), JSON.stringify(expected)];
  if (first !== second) throw new Error(`got ${first}, expected ${second}`);
}
