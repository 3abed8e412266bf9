// SPDX-License-Identifier: MIT
// The words of a listener and its successor while the path changes hands.
import { bidi, service } from '../rpc/contract/service.ts';

/** A step of the successor: it is healthy; then it accepts connections. */
export type SuccessorStep = 'ready' | 'accepting';

/** A step of the listener: the socket is at a place; then it accepts no connections any more. */
export type ListenerStep =
  | { readonly step: 'offer'; readonly epoch: number; readonly place: string }
  | { readonly step: 'yours' };

/**
 * Served by a listener while its `handOver()` waits. The listener offers the socket, at a path of
 * its own for one byte and the descriptor; the successor says `ready`; the listener pauses and says
 * `yours`; the successor says `accepting`. Until then the end of the session undoes it: the
 * listener goes on. The lock of the path says which of the two is the listener.
 */
export const HandOverService = service('sidecall.HandOver', {
  takeOver: bidi<SuccessorStep, ListenerStep>(),
});
