// SPDX-License-Identifier: MIT
// JSON-RPC over a channel: the queue of messages to send, and the decision when to read more.

import type { Message } from 'vscode-jsonrpc';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { quiet } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { pause } from '../base/pause.ts';
import type { Channel } from '../rpc/channels/channel.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type { Session } from '../rpc/session/session.ts';
import type { Meet } from './jsonrpc-meeting.ts';
import {
  isRequest,
  isResponse,
  parsed,
  partsOf,
  responseId,
  tooLongResponse,
} from './jsonrpc-message.ts';

/** The channel delivers messages; it takes messages, or text that was encoded before. */
export type JsonRpcChannel = Channel<Message, string | Message>;

/** Plain JSON, without a limit of depth: JSON-RPC sets none. */
export const messages: Codec<Message, string | Message> = {
  name: 'json-rpc',
  copiesBytes: true,
  encode: (message) => (typeof message === 'string' ? message : JSON.stringify(message)),
  decode(bytes) {
    const message = parsed(bytes) as Message | undefined;
    return message === undefined ? notJson : message;
  },
};

/** Stands for a message that is no JSON, so that the messages behind it arrive. */
export const notJson: Message = Object.freeze({ jsonrpc: '2.0' });

// Milliseconds that the other end has to end its half, once it has all of ours.
const leaveMs = 1_000;
// A cancel is not held back: it concerns a request that was given out before.
const cancelMethod = '$/cancelRequest';
// Messages behind a request that waits for room.
const heldMax = 65_536;

/** Lines by session, which are left when it drains: one wait for all of them. */
const linesOf = new WeakMap<Session, Set<JsonRpcConnection>>();

function linesOn(session: Session): Set<JsonRpcConnection> {
  const known = linesOf.get(session);
  if (known !== undefined) return known;
  const lines = new Set<JsonRpcConnection>();
  linesOf.set(session, lines);
  void session.draining.then(() => {
    for (const line of lines) line.close();
  });
  return lines;
}

interface Outgoing {
  readonly text: string;
  /** Of a response: the request that it answers. */
  readonly answers: unknown;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** A channel that is open or being opened, with its two users, the reader and the writer. */
export class JsonRpcConnection {
  /** The channel, once messages may be sent on it. */
  readonly channel: Promise<JsonRpcChannel>;
  readonly #left = new AbortController();
  readonly #outbox = new Fifo<Outgoing>();
  // Characters of responses that wait: the other end has asked for them, and reads too slowly.
  #responses = 0;
  // `#asked`: requests that were given out and not answered. `#expected`: the expected length of a
  // response, by earlier ones.
  #asked = 0;
  #expected: number | undefined;
  // Requests that may be given out beyond `startsAtOnceMax`, raised after
  // each pause without progress.
  #extra = 0;
  // Messages that arrived behind a request that waits for room.
  readonly #held = new Fifo<Message>();
  #wakeReader: () => void = () => undefined;
  #isSending = false;
  #isOver = false;
  #isLeaving = false;
  #onSent: () => void = () => undefined;
  #users = 2;
  #isRead = false;

