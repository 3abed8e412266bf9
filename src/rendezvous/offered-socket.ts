// SPDX-License-Identifier: MIT
// The way of a listening socket to its successor: a private path for one process, over which one
// byte and the descriptor go.
import { once } from 'node:events';
import { join } from 'node:path';
import type { NativeAddon } from '../addon/addon-api.ts';
import { SidecallError } from '../base/errors.ts';
import type { Peer } from '../base/peer.ts';
import { descriptorOf } from '../uds/net-socket.ts';
import type { PeerPolicy } from '../uds/peer-policy.ts';
import {
  makePrivateDirectory,
  privateSocketName,
  removePrivateDirectory,
} from '../uds/private-directory.ts';
import { standardMode } from '../uds/socket-file.ts';
import type { AcceptorSettings } from './accepted-connection.ts';
import { type OfferedPlace, orAborted } from './hand-over.ts';
import { type PlainConnection, PlainListener } from './plain-listener.ts';

/**
 * Opens the place. `duplicate`: makes a descriptor of the socket, owned by the addon.
 */
export async function offerSocket(
  native: NativeAddon,
  settings: AcceptorSettings,
  { pid, uid }: Peer,
  duplicate: () => number,
): Promise<OfferedPlace> {
  const place = await openPlace(settings, (peer) => pid === peer.pid && uid === peer.uid);
  return {
    path: place.path,
    give: (signal) => give(native, place, duplicate, signal),
    close: () => place.close({ deadlineMs: 0 }),
  };
}

/** Sends the descriptor to the first connection, once that has said that it is ready for it. */
async function give(
  native: NativeAddon,
  place: PlainListener,
  duplicate: () => number,
  signal: AbortSignal,
): Promise<void> {
  const close = (): void => void place.close({ deadlineMs: 0 });
  signal.addEventListener('abort', close);
  if (signal.aborted) close();
  try {
    const { value: connection } = await place[Symbol.asyncIterator]().next();
    if (connection !== undefined) await orAborted(once(connection, 'data'), signal).catch(gone);
    signal.throwIfAborted();
    const descriptor = duplicate();
    try {
      const socket = descriptorOf(connection as PlainConnection);
      native.send(socket, Uint8Array.of(0), 0, descriptor);
    } catch (cause) {
      gone(cause);
    } finally {
      native.closeDescriptor(descriptor);
    }
  } finally {
    signal.removeEventListener('abort', close);
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_PEER_GONE` for an error of the connection. */
function gone(cause: unknown): never {
  throw SidecallError.from(cause, 'ERR_SIDECALL_PEER_GONE');
}

/** A private path for one process. */
async function openPlace(
  settings: AcceptorSettings,
  authorize: PeerPolicy,
): Promise<PlainListener> {
  const privateDirectory = makePrivateDirectory();
  const path = join(privateDirectory, privateSocketName);
  const bind = {
    mode: standardMode,
    owner: undefined,
    gid: undefined,
    backlog: 1,
    unlinkOnClose: true,
  };
  try {
    return await PlainListener.open({ ...settings, path, privateDirectory, authorize, bind });
  } catch (error) {
    removePrivateDirectory(privateDirectory);
    throw error;
  }
}
