// SPDX-License-Identifier: MIT
// Opening channels, and what both ends may say of them.

import { Buffer } from 'node:buffer';
import { ranges } from '../../base/limits/option-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { checkBoolean, checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { checkPlainMetadata } from '../../wire/metadata-bytes.ts';
import type { Caller } from '../calling/caller.ts';
import { checkCallOptions } from '../contract/call-options.ts';
import type { Codec } from '../contract/codec.ts';
import { checkPriority } from '../contract/service.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { ArrivedChannel } from '../serving/accept-channels.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';
import type { AcceptOptions, ChannelOptions, HalfOpenOptions } from './channel.ts';

const openNames = [
  'name',
  'priority',
  'windowBytes',
  'idleTimeoutMs',
  'timeoutMs',
  'signal',
  'metadata',
] as const satisfies readonly (keyof ChannelOptions)[];

/** @throws {TypeError | RangeError} for misuse. */
export function openChannel(
  shared: SessionShared,
  caller: Caller,
  kind: number,
  codec: Codec<unknown>,
  options: ChannelOptions,
): ArrivedChannel {
  checkKeys('the options of a channel', options, openNames);
  checkChannel(options);
  const { name, priority, idleTimeoutMs: _, ...callOptions } = options;
  checkCallOptions(callOptions);
  if (options.metadata !== undefined) checkPlainMetadata(options.metadata);
  const callable = {
    name,
    kind,
    request: codec,
    response: codec,
    isBulk: priority === 'bulk',
    isIdempotent: false,
  };
  const call = caller.openStream(callable, undefined, callOptions);
  const core = call.channel as ChannelHalves;
  return { core, name, metadata: options.metadata ?? {}, peer: shared.peer };
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkAccept(what: string, options: AcceptOptions): void {
  checkKeys(what, options, ['name', 'priority', 'idleTimeoutMs']);
  checkChannel(options);
}

/** @throws {TypeError} where `allowHalfOpen` is something else than true or false. */
export function checkHalfOpen<T extends HalfOpenOptions>(what: string, options: T): T {
  checkBoolean(`${what}: allowHalfOpen`, options?.allowHalfOpen);
  return options;
}

function checkChannel({ name, priority, idleTimeoutMs }: AcceptOptions): void {
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0;
  if (bytes === 0 || bytes > wireLimits.methodNameMaxBytes) {
    const text = `a channel needs a name of 1 to ${wireLimits.methodNameMaxBytes} bytes in its options`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  checkPriority('channel', priority);
  if (idleTimeoutMs !== undefined) {
    checkInteger('idleTimeoutMs', idleTimeoutMs, ranges.idleTimeoutMs);
  }
}
