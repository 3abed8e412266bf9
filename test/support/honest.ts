// Random honest programs: the operations that two correct processes may run over one session, in
// any order.
import { setTimeout as sleep } from 'node:timers/promises';
import { SidecallError } from '../../src/base/errors.ts';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import type { SessionDuplex } from '../../src/rpc/channels/duplex.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import type { Client } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import type { Random } from './random.ts';

interface Wanted {
  readonly length: number;
  readonly pauseMs?: number;
}

const Program = service('Program', {
  get: unary<Wanted, Uint8Array>({ response: bytes }),
  put: unary<Uint8Array, number>({ request: bytes }),
  lease: unary({ request: leased, response: leased }),
  relay: unary<Wanted, number>(),
  poll: unary<void, void>(),
  note: notification<number>(),
  noteBack: notification<number>(),
  download: serverStream<Wanted & { readonly count: number }, Uint8Array>({ response: bytes }),
  upload: clientStream<Uint8Array, number>({ request: bytes }),
  echo: bidi<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
});

type ProgramClient = Client<typeof Program.methods>;

const lengths = [0, 1, 100, 1_000, 4_000, 16_000, 16_384, 16_385, 40_000, 65_536, 65_537, 100_000];
const enough = new Error('the program has enough');
// Codes of calls that a program itself cancels, and of a session that it closes.
const expected = /DEADLINE_EXCEEDED|CANCELLED|END_OF_STREAM/;
const closing = /GOING_AWAY|CLOSED|PEER_GONE|DEADLINE_EXCEEDED|CANCELLED|END_OF_STREAM/;

/** One side of a session, and its random acts. */
export class HonestSide {
  /** Notifications whose promise resolved, and those that were handled here. */
  readonly notes = { sent: 0, handled: 0 };
  /** Failures that are not expected. */
  readonly surprises: string[] = [];
  /** Acts that have not settled. */
  readonly running = new Set<string>();
  isClosing = false;
  readonly #random: Random;
  readonly #session: Session;
  readonly #client: ProgramClient;
  readonly #mayRelay: boolean;
  #count = 0;

  /** `mayRelay`: handlers call back, which needs more slots than there are calls at once. */
  constructor(random: Random, session: Session, mayRelay: boolean) {
    this.#random = random;
    this.#session = session;
    this.#client = session.client(Program);
    this.#mayRelay = mayRelay;
    this.#serve();
    void this.#acceptChannels();
    void this.#acceptStreams();
  }

  /** Begins a random act. */
  act(): void {
    const name = this.#random.pick(Object.keys(this.#acts));
    const id = `${this.#count} ${name}`;
    this.#count += 1;
    this.running.add(id);
    const act = this.#acts[name] as () => Promise<unknown>;
    act()
      .catch((error: unknown) => {
        if (!this.#isExpected(error)) this.surprises.push(`${id}: ${String(error)}`);
      })
      .finally(() => this.running.delete(id));
  }

  #isExpected(error: unknown): boolean {
    if (error === enough) return true;
    const code = SidecallError.is(error) ? error.code : '';
    if (this.isClosing && closing.test(code)) return true;
    return expected.test(code) || (error as Error).name === 'TimeoutError';
  }

