// SPDX-License-Identifier: MIT
// The beginning of a JSON-RPC connection: one end opens a channel, the other accepts it.

import { Buffer } from 'node:buffer';
import { isBytes } from '../base/brands.ts';
import { systemClock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import { checkBoolean, checkInteger, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import type { Channel } from '../rpc/channels/channel.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type { Session } from '../rpc/session/session.ts';
import { parsed, partsOf } from './jsonrpc-message.ts';

/** Options of both ends of a JSON-RPC connection. */
export interface MeetingOptions {
  /**
   * Name of the channel; another one for each further connection over the same session. Default
   * `vscode-jsonrpc`.
   */
  readonly name?: string | undefined;
  /**
   * Does this end open the channel? The other end accepts it. Default: the side that connected or
   * spawned opens. A pair of `createSessionPair()` has to say.
   */
  readonly opens?: boolean | undefined;
  /**
   * How long the opening end waits for the other end to accept, which may not know the name yet.
   * Default 5,000; 10 to 60,000.
   */
  readonly timeoutMs?: number | undefined;
}

/** Opens or accepts the channel; `left` is aborted when it is not needed any more. */
export type Meet<T, Input> = (left: AbortSignal) => Promise<Channel<T, Input>>;

/**
 * The first message of the accepting end: the other end may send. A notification that JSON-RPC
 * peers may ignore.
 */
const readyMethod = '$/sidecall/ready';
const readyText = JSON.stringify({ jsonrpc: '2.0', method: readyMethod });
const retryFirstMs = 2;
const retryMaxMs = 100;

/**
 * How this end opens or accepts the channel. An accepting end accepts from now on. `codec` decodes
 * to messages, or leaves their bytes as they are.
 * @throws {TypeError | RangeError} for misuse, and where the name is accepted already.
 */
export function meetOn<T, Input>(
  caller: string,
  session: Session,
  codec: Codec<T, Input | string>,
  options: MeetingOptions,
): Meet<T, Input | string> {
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const { name = 'vscode-jsonrpc', opens } = options;
  checkMeeting(caller, session, name, opens);
  return (opens ?? opensFor(caller, session.peer))
    ? opening(session, codec, name, timeoutMs)
    : accepting(session, codec, name);
}

function checkMeeting(
  caller: string,
  session: Session,
  name: unknown,
  opens: boolean | undefined,
): void {
  if (typeof session?.openChannel !== 'function') throw wrong(`${caller} needs a session`);
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0;
  if (bytes === 0 || bytes > wireLimits.methodNameMaxBytes) {
    throw wrong(`${caller}: name must have 1 to ${wireLimits.methodNameMaxBytes} bytes`);
  }
  checkBoolean(`${caller}: opens`, opens);
}

function opensFor(caller: string, { origin, capturedAt }: Peer): boolean {
  if (origin === 'loopback') {
    throw wrong(`${caller}: say \`opens: true\` at one end and false at the other`);
  }
  return capturedAt === 'spawn' ? origin === 'spawned' : capturedAt === 'listen';
}

/**
 * Tries again while the other end does not know the name yet: its program may still be starting.
 */
function opening<T, Input>(
  session: Session,
  codec: Codec<T, Input>,
  name: string,
  timeoutMs: number,
): Meet<T, Input> {
  return async (left) => {
    const until = systemClock.nowMs() + timeoutMs;
    for (let pauseMs = retryFirstMs; ; pauseMs = Math.min(2 * pauseMs, retryMaxMs)) {
      try {
        const leftMs = Math.max(1, Math.ceil(until - systemClock.nowMs()));
        return await openOnce(session.openChannel(codec, { name }), name, leftMs, left);
      } catch (error) {
        const isEarly = RpcError.is(error) && error.status === 'unimplemented';
        if (!isEarly || left.aborted || systemClock.nowMs() + pauseMs > until) throw error;
      }
      await pause(systemClock, pauseMs, left);
    }
  };
}

async function openOnce<T, Input>(
  channel: Channel<T, Input>,
  name: string,
  timeoutMs: number,
  left: AbortSignal,
): Promise<Channel<T, Input>> {
  const cancel = (): void => channel.cancel();
  left.addEventListener('abort', cancel);
  try {
    const { done, value } = await channel.next({ timeoutMs });
    if (done !== true && isReady(value)) return channel;
    const text = `the other end of the channel '${name}' did not begin with ${readyMethod}`;
    throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
  } catch (error) {
    channel.cancel(error);
    throw error;
  } finally {
    left.removeEventListener('abort', cancel);
  }
}

function isReady(value: unknown): boolean {
  return partsOf(isBytes(value) ? parsed(value) : value).method === readyMethod;
}

/** @throws {TypeError} where the name is accepted already. */
function accepting<T, Input>(
  session: Session,
  codec: Codec<T, Input | string>,
  name: string,
): Meet<T, Input | string> {
  const arrivals = session.channels(codec, { name });
  return async (left) => {
    const stop = (): void => void arrivals.return?.();
    left.addEventListener('abort', stop);
    const { done, value: channel } = await arrivals.next();
    left.removeEventListener('abort', stop);
    void arrivals.return?.(); // one connection: a further one is refused
    if (done === true) throw new SidecallError('ERR_SIDECALL_CLOSED', 'nobody opened the channel');
    const cancel = (): void => channel.cancel();
    left.addEventListener('abort', cancel);
    await channel.send(readyText);
    left.removeEventListener('abort', cancel);
    return channel;
  };
}

function wrong(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}
