// SPDX-License-Identifier: MIT
// connectShmipc(): a session with a program that serves by shmipc-go.
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import type { OnEvent } from '../base/events.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import { addonReason } from '../open/lane.ts';
import { type ConnectBaseOptions, opener, plainConnectNames } from '../rendezvous/connect.ts';
import { ownerOf } from '../uds/peer-credentials.ts';
import { checkShmipc, type ShmipcOptions, shmipcNames } from './options.ts';
import { sessionOver } from './session-over.ts';
import { SharedSession, shmipcAddon } from './shared-session.ts';
import type { ShmipcSession } from './shmipc-session.ts';

/** Options of {@link connectShmipc}. */
export interface ConnectShmipcOptions extends Omit<ConnectBaseOptions, 'identity'>, ShmipcOptions {
  /**
   * Bytes of shared memory for messages in both directions. Default 32 MiB, as shmipc-go; 1 MiB to
   * 1 GiB.
   */
  readonly bufferBytes?: number | undefined;
  /**
   * Messages that wait in one direction. Default 8,192, as shmipc-go; 16 to 1,048,576, made a
   * multiple of 16, so that no counter of the memory lies across two cache lines.
   */
  readonly queueCapacity?: number | undefined;
  /** Streams open at one time. Default 65,536; 1 to 1,048,576. */
  readonly streamsMax?: number | undefined;
  /** Told of a session that the peer has broken (`adapter-failed`). */
  readonly onEvent?: OnEvent | undefined;
}

const bufferRange = { standard: 32 * 1024 * 1024, min: 1024 * 1024, max: 1024 * 1024 * 1024 };
const queueRange = { standard: 8_192, min: 16, max: 1_048_576 };
const streamsRange = { standard: 65_536, min: 1, max: 1_048_576 };
const ownNames = ['bufferBytes', 'queueCapacity', 'streamsMax', 'onEvent'] as const;
const ofPlain = plainConnectNames.filter((name) => name !== 'protocol' && name !== 'identity');

/**
 * Connects to a program that serves by shmipc-go (v0.2), over the memory layout of shmipc-go:
 * x86-64 Linux. The kernel says who listens, as for `connect()`. The memory is made here, has no
 * name, and its size is fixed.
 * @throws (as rejection) {SidecallError} what `connect({ protocol: 'plain' })` rejects with;
 * `ERR_SIDECALL_HELLO_TIMEOUT`, `ERR_SIDECALL_VERSION_MISMATCH`, `ERR_SIDECALL_PROTOCOL`,
 * `ERR_SIDECALL_ADDON_UNAVAILABLE`; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { connectShmipc } from 'sidecall/shmipc';
 *
 * const path = '/run/user/1000/echo/socket';
 * await using session = await connectShmipc({ path, trustsPeerMemory: true });
 * await using stream = session.open();
 * stream.write('hello');
 * for await (const bytes of stream) {
 *   console.log(String(bytes));
 *   break;
 * }
 * ```
 */
export async function connectShmipc(options: ConnectShmipcOptions): Promise<ShmipcSession> {
  if (typeof options !== 'object' || options === null || options.path === undefined) {
    const text = "connectShmipc() needs { path: '/run/…/socket', trustsPeerMemory: true }";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkKeys('connectShmipc()', options, [...shmipcNames, ...ownNames, ...ofPlain]);
  const settings = checkShmipc('connectShmipc()', options);
  const onEvent = checkFunction('onEvent', options.onEvent);
  const bufferBytes = checkInteger('bufferBytes', options.bufferBytes, bufferRange);
  const queueCapacity =
    Math.ceil(checkInteger('queueCapacity', options.queueCapacity, queueRange) / 16) * 16;
  const streamsMax = checkInteger('streamsMax', options.streamsMax, streamsRange);
  const native = shmipcAddon(nativeState().addon, addonReason());
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const open = opener<ShmipcSession>(options, {
    overDescriptor: async (_, fd, peer, signal) => {
      try {
        const begin = (): number =>
          native.shmipcConnect(fd, ownerOf(peer), timeoutMs, queueCapacity, bufferBytes);
        const shared = await SharedSession.meet(native, begin, signal);
        const parts = { native, shared, peer, isServer: false, streamsMax, onEvent, ...settings };
        return sessionOver(fd, parts, () => []);
      } catch (error) {
        native.closeReceived(fd, ownerOf(peer));
        throw error;
      }
    },
    overStream: async (socket) => {
      socket.destroy();
      throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE');
    },
  });
  return open(options.signal);
}
