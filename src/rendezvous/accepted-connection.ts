// SPDX-License-Identifier: MIT
// The checked options of every listener, and the steps for a connection that it lets in.

import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import type { SidecallError } from '../base/errors.ts';
import type { OnEvent } from '../base/events.ts';
import type { Peer } from '../base/peer.ts';
import type { PeerHello } from '../uds/hello-bytes.ts';
import type { DescriptorWire } from '../uds/hello-wire.ts';
import type { Arrival } from '../uds/net-socket.ts';
import type { PeerPolicy } from '../uds/peer-policy.ts';
import type { BindOptions } from '../uds/socket-file.ts';

/** Checked options that every listener has. */
export interface AcceptorSettings {
  readonly path: string;
  readonly privateDirectory: string | undefined;
  readonly onEvent: OnEvent | undefined;
  readonly authorize: PeerPolicy | undefined;
  readonly helloTimeoutMs: number;
  readonly hellosMax: number;
  readonly sessionsMax: number;
  readonly sessionsPerUidMax: number;
  readonly sessionsPerProcessMax: number;
  readonly bind: BindOptions & { readonly unlinkOnClose: boolean };
  readonly unsafeDirectory: boolean;
  /** undefined: identity is by path permissions. */
  readonly native: NativeAddon | undefined;
  readonly pathPeer: Peer | undefined;
}

/** A connection that a listener lets in: a session, or a plain one. */
export interface AcceptedConnection {
  readonly peer: Peer;
  readonly closed: Promise<unknown>;
  /** The connection was taken from the listener, or will never be. */
  onTaken?(): void;
  close(options: { readonly deadlineMs: number }): Promise<unknown>;
}

/**
 * Asked once per connection, when its peer is known, with its hello if it has one: why there is no
 * room, or undefined.
 */
export type Admit = (hello?: PeerHello) => SidecallError | undefined;

/** The time of a connection that is on its way. */
interface Ticket {
  /** Aborted when it is over. Made at the first use, since rules and plain sockets need none. */
  readonly signal: AbortSignal;
}

/** The steps for a connection whose peer the policy has accepted. */
export interface ConnectionHandlers<G extends AcceptedConnection> {
  /**
   * True: the peer sends first. A connection without a byte then waits at little cost in a crowd.
   */
  readonly peersSpeakFirst: boolean;
  /** As of `PathOwner`. */
  readonly keepsSockets: boolean;
  /** Owns the descriptor or socket from here on, also where it throws. */
  receive(arrival: {
    readonly native: NativeAddon;
    readonly arrival: Arrival;
    readonly peer: Peer;
    readonly admit: Admit;
    readonly ticket: Ticket;
    /** Called with the wire of a hello: it knows since when the peer is silent. */
    readonly onWire: (wire: DescriptorWire) => void;
  }): Promise<G>;
  /**
   * The same for a connection that needs no hello. Throws where the system fails; the connection is
   * ended then.
   */
  receiveAtOnce?(native: NativeAddon, arrival: Arrival, peer: Peer): G;
  /** The same without the addon. */
  receiveStream(arrival: {
    readonly socket: Socket;
    readonly peer: Peer;
    readonly admit: Admit;
    readonly ticket: Ticket;
  }): Promise<G>;
  /** No more come; those that are in are about to be closed. */
  onClosing(): Promise<void>;
}
