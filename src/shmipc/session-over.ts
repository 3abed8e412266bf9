// SPDX-License-Identifier: MIT
// A session over a descriptor of the addon, once its handshake has ended.
import type { Socket } from 'node:net';
import { socketOver } from '../uds/net-socket.ts';
import type { SessionParts } from './session-parts.ts';
import { ShmipcSession } from './shmipc-session.ts';

/**
 * The session over a descriptor of the addon, of which `readEarly` reads what has arrived already.
 * Gives the memory back where it throws; the descriptor is the caller's then, if it was not taken.
 */
export function sessionOver(
  fd: number,
  parts: Omit<SessionParts, 'socket' | 'early'>,
  readEarly: () => readonly Uint8Array[],
): ShmipcSession {
  let socket: Socket | undefined;
  try {
    const early = readEarly();
    socket = socketOver(fd);
    parts.native.disownDescriptor(fd);
    return new ShmipcSession({ ...parts, socket, early });
  } catch (error) {
    socket?.destroy();
    parts.shared.close();
    throw error;
  }
}
