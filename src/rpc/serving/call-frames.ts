// SPDX-License-Identifier: MIT
// The frames of a call of the peer's behind the one that opened it: messages, credit, ends, resets.
import { type SidecallErrorCode, statuses } from '../../base/error-codes.ts';
import { RpcError } from '../../base/errors.ts';
import { endText } from '../../wire/end-text.ts';
import {
  CallKind,
  FrameFlag,
  FrameType,
  type Header,
  protocol,
  ResetReason,
} from '../../wire/frame-header.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { Window } from '../sending/credit.ts';
import { answerEnd } from '../sending/end-frames.ts';
import { takeStreamed } from '../sending/session-shared.ts';
import { checkBlock } from '../streams/message-assembly.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import type { IncomingCall } from './incoming-call.ts';

export class CallFrames {
  readonly #calls: AcceptedCalls<IncomingCall>;

  constructor(calls: AcceptedCalls<IncomingCall>) {
    this.#calls = calls;
  }

  /** `call` undefined: the call is over. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  onFrame(
    call: IncomingCall | undefined,
    header: Header,
    payload: Uint8Array,
    block: ArrivedBlock | undefined,
  ): void {
    if (header.type === FrameType.message) return this.#onMessage(call, header, payload, block);
    if (call === undefined || call.isOver) return; // its opener did not know that yet
    switch (header.type) {
      case FrameType.fragment:
        return call.reader?.add(payload);
      case FrameType.credit:
        if (call.writer === undefined) {
          throw protocol('credit for a stream on which nothing is sent');
        }
        return call.writer.grant(header.grantBytes);
      case FrameType.end:
        return this.#onEnd(call, header, payload);
      case FrameType.reset:
        return this.onReset(call, header.reason);
      default:
        throw protocol('frame type that the opener of such a call does not send');
    }
  }

  #onMessage(
    call: IncomingCall | undefined,
    header: Header,
    payload: Uint8Array,
    block: ArrivedBlock | undefined,
  ): void {
    const { messageBytes } = header;
    const flags = header.flags & ~FrameFlag.beyond;
    if (flags !== (FrameFlag.fromOpener | FrameFlag.streamed)) {
      throw protocol('message frame that belongs to no stream');
    }
    if (block !== undefined) checkBlock(block, messageBytes, payload.length);
    const charge = takeStreamed(this.#calls.shared, header.flags, messageBytes);
    if (call === undefined || call.isOver)
      return this.#calls.shared.releaseCredit(Window.streams, charge);
    if (call.reader === undefined) {
      throw protocol('message frame for a call with a single request');
    }
    call.reader.begin(messageBytes, payload, charge, block);
  }

  #onEnd(call: IncomingCall, header: Header, payload: Uint8Array): void {
    const { status, metadataBytes, textBytes } = header;
    const isAnswer = (header.flags & FrameFlag.end) !== 0;
    const isPlain = status === 0 && metadataBytes === 0 && textBytes === 0 && payload.length === 0;
    const { channel, reader } = call;
    if (channel !== undefined && isAnswer && isPlain) return channel.onEndTaken();
    if (channel !== undefined && !isAnswer && status !== 0) {
      return this.#onChannelFailed(call, header, payload);
    }
    if (reader === undefined || isAnswer || !isPlain) {
      throw protocol('end frame for a call that has no stream');
    }
    if (channel !== undefined) return channel.onEnd();
    if (reader.isMidMessage || reader.isEnded) {
      throw protocol('end frame in the middle of a message, or a second one');
    }
    reader.end();
    if (call.opening.kind === CallKind.bidi) answerEnd(this.#calls.shared, call, 0);
  }

  /** Its opener could not decode a message of ours. */
  #onChannelFailed(call: IncomingCall, header: Header, payload: Uint8Array): void {
    const status = statuses[header.status];
    const isWrong = header.metadataBytes !== 0 || header.textBytes > payload.length;
    if (status === undefined || status === 'ok' || isWrong) {
      throw protocol('end frame without a failure status');
    }
    const text = endText(payload.subarray(0, header.textBytes));
    call.fail('cancelled', 'ERR_SIDECALL_CANCELLED', new RpcError(status, text), true);
    this.#calls.streams.remove(call);
    this.#calls.shared.onProgress();
  }

  /** The peer gives up the call. */
  onReset(call: IncomingCall, reason: number): void {
    const code = resetCodes[reason];
    if (code === undefined) throw protocol('reset without a known reason');
    call.cancel(code, reason);
  }
}

const resetCodes: Record<number, SidecallErrorCode | undefined> = {
  [ResetReason.cancelled]: 'ERR_SIDECALL_CANCELLED',
  [ResetReason.deadlineExceeded]: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
};
