// SPDX-License-Identifier: MIT
// The halves of a call that is a stream: its reader, its writer, and the channel that both are.
import { CallKind, FrameFlag, receivesMany, sendsMany } from '../../wire/frame-header.ts';
import { bytes, type Codec } from '../contract/codec.ts';
import { ChannelHalves } from '../streams/channel-halves.ts';
import { StreamReader } from '../streams/stream-reader.ts';
import { StreamWriter } from '../streams/stream-writer.ts';
import type { OutgoingCall } from './outgoing-call.ts';

/** Makes the halves that a call of this kind has. */
export function openHalves(call: OutgoingCall, requestCodec: Codec<unknown>): void {
  const { shared } = call.calls;
  const { own, remote } = shared;
  const { kind, method: name, response, options } = call;
  const flags = FrameFlag.fromOpener;
  const parts = { shared, stream: call, name, flags };
  if (receivesMany(kind)) {
    const windowBytes = options.windowBytes ?? own.streamWindowBytes;
    call.reader = new StreamReader({ ...parts, codec: response ?? bytes, windowBytes });
  }
  if (sendsMany(kind)) {
    const windowBytes = remote.streamWindowBytes;
    const isDivisible = kind === CallKind.duplex;
    call.writer = new StreamWriter({ ...parts, codec: requestCodec, windowBytes, isDivisible });
  }
  const { reader, writer } = call;
  if (kind < CallKind.channel || reader === undefined || writer === undefined) return;
  call.channel = new ChannelHalves(shared, call, { reader, writer, flags, name });
}
