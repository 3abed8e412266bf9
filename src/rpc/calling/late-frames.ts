// SPDX-License-Identifier: MIT
// Frames of a call that was given up: which of them is the peer's last one, and the window of its
// answer.
import { FrameFlag, FrameType, type Header, protocol } from '../../wire/frame-header.ts';
import { Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';

/** A call that was given up, as far as its late frames concern it. */
interface LateCall {
  readonly channel: ChannelHalves | undefined;
  /** Bytes of the answer that are still to come; undefined: it has not begun. */
  lateBytes: number | undefined;
}

/**
 * Gives the window of an answer back: with its last piece, whether it is wanted or not. Until then
 * its rest waits in the peer's queue, and the window is the bound of what waits there.
 */
export function releaseAnswer(shared: SessionShared, call: { answerCharge: number }): void {
  const { answerCharge } = call;
  call.answerCharge = 0;
  if (answerCharge > 0) shared.releaseCredit(Window.answers, answerCharge);
}

/**
 * Tells whether this frame of the peer's is the last of the call, its answer included, which may
 * come in pieces.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for pieces that are no part of one.
 */
export function isLastFrame(call: LateCall, header: Header, payloadBytes: number): boolean {
  const { channel } = call;
  const { type, flags, status } = header;
  const hasEndFlag = (flags & FrameFlag.end) !== 0;
  if (type === FrameType.reset) return true;
  if (type === FrameType.message) {
    if (!hasEndFlag) return false;
    if (call.lateBytes !== undefined) throw protocol('second answer');
    return isWholeNow(call, header.messageBytes, payloadBytes);
  }
  if (type === FrameType.fragment && call.lateBytes !== undefined) {
    if (payloadBytes === 0) throw protocol('empty fragment');
    return isWholeNow(call, call.lateBytes, payloadBytes);
  }
  if (type !== FrameType.end) return false;
  if (channel === undefined) return !hasEndFlag;
  // Where only the answer to our end was missing, the peer may have forgotten the channel before it
  // saw the reset.
  return hasEndFlag ? channel.awaitsOnlyAnswer : status !== 0;
}

function isWholeNow(call: LateCall, wantedBytes: number, payloadBytes: number): boolean {
  if (payloadBytes > wantedBytes) throw protocol('message longer than announced');
  call.lateBytes = wantedBytes - payloadBytes;
  return call.lateBytes === 0;
}