  constructor(session: Session, meet: Meet<Message, string | Message>) {
    this.channel = meet(this.#left.signal);
    const lines = linesOn(session);
    lines.add(this);
    const onOver = (): void => {
      lines.delete(this);
      this.#isOver = true;
      this.#wake();
    };
    this.channel.then((channel) => channel.closed).then(onOver, onOver);
  }

  /**
   * Messages leave in the order of the calls. The promise resolves when the channel took the
   * message. No message is refused for want of room: a sender that does not await holds its
   * messages in memory, as with a stream of Node. The number of requests that are read bounds the
   * responses.
   */
  send(message: Message): Promise<void> {
    return quiet(
      new Promise<void>((resolve, reject) => {
        const text = JSON.stringify(message);
        const answers = responseId(message);
        this.#outbox.push({ text, answers, resolve, reject });
        if (answers !== undefined) this.#noteResponse(text.length);
        if (!this.#isSending) void this.#sendAll();
      }),
    );
  }

  #noteResponse(length: number): void {
    this.#responses += length;
    this.#asked = Math.max(0, this.#asked - 1);
    const before = this.#expected ?? 0;
    this.#expected = length >= before ? length : before + (length - before) / 8;
    this.#wake();
  }

  /**
   * Messages of the peer; to be iterated once. A request is given out when there is room for its
   * response, and later messages wait behind it. Responses do not wait, since a handler that waits
   * for one may be the one that makes the room.
   */
  async *messages(): AsyncGenerator<Message> {
    this.#isRead = true;
    const channel = await this.channel;
    let arriving: Promise<IteratorResult<Message, undefined>> | undefined;
    for (;;) {
      for (let first = this.#takeHeld(); first !== undefined; first = this.#takeHeld()) yield first;
      if (this.#held.length >= heldMax) {
        await this.#room();
        continue;
      }
      arriving ??= quiet(channel.next());
      const hasRoom = this.#held.length > 0 ? this.#room() : undefined;
      const step = await (hasRoom === undefined ? arriving : Promise.race([arriving, hasRoom]));
      if (step === undefined) continue;
      arriving = undefined;
      if (step.done === true) break;
      const isFree =
        isResponse(step.value) ||
        partsOf(step.value).method === cancelMethod ||
        (this.#held.length === 0 && this.#mayAsk(step.value));
      if (!isFree) this.#held.push(step.value);
      else yield this.#giveOut(step.value);
    }
    for (let first = this.#held.shift(); first !== undefined; first = this.#held.shift()) {
      yield first;
    }
  }

  #takeHeld(): Message | undefined {
    const first = this.#held.peek();
    if (first === undefined || !this.#mayAsk(first)) return undefined;
    this.#held.shift();
    if (this.#held.length === 0) this.#extra = 0;
    return this.#giveOut(first);
  }

  #giveOut(message: Message): Message {
    if (isRequest(message)) this.#asked += 1;
    return message;
  }

  /** True: the message is no request, or there is room for the expected response. */
  #mayAsk(message: Message): boolean {
    if (!isRequest(message)) return true;
    if (this.#responses > tuning.answersMaxBytes) return false;
    if (this.#asked < tuning.startsAtOnceMax + this.#extra) return true;
    if (this.#expected === undefined) return false;
    return this.#responses + (this.#asked + 1) * this.#expected <= tuning.answersMaxBytes;
  }

  /** Resolves when a response was given or has left, or after `startPauseMs` without either. */
  async #room(): Promise<undefined> {
    if (this.#isOver) return undefined;
    const woken = new AbortController();
    const before = this.#wakeReader;
    this.#wakeReader = () => {
      before();
      woken.abort();
    };
    await pause(systemClock, tuning.startPauseMs, woken.signal);
    if (woken.signal.aborted || this.#responses > tuning.answersMaxBytes) return undefined;
    this.#extra += this.#expected === undefined ? tuning.startsAtOnceMax : 1;
    return undefined;
  }

  #wake(): void {
    const wake = this.#wakeReader;
    this.#wakeReader = () => undefined;
    wake();
  }

  /** Ends our half behind what was sent. */
  end(): void {
    void this.#end().catch(() => undefined);
  }

  /** The reader and the writer each call it once; the second call leaves the channel. */
  dispose(): void {
    this.#users -= 1;
    if (this.#users === 0) this.close();
  }

  /** Ends it in order: behind what was sent before. */
  close(): void {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    if (!this.#isSending) this.#left.abort(); // nothing waits for a channel that is not there yet
    void this.channel.then((channel) => this.#close(channel)).catch(() => undefined);
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    for (let next = this.#outbox.shift(); next !== undefined; next = this.#outbox.shift()) {
      try {
        await this.#sendOne(await this.channel, next);
        next.resolve();
      } catch (error) {
        next.reject(error);
      }
      if (next.answers === undefined) continue;
      this.#responses -= next.text.length;
      this.#wake();
    }
    this.#isSending = false;
    this.#onSent();
  }

  /**
   * Sends one message. A response that is too long is replaced by an error, since its caller would
   * otherwise wait for ever.
   */
  async #sendOne(channel: JsonRpcChannel, { text, answers }: Outgoing): Promise<void> {
    try {
      await channel.send(text);
    } catch (error) {
      if (answers === undefined || !SidecallError.is(error)) throw error;
      if (error.code !== 'ERR_SIDECALL_MESSAGE_TOO_LARGE') throw error;
      await channel.send(tooLongResponse(answers, error));
      throw error;
    }
  }

  async #end(): Promise<void> {
    const channel = await this.channel;
    if (this.#isSending) {
      await new Promise<void>((resolve) => {
        const before = this.#onSent;
        this.#onSent = () => {
          before();
          resolve();
        };
      });
    }
    await channel.end();
  }

  async #close(channel: JsonRpcChannel): Promise<void> {
    const over = new AbortController();
    const stop = (): void => over.abort();
    channel.closed.then(stop, stop);
    // Dropped, so that the end behind it arrives.
    if (!this.#isRead) channel.subscribe({ message: () => undefined });
    // The wait has no limit here, so that written messages are not lost while the other end is
    // busy. The session bounds it.
    await this.#end().catch(stop);
    await pause(systemClock, leaveMs, over.signal);
    channel.cancel();
  }
}
