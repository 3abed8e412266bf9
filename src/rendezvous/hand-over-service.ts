// SPDX-License-Identifier: MIT
// The words of a listener and its successor while the path changes hands.
import { bidi, service } from '../rpc/contract/service.ts';

/** A step of the successor: the proof is made; it is healthy; it is about to accept connections. */
export type SuccessorStep = 'proved' | 'ready' | 'accepting';

/**
 * A step of the listener: the file that the successor makes beside the socket, as a proof; the
 * place at which the socket is; then the listener accepts no connections.
 */
export type ListenerStep =
  | { readonly step: 'prove'; readonly file: string }
  | { readonly step: 'offer'; readonly epoch: number; readonly place: string }
  | { readonly step: 'yours' };

/**
 * Served by a listener while its `handOver()` waits. The listener names a file, and the successor
 * makes it: whoever can write to the directory could have taken the path in any case. The listener
 * offers the socket, at a path of its own for one byte and the descriptor; the successor says
 * `ready`; the listener pauses and says `yours`; the successor says `accepting`; the listener ends
 * the call, and the successor accepts. Until then the end of the session undoes it: the listener
 * goes on. The lock of the path says which of the two is the listener.
 */
export const HandOverService = service('sidecall.HandOver', {
  takeOver: bidi<SuccessorStep, ListenerStep>(),
});