  readonly #acts: Record<string, () => Promise<unknown>> = {
    call: () => this.#get(this.#length()),
    callMany: () => Promise.all(Array.from({ length: 40 }, () => this.#get(3))),
    callLarge: () => this.#get(this.#random.pick([200_000, 250_000])),
    callBurst: () => Promise.all(Array.from({ length: 8 }, () => this.#get(250_000))),
    abort: () => this.#abortAtRandom(),
    put: async () => {
      const length = this.#length();
      const got = await this.#client.put(new Uint8Array(length), this.#options());
      same(got, length);
    },
    lease: () => this.#lease(),
    relay: async () => {
      const length = this.#length();
      if (this.#mayRelay) same(await this.#client.relay({ length }), length);
    },
    poll: () => this.#client.poll(undefined, { timeoutMs: this.#random.next(60) }),
    note: () => this.#note(this.#client.note(1, this.#options())),
    notes: () => Promise.all(Array.from({ length: 30 }, () => this.#note(this.#client.note(1)))),
    noteBack: () => this.#note(this.#client.noteBack(this.#random.next(5))),
    download: () => this.#download(),
    dripLeft: () => this.#leaveDrip(),
    upload: async () => {
      const pieces = this.#messages();
      const total = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
      same(await this.#client.upload(pieces, this.#options()), total);
    },
    pourLeft: () => this.#leavePour(),
    echo: () => this.#echo(),
    echoLeft: () => this.#leaveEcho(),
    channel: () => this.#useChannel(),
    channelLeft: () => this.#leaveChannel(),
    stream: () => this.#useStream(),
    ping: () => this.#session.ping(),
  };

  async #get(length: number): Promise<void> {
    const pauseMs = this.#random.next(4);
    const got = await this.#client.get({ length, pauseMs }, this.#options());
    same(got.byteLength, length);
    if (length > 0) same(got[length - 1], length & 0xff);
  }

  async #abortAtRandom(): Promise<void> {
    const stop = new AbortController();
    const { signal } = stop;
    const length = this.#random.pick([3, 70_000, 250_000]);
    const calls = Array.from({ length: 10 }, () =>
      this.#client.get({ length, pauseMs: this.#random.next(4) }, { signal }),
    );
    await sleep(this.#random.next(5));
    stop.abort(enough);
    await Promise.allSettled(calls);
  }

  async #lease(): Promise<void> {
    const length = this.#length() + 1;
    const block = this.#session.allocate(length);
    block.bytes.fill(7);
    const answer = await this.#client.lease(block, this.#options());
    same(answer.byteLength, length);
    same(answer.bytes[length - 1], 7);
    answer.release();
  }

  async #note(sending: Promise<void>): Promise<void> {
    await sending;
    this.notes.sent += 1;
  }

  async #download(): Promise<void> {
    const count = this.#random.next(30);
    let got = 0;
    const request = { count, length: this.#length() };
    for await (const _ of this.#client.download(request, this.#options())) got += 1;
    same(got, count);
  }

  async #leaveDrip(): Promise<void> {
    const stream = this.#client.download({ count: 1_000, length: this.#length() });
    for (let left = this.#random.next(5); left > 0; left -= 1) await stream.next();
    if (this.#random.chance(30)) await sleep(this.#random.next(20)); // unread for a while
    if (this.#random.chance(50)) await stream.return();
    else stream.cancel(enough);
  }

  async #leavePour(): Promise<void> {
    const call = this.#client.upload();
    for (const piece of this.#messages()) {
      const sent = call.send(piece);
      if (this.#random.chance(40)) await sent;
    }
    if (this.#random.chance(50)) await call.end();
    else call.cancel(enough);
  }

  async #echo(): Promise<void> {
    const messages = this.#messages();
    let at = 0;
    for await (const message of this.#client.echo(messages)) {
      same(message.byteLength, messages[at]?.byteLength);
      at += 1;
    }
    same(at, messages.length);
  }

  async #leaveEcho(): Promise<void> {
    const call = this.#client.echo();
    const sent = [new Uint8Array(1), ...this.#messages()].map((message) => call.send(message));
    await call.next();
    if (this.#random.chance(50)) await call.return();
    else call.cancel(enough);
    await Promise.allSettled(sent);
  }

  async #useChannel(): Promise<void> {
    const channel = this.#session.openChannel(bytes, { name: 'channel' });
    const sent = this.#messages().map((message) => channel.send(message));
    const ended = channel.end();
    try {
      for await (const _ of channel);
    } finally {
      channel.cancel();
    }
    await Promise.allSettled([...sent, ended]);
  }

  async #leaveChannel(): Promise<void> {
    const windowBytes = this.#random.chance(30) ? 1 : undefined;
    const channel = this.#session.openChannel(bytes, { name: 'channel', windowBytes });
    const sent = this.#messages().map((message) =>
      channel.send(
        message,
        this.#random.chance(20) ? { timeoutMs: this.#random.next(5) } : undefined,
      ),
    );
    await sleep(this.#random.next(4));
    channel.cancel();
    await Promise.allSettled(sent);
  }

  async #useStream(): Promise<void> {
    const stream = this.#session.openDuplex({ name: 'stream' });
    stream.on('error', () => undefined).resume();
    stream.write(Buffer.alloc(3 * this.#length()));
    if (this.#random.chance(50)) stream.end();
    await sleep(this.#random.next(20));
    stream.destroy();
    if (!stream.closed) await new Promise((resolve) => stream.once('close', resolve));
  }

  #serve(): void {
    const { notes } = this;
    const nap = async (ms = 0): Promise<void> => {
      if (ms > 0) await sleep(ms);
    };
    this.#session.serve(Program, {
      get: async ({ length, pauseMs }) => {
        await nap(pauseMs);
        return new Uint8Array(length).fill(length & 0xff);
      },
      put: (data) => data.byteLength,
      lease: (lease, ctx) => {
        const block = ctx.allocate(lease.byteLength);
        block.bytes.set(lease.bytes as Uint8Array);
        return block;
      },
      relay: async ({ length }) => (await this.#client.get({ length })).byteLength,
      poll: (_request, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
      note: async () => {
        notes.handled += 1;
        await nap(this.#random.next(2));
      },
      noteBack: async (count) => {
        notes.handled += 1;
        for (let left = count; left > 0; left -= 1) {
          await this.#note(this.#client.note(1, { timeoutMs: 'none' })).catch(() => undefined);
        }
      },
      async *download({ count, length }) {
        for (let at = 0; at < count; at += 1) yield new Uint8Array(length);
      },
      upload: async (pieces) => {
        let total = 0;
        for await (const piece of pieces) total += piece.byteLength;
        return total;
      },
      async *echo(messages) {
        yield* messages;
      },
    });
  }

  async #acceptChannels(): Promise<void> {
    for await (const channel of this.#session.channels(bytes, { name: 'channel' })) {
      this.#onChannel(channel).catch(() => channel.cancel());
    }
  }

  async #onChannel(channel: Channel<Uint8Array>): Promise<void> {
    const manner = this.#random.next(4);
    if (manner === 0) for await (const message of channel) await channel.send(message);
    if (manner === 1) return channel.cancel();
    if (manner === 2) {
      await channel.next();
      await sleep(this.#random.next(5));
      return channel.cancel();
    }
    await channel.end();
    for await (const _ of channel);
  }

  async #acceptStreams(): Promise<void> {
    for await (const stream of this.#session.duplexes({ name: 'stream' })) this.#onStream(stream);
  }

  #onStream(stream: SessionDuplex): void {
    stream.on('error', () => undefined);
    const manner = this.#random.next(3);
    if (manner === 0) stream.pipe(stream);
    else if (manner === 1) stream.resume();
    else setTimeout(() => stream.destroy(), this.#random.next(10));
  }

  #length(): number {
    return this.#random.pick(lengths);
  }

  #messages(): Uint8Array[] {
    return Array.from({ length: this.#random.next(12) }, () => new Uint8Array(this.#length()));
  }

  #options(): { readonly timeoutMs?: number; readonly signal?: AbortSignal } {
    const manner = this.#random.next(12);
    if (manner === 0) return { timeoutMs: this.#random.next(8) };
    return manner === 1 ? { signal: AbortSignal.timeout(this.#random.next(8)) } : {};
  }
}

function same(got: unknown, wanted: unknown): void {
  if (got !== wanted) throw new Error(`got ${String(got)}, wanted ${String(wanted)}`);
}
