// SPDX-License-Identifier: MIT
// relayStdio(): a program that speaks JSON-RPC over its standard input and output, for the other
// end of a session. Messages pass as they are, byte for byte.

import type { ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { onAbort } from '../base/abort-listeners.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { HelperExit } from '../helper/helper-errors.ts';
import type { Channel } from '../rpc/channels/channel.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type { Session } from '../rpc/session/session.ts';
import { type Meet, type MeetingOptions, meetOn } from './jsonrpc-meeting.ts';
import { responseIdOf, tooLongResponse } from './jsonrpc-message.ts';
import { type Framing, type FramingName, framingOf, TextReports } from './stdio-framing.ts';

/** The end of the program that was relayed. */
export type RelayEnd = HelperExit;

/** Options of {@link relayStdio}. */
export interface RelayOptions extends MeetingOptions {
  /** How messages follow each other on the pipes of the program. Default `content-length`. */
  readonly framing?: FramingName | undefined;
  /**
   * Milliseconds that the program has to end by itself once its standard input has ended and the
   * other end has left; then it gets SIGTERM, and after as long again SIGKILL. Default 2,000;
   * 0 to 600,000.
   */
  readonly killGraceMs?: number | undefined;
  /**
   * Called for output of the program that is no message, ten times a second at most and then once
   * for all others, and for a message that is too long for the other end: it is lost, or, where it
   * is a response, replaced by an error. Default: a process warning `SIDECALL_RELAY`.
   */
  readonly onError?: ((error: SidecallError) => void) | undefined;
}

/** A program with pipes for its standard input and output. */
type Program = ChildProcess & { readonly stdin: Writable; readonly stdout: Readable };
type RawChannel = Channel<Uint8Array, Uint8Array | string>;

/** The body of a message, as it is. The name is that of the other end's codec. */
const raw: Codec<Uint8Array, Uint8Array | string> = {
  name: 'json-rpc',
  encode: (body) => body,
  decode: (bytes) => bytes,
};

// Milliseconds for what may not end by itself once the program has ended: the half of the other
// end, and a pipe that another process holds open.
const leaveMs = 1_000;

/**
 * Gives a program that speaks JSON-RPC over its standard input and output to the other end of the
 * session, which calls `jsonrpcTransport()` there. Messages pass as they are. Each direction holds
 * one message: a program that does not read holds back the other end, and an end that does not read
 * holds back the program.
 *
 * Where the other end has ended its half, the standard input of the program ends. Where the other
 * end has left, or the session is over, the program has `killGraceMs` to end. Resolves when the
 * program has ended and the other end has all of its output; the session stays open.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_PROTOCOL` for output that cannot be cut into
 * messages (the program is ended), or why the connection did not come about.
 * @throws {TypeError | RangeError} for misuse, at once.
 */
export function relayStdio(
  session: Session,
  child: ChildProcess,
  options: RelayOptions = {},
): Promise<RelayEnd> {
  const caller = 'relayStdio()';
  checkKeys(caller, options, ['framing', 'killGraceMs', 'name', 'onError', 'opens', 'timeoutMs']);
  const framing = framingOf(options.framing);
  const graceMs = checkInteger('killGraceMs', options.killGraceMs, ranges.killGraceMs);
  if (!child?.stdin || !child.stdout) {
    const text = `${caller} needs a child with pipes: spawn(…, { stdio: ['pipe', 'pipe', 'inherit'] })`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const meet = meetOn<Uint8Array, Uint8Array>(caller, session, raw, options);
  const onError = checkFunction('onError', options.onError) ?? warn;
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  return new StdioRelay(child as Program, framing, graceMs, onError).run(meet, timeoutMs);
}

function warn(error: SidecallError): void {
  process.emitWarning(error.message, { type: 'SidecallWarning', code: 'SIDECALL_RELAY' });
}

class StdioRelay {
  readonly #program: Program;
  readonly #framing: Framing;
  readonly #graceMs: number;
  readonly #onError: (error: SidecallError) => void;
  /** Aborted when the program has ended. */
  readonly #ended = new AbortController();
  readonly #end: Promise<RelayEnd>;
  #ending: Promise<void> | undefined;

  constructor(
    program: Program,
    framing: Framing,
    graceMs: number,
    onError: (error: SidecallError) => void,
  ) {
    this.#program = program;
    this.#framing = framing;
    this.#graceMs = graceMs;
    this.#onError = onError;
    // A pipe of a program that has ended emits 'error', which would end the process without a
    // listener.
    program.stdin.on('error', ignore);
    program.stdout.on('error', ignore);
    // Output without a listener is dropped when the program ends.
    program.stdout.on('readable', ignore);
    this.#end = endOf(program);
    void this.#end.then(() => this.#ended.abort());
  }

  async run(meet: Meet<Uint8Array, Uint8Array | string>, timeoutMs: number): Promise<RelayEnd> {
    const channel = await this.#channel(meet, timeoutMs);
    const over = channel.closed.then(ignore, ignore);
    void over.then(() => this.#endProgram());
    const toProgram = this.#toProgram(channel);
    try {
      await this.#fromProgram(channel);
    } catch (error) {
      channel.cancel(error);
      await this.#endProgram();
      throw error;
    }
    const end = await this.#end;
    // Both directions end, or the other end was given the time for it.
    const left = new AbortController();
    void Promise.all([over, toProgram]).then(() => left.abort());
    await pause(systemClock, leaveMs, left.signal);
    channel.cancel();
    return end;
  }

  /** The channel. Where the program has ended, the other end has `timeoutMs` to come. */
  async #channel(
    meet: Meet<Uint8Array, Uint8Array | string>,
    timeoutMs: number,
  ): Promise<RawChannel> {
    const left = new AbortController();
    const met = new AbortController();
    void this.#end.then(() => pause(systemClock, timeoutMs, met.signal)).then(() => left.abort());
    try {
      return await meet(left.signal);
    } catch (error) {
      await this.#endProgram();
      throw error;
    } finally {
      met.abort();
    }
  }

  async #toProgram(channel: RawChannel): Promise<void> {
    const { stdin } = this.#program;
    try {
      for await (const body of channel) {
        const bytes = this.#framing.frame(body);
        // An error: the program reads no more. What comes is dropped, so that the end behind it
        // arrives.
        await new Promise<void>((resolve) => stdin.write(bytes, () => resolve()));
      }
    } catch {
      // The other end has left.
    }
    stdin.end();
  }

  /** @throws {SidecallError} for output that cannot be cut into messages. */
  async #fromProgram(channel: RawChannel): Promise<void> {
    const { stdout } = this.#program;
    const texts = new TextReports(this.#onError);
    const decoder = this.#framing.decoder((text) => texts.add(text));
    for await (const chunk of this.#chunks()) {
      for (const body of decoder.push(chunk)) {
        if (await this.#relay(channel, body)) continue;
        stdout.resume(); // what it still prints must not block it
        return;
      }
    }
    try {
      const last = decoder.end();
      if (last !== undefined) await this.#relay(channel, last);
    } catch (error) {
      this.#onError(SidecallError.from(error));
    }
    texts.flush();
    await channel.end().catch(ignore);
  }

  /** The output of the program, up to its end. */
  async *#chunks(): AsyncGenerator<Buffer> {
    const chunks = this.#program.stdout.iterator({ destroyOnReturn: false });
    for (;;) {
      const step = await this.#next(chunks);
      if (step === undefined || step.done === true) return;
      yield step.value as Buffer;
    }
  }

  /**
   * The next output; undefined: there is none. A process that the program has started may hold the
   * pipe open, so the wait is limited once the program has ended.
   */
  #next(chunks: AsyncIterator<unknown>): Promise<IteratorResult<unknown> | undefined> {
    return new Promise((resolve) => {
      let timer: Timer | undefined;
      const limit = (): void => {
        // The pipe closes, which ends the wait.
        timer = systemClock.setTimeout(() => this.#program.stdout.destroy(), leaveMs);
      };
      const { signal } = this.#ended;
      const forget = signal.aborted ? limit() : onAbort(signal, limit);
      const settle = (step?: IteratorResult<unknown>): void => {
        forget?.();
        systemClock.clearTimeout(timer);
        resolve(step);
      };
      chunks.next().then(settle, () => settle());
    });
  }

  /** Resolves to false where the other end has left. */
  async #relay(channel: RawChannel, body: Buffer): Promise<boolean> {
    try {
      await channel.send(body);
      return true;
    } catch (error) {
      if (!SidecallError.is(error) || error.code !== 'ERR_SIDECALL_MESSAGE_TOO_LARGE') return false;
      const text = `a message of the program is lost: ${errorText(error)}`;
      this.#onError(new SidecallError('ERR_SIDECALL_PROTOCOL', text));
      const id = responseIdOf(body);
      if (id === undefined) return true;
      return channel.send(tooLongResponse(id, error)).then(
        () => true,
        () => false,
      );
    }
  }

  #endProgram(): Promise<void> {
    this.#ending ??= this.#terminate();
    return this.#ending;
  }

  /** Ends the program: by the end of its standard input, by SIGTERM, by SIGKILL. */
  async #terminate(): Promise<void> {
    const program = this.#program;
    program.stdin.end();
    program.stdout.resume();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await pause(systemClock, this.#graceMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      program.kill(signal);
    }
    await this.#end;
  }
}

/** The end of a program, also of one that has ended before. */
function endOf(program: ChildProcess): Promise<RelayEnd> {
  const { exitCode, signalCode } = program;
  if (exitCode !== null || signalCode !== null) {
    return Promise.resolve({ code: exitCode, signal: signalCode });
  }
  return new Promise((resolve) => {
    program.once('exit', (code, signal) => resolve({ code, signal }));
    // It was not started.
    program.on('error', () => {
      if (program.pid === undefined) resolve({ code: null, signal: null });
    });
  });
}
