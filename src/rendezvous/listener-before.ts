// SPDX-License-Identifier: MIT
// The way from a successor to the listener before it: a session by its policy, and the socket from
// a place that only this process may reach.
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { pause } from '../base/pause.ts';
import type { Session } from '../rpc/session/session.ts';
import { connectToPath } from '../uds/connect-path.ts';
import { kernelPeer, ownerOf } from '../uds/peer-credentials.ts';
import { authorize, type PeerPolicy } from '../uds/peer-policy.ts';
import { sessionOpener, takingOver } from './connect.ts';
import { makeProof } from './path-proof.ts';
import { type PathBefore, protocolError } from './take-over.ts';

/** `from`: the process that may be the listener before, whose user is ours in any case. */
export function listenerBefore(
  native: NativeAddon,
  path: string,
  from: PeerPolicy | undefined,
  unsafeDirectory: boolean,
): PathBefore {
  // The process decides, by the kernel's word; the mode of the file is that of its users.
  const expect: PeerPolicy = async (peer) => {
    await authorize(from, { peer, isAlive: undefined }, never);
    return true;
  };
  return {
    clock: systemClock,
    connect: (timeoutMs) => {
      const options = { path, expect, lane: 'socket', timeoutMs, unsafeDirectory } as const;
      return sessionOpener(options, undefined, takingOver)(undefined);
    },
    prove: (file) => makeProof(native, path, file, unsafeDirectory),
    receive: (place, session, signal) => receiveSocket(native, place, session, signal),
  };
}

const never = new AbortController().signal;

/**
 * Connects to the place, whose process must be the one of the session, and receives the socket.
 * @throws {SidecallError} `ERR_SIDECALL_PEER_GONE` where that process ends meanwhile.
 */
async function receiveSocket(
  native: NativeAddon,
  place: string,
  { peer }: Session,
  signal: AbortSignal,
): Promise<number> {
  const expect = peer.uid === undefined ? undefined : { uid: peer.uid };
  const fd = await connectToPath(native, place, expect, {
    unsafeDirectory: false,
    signal,
    timeoutMs: tuning.handOverStepMs,
  });
  let owner: number | undefined;
  try {
    const known = kernelPeer(native, fd, 'listen').peer;
    if (known.pid !== peer.pid || known.uid !== peer.uid) throw protocolError();
    owner = ownerOf(peer);
    native.admitDescriptors(fd);
    native.send(fd, Uint8Array.of(0), 0, -1);
    for (;;) {
      const received = native.receiveListening(fd, owner);
      if (received !== -1) {
        native.refuseDescriptors(received); // as every listener of ours; its connections inherit it
        return received;
      }
      await pause(systemClock, 1, signal);
      signal.throwIfAborted();
    }
  } catch (cause) {
    if (SidecallError.is(cause)) throw cause;
    const { code } = cause as { readonly code?: unknown };
    if (code !== 'EPIPE' && code !== 'ECONNRESET' && !native.isPeerClosed(fd)) {
      throw code === 'EPROTO' ? protocolError() : SidecallError.from(cause);
    }
    const text = 'the previous listener ended before it had given its socket';
    throw new SidecallError('ERR_SIDECALL_PEER_GONE', text, { cause });
  } finally {
    // More descriptors may be queued on it, whose close blocks.
    if (owner === undefined) native.closeDescriptor(fd);
    else native.closeReceived(fd, owner);
  }
}
