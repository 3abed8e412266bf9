// SPDX-License-Identifier: MIT
// listenShmipc(): sessions with programs that use shmipc-go as clients.
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import type { OnEvent } from '../base/events.ts';
import { checkInteger, checkKeys, checkText, nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { addonReason } from '../open/lane.ts';
import { PathAcceptor } from '../rendezvous/accept.ts';
import type { AcceptorSettings } from '../rendezvous/accepted-connection.ts';
import { ConnectionListener } from '../rendezvous/connection-listener.ts';
import { atPath, type ListenBaseOptions, plainListenNames } from '../rendezvous/listen.ts';
import { readQueued } from '../uds/net-socket.ts';
import { ownerOf } from '../uds/peer-credentials.ts';
import { checkShmipc, type ShmipcOptions, type ShmipcSettings, shmipcNames } from './options.ts';
import { sessionOver } from './session-over.ts';
import { SharedSession, type ShmipcAddon, shmipcAddon } from './shared-session.ts';
import type { ShmipcSession } from './shmipc-session.ts';

/** Options of {@link listenShmipc}. */
export interface ListenShmipcOptions extends Omit<ListenBaseOptions, 'identity'>, ShmipcOptions {
  /**
   * The folder in which clients may name files of memory, on a file system in memory: clients
   * without `MemMapTypeMemFd` name files. They must belong to the client's user. Default
   * `/dev/shm`.
   */
  readonly directory?: string | undefined;
  /** Largest buffer file of a client, in bytes. Its pages are made here, and count as ours. Default
   * 256 MiB; 1 MiB to 4,294,963,200. */
  readonly memoryMaxBytes?: number | undefined;
  /**
   * Streams of one session; a stream beyond them is closed. Default 65,536, of which shmipc-go
   * keeps 4,096 for use again; 1 to 1,048,576.
   */
  readonly streamsMax?: number | undefined;
}

const memoryRange = { standard: 256 * 1024 * 1024, min: 1024 * 1024, max: 0xffff_f000 };
const streamsRange = { standard: 65_536, min: 1, max: 1_048_576 };
const ownNames = ['directory', 'memoryMaxBytes', 'streamsMax'] as const;
const ofPlain = plainListenNames.filter((name) => name !== 'protocol' && name !== 'identity');

/** Listens at a path, for programs that use shmipc-go. Iterate it for their sessions. */
export class ShmipcListener extends ConnectionListener<ShmipcSession, ShmipcSession> {
  /** @internal Use `listenShmipc()`. */
  constructor(acceptor: PathAcceptor<ShmipcSession>) {
    super(acceptor, (session) => session);
  }

  /** Sessions open at this moment. */
  get sessionCount(): number {
    return this.count;
  }
}

interface Accepting extends ShmipcSettings {
  readonly native: ShmipcAddon;
  readonly directory: string;
  readonly memoryMaxBytes: number;
  readonly streamsMax: number;
  readonly onEvent: OnEvent | undefined;
}

/**
 * Listens at a path for programs that use shmipc-go (v0.2) as clients, over the memory layout of
 * shmipc-go: x86-64 Linux. The kernel says who connects, and the policy of `authorize` decides, as
 * at any listener.
 * @throws (as rejection) {SidecallError} what `listen({ protocol: 'plain' })` rejects with;
 * `ERR_SIDECALL_ADDON_UNAVAILABLE`; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { listenShmipc } from 'sidecall/shmipc';
 *
 * const path = '/run/user/1000/echo/socket';
 * const listener = await listenShmipc({ path, trustsPeerMemory: true });
 * for await (const session of listener) {
 *   void (async () => {
 *     for await (const stream of session) stream.pipe(stream);
 *   })();
 * }
 * ```
 */
export async function listenShmipc(options: ListenShmipcOptions): Promise<ShmipcListener> {
  if (typeof options !== 'object' || options === null) {
    const text = 'listenShmipc() needs { trustsPeerMemory: true }';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkKeys('listenShmipc()', options, [...shmipcNames, ...ownNames, ...ofPlain]);
  const directory = checkText('directory', options.directory) ?? '/dev/shm';
  if (!directory.startsWith('/') || directory.endsWith('/')) {
    const text = `directory must be absolute, without a slash at its end, got '${directory}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const accepting: Accepting = {
    ...checkShmipc('listenShmipc()', options),
    native: shmipcAddon(nativeState().addon, addonReason()),
    directory,
    memoryMaxBytes: checkInteger('memoryMaxBytes', options.memoryMaxBytes, memoryRange),
    streamsMax: checkInteger('streamsMax', options.streamsMax, streamsRange),
    onEvent: options.onEvent,
  };
  return atPath(options, (settings) => openListener(settings, accepting));
}

async function openListener(
  settings: AcceptorSettings,
  accepting: Accepting,
): Promise<ShmipcListener> {
  const acceptor = await PathAcceptor.open<ShmipcSession>(settings, {
    keepsSockets: false,
    peersSpeakFirst: true,
    receive: async ({ arrival: { fd }, peer, admit, ticket }) => {
      const { native } = accepting;
      try {
        const full = admit();
        if (full !== undefined) throw full;
        return await acceptSession(fd, peer, accepting, settings.helloTimeoutMs, ticket.signal);
      } catch (error) {
        native.closeReceived(fd, ownerOf(peer));
        throw error;
      }
    },
    receiveStream: async ({ socket }) => {
      socket.destroy();
      throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE');
    },
    onClosing: async () => undefined,
  });
  return new ShmipcListener(acceptor);
}

async function acceptSession(
  fd: number,
  peer: Peer,
  accepting: Accepting,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ShmipcSession> {
  const { native, directory, memoryMaxBytes, ...settings } = accepting;
  const owner = ownerOf(peer);
  const begin = (): number =>
    native.shmipcAccept(fd, owner, timeoutMs, directory, peer.uid ?? 0, memoryMaxBytes);
  const shared = await SharedSession.meet(native, begin, signal);
  const parts = { ...settings, native, shared, peer, isServer: true };
  // Descriptors behind the handshake, which older kernels let through, end the connection.
  return sessionOver(fd, parts, () => readQueued(native, fd, owner));
}
