// SPDX-License-Identifier: MIT
// The frames of a transport, as they leave and arrive.
import { Buffer } from 'node:buffer';
import { headerAt } from './frame-header.ts';
import type { FrameReceiver, Transport } from './transport.ts';

/** Called with each frame. The views are dead when it returns. */
export interface FrameWatch {
  onSent(header: Uint8Array, payloadBytes: number): void;
  onArrived(header: Uint8Array, payloadBytes: number): void;
  /** A reset was taken in the middle of a handler, before the frames that came before it. */
  onTakenAhead?(header: Uint8Array): void;
  onEnd(reason: string): void;
}

/** Tells `watch` of the frames of `transport`, which stays the object that it is. */
export function watched(transport: Transport, watch: FrameWatch): Transport {
  const { trySend, trySendBlock, start } = transport;
  transport.trySend = (header, payload, bulk) => {
    const isSent = trySend.call(transport, header, payload, bulk);
    if (isSent) watch.onSent(header, payload === undefined ? 0 : byteLength(payload));
    return isSent;
  };
  if (trySendBlock !== undefined) {
    transport.trySendBlock = (header, prefix, block) => {
      const isSent = trySendBlock.call(transport, header, prefix, block);
      if (isSent) watch.onSent(header, prefix.length);
      return isSent;
    };
  }
  transport.start = (receiver) => start.call(transport, watchedReceiver(receiver, watch));
  return transport;
}

function watchedReceiver(receiver: FrameReceiver, watch: FrameWatch): FrameReceiver {
  return {
    onFrame(header, at, payload, from, to, block): void {
      watch.onArrived(headerAt(header, at), to - from);
      receiver.onFrame(header, at, payload, from, to, block);
    },
    placeFor: (header, bytes) => receiver.placeFor(header, bytes),
    takeAhead(header) {
      const isTaken = receiver.takeAhead(header);
      if (isTaken) watch.onTakenAhead?.(header);
      return isTaken;
    },
    onRoom: () => receiver.onRoom(),
    onEnd(error) {
      watch.onEnd(error?.message ?? 'the end');
      receiver.onEnd(error);
    },
  };
}

function byteLength(payload: Uint8Array | string): number {
  return typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
}
