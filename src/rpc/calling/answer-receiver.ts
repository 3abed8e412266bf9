// SPDX-License-Identifier: MIT
// The frames that answer calls of ours: answers, whole or in streams, headers, trailers, the end.

import { partOf } from '../../base/bytes.ts';
import { throwLater } from '../../base/clock.ts';
import { statuses } from '../../base/error-codes.ts';
import { fromPeer, RpcError, SidecallError } from '../../base/errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import { endText } from '../../wire/end-text.ts';
import {
  CallKind,
  FrameFlag,
  FrameType,
  type Header,
  PlainField,
  protocol,
  ResetReason,
} from '../../wire/frame-header.ts';
import { decodeMetadata } from '../../wire/metadata-bytes.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { type Codec, decodePart, decodeWith } from '../contract/codec.ts';
import { json } from '../contract/json.ts';
import { Window } from '../sending/credit.ts';
import { type SessionShared, takeMessage, takeStreamed } from '../sending/session-shared.ts';
import { answerPlace, checkBlock, MessageAssembly } from '../streams/message-assembly.ts';
import type { OpenedStreams } from '../streams/stream-table.ts';
import { releaseAnswer } from './late-frames.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';

export class AnswerReceiver {
  readonly #shared: SessionShared;
  readonly #streams: OpenedStreams<OutgoingCall>;

  constructor({ shared, streams }: OpenCalls<OutgoingCall>) {
    this.#shared = shared;
    this.#streams = streams;
  }

  /** Final place of a piece of an answer; of its first piece only where the answer is expected. */
  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    const call = this.#streams.find(header.slot, header.generation);
    if (call === undefined || !call.isOpen) return undefined;
    const isFirst = header.type === FrameType.message;
    const { messageBytes } = header;
    if ((header.flags & FrameFlag.streamed) !== 0 || call.reader !== undefined) {
      return call.reader?.place(isFirst, messageBytes, bytes);
    }
    if (!isFirst) {
      const { assembly } = call;
      if (assembly?.isDetached === true || this.#mustCopy(call)) return undefined;
      return assembly?.place(bytes);
    }
    if (call.assembly !== undefined || call.hasAnswer) return undefined;
    const { response } = call;
    const mayHold = messageBytes <= this.#shared.own.receiveMaxBytes && bytes <= messageBytes;
    if (!mayHold || response === undefined || this.#mustCopy(call)) return undefined;
    call.placed = assemblyFor(this.#shared, call, messageBytes, bytes);
    return call.placed.place(bytes);
  }

  /**
   * The pieces of an answer are copied into memory that the caller gave: bytes that arrive after
   * the call was given up must not go there.
   */
  #mustCopy(call: OutgoingCall): boolean {
    return call.options.into !== undefined && this.#shared.transport.fillsAtOnce !== true;
  }

  /** A frame of a stream that we opened. */
  onFrame(
    header: Header,
    memory: Uint8Array,
    from: number,
    to: number,
    block: ArrivedBlock | undefined,
  ): void {
    const call = this.#streams.find(header.slot, header.generation);
    if (header.type === FrameType.message) {
      return this.#onMessage(call, header, memory, from, to, block);
    }
    if (call === undefined) return; // over, and the peer did not know
    const payload = partOf(memory, from, to);
    if (!call.isOpen) return call.onLate(header, payload.length);
    switch (header.type) {
      case FrameType.fragment:
        if (call.reader !== undefined) return call.reader.add(payload);
        if (call.assembly?.isDetached === true) return this.#onDetached(call, header, payload);
        return this.#onFragment(call, payload);
      case FrameType.headers:
        return this.#onHeaders(call, payload);
      case FrameType.credit:
        if (call.writer === undefined)
          throw protocol('credit for a stream on which nothing is sent');
        return call.writer.grant(header.grantBytes);
      case FrameType.end:
        if ((header.flags & FrameFlag.end) !== 0) return this.#onEndTaken(call);
        return this.#onEnd(call, header, payload);
      case FrameType.reset:
        return this.#onReset(call, header.reason);
      default:
        throw protocol('frame type that only an opener sends');
    }
  }

  /**
   * The short way of the frame at `at`, of an answer behind which nothing follows, to a plain call.
   * False: nothing was done.
   */
  onPlain(fields: DataView, at: number, memory: Uint8Array, from: number, to: number): boolean {
    const shared = this.#shared;
    const bytes = to - from;
    const slot = fields.getUint32(at + PlainField.slot, true);
    const call = this.#streams.peek(slot, fields.getUint32(at + PlainField.generation, true));
    const isWhole = fields.getUint32(at + PlainField.answerBytes, true) === bytes;
    if (!isWhole || call?.isPlain !== true) return false;
    shared.releaseCredit(Window.answers, takeMessage(shared, Window.answers, bytes));
    call.counters.receivedMessages += 1;
    call.counters.receivedBytes += bytes;
    const codec = call.callable.response as Codec<unknown>;
    let answer: unknown;
    try {
      answer = decodePart(codec, memory, from, to, shared.own.jsonMaxBytes);
      if (codec.isRaw !== true) shared.counters.countLease(answer);
    } catch (thrown) {
      shared.counters.untakenAnswers.count(bytes);
      call.close('peer');
      if (!call.isSettled) call.reject(undecodable(call, thrown));
      shared.onProgress();
      return true;
    }
    if (call.state === 'open') call.onAnswered(answer); // else its codec has ended the session
    shared.onPlainEnd();
    return true;
  }

  #onMessage(
    call: OutgoingCall | undefined,
    header: Header,
    memory: Uint8Array,
    from: number,
    to: number,
    block: ArrivedBlock | undefined,
  ): void {
    const { messageBytes } = header;
    const bytes = to - from;
    if (block !== undefined) checkBlock(block, messageBytes, bytes);
    const isStreamed = (header.flags & FrameFlag.streamed) !== 0;
    const isLast = (header.flags & FrameFlag.end) !== 0;
    const window = isStreamed ? Window.streams : Window.answers;
    const charge = isStreamed
      ? takeStreamed(this.#shared, header.flags, messageBytes)
      : takeMessage(this.#shared, window, messageBytes);
    if (call === undefined) return this.#shared.releaseCredit(window, charge);
    if (!call.isOpen) {
      if (isStreamed) this.#shared.releaseCredit(window, charge);
      else call.answerCharge += charge; // the peer keeps the rest of the answer to its last piece
      return call.onLate(header, block?.byteLength ?? bytes);
    }
    if (isStreamed !== (call.reader !== undefined) || (isStreamed && isLast)) {
      throw protocol('answer that does not fit the kind of call');
    }
    if (call.reader !== undefined) {
      return call.reader.begin(messageBytes, partOf(memory, from, to), charge, block);
    }
    if (bytes > messageBytes) throw protocol('message longer than announced');
    if (call.response === undefined || call.hasAnswer || call.assembly !== undefined) {
      throw protocol('second answer');
    }
    call.hasAnswer = isLast;
    const { placed } = call;
    call.placed = undefined;
    const isWhole = block !== undefined || (placed === undefined && bytes === messageBytes);
    if (isWhole) this.#shared.releaseCredit(window, charge);
    else call.answerCharge = charge;
    const { response, method, options } = call;
    if (block !== undefined) {
      const place = answerPlace(messageBytes, response, options.into);
      const whole = MessageAssembly.ofBlock(block, response, method, place);
      return this.#onAnswer(call, memory, from, to, whole);
    }
    if (isWhole) {
      const { into } = options;
      const place = into && answerPlace(messageBytes, response, into);
      const whole = into && MessageAssembly.ofBytes(partOf(memory, from, to), response, place);
      return this.#onAnswer(call, memory, from, to, whole);
    }
    call.assembly = placed ?? assemblyFor(this.#shared, call, messageBytes, bytes);
    if (bytes > 0) this.#onFragment(call, partOf(memory, from, to));
  }

  #onFragment(call: OutgoingCall, payload: Uint8Array): void {
    const { assembly } = call;
    if (assembly === undefined) throw protocol('fragment without a message');
    if (!assembly.add(payload)) return;
    call.assembly = undefined;
    this.#onAnswer(call, assembly.bytes, 0, assembly.bytes.length, assembly);
  }

  /** The memory that the caller gave for the answer is gone. Other calls are not concerned. */
  #onDetached(call: OutgoingCall, header: Header, payload: Uint8Array): void {
    const text = `${call.method}: the memory of the option into was detached while the answer arrived: it was transferred, or it is memory of WebAssembly that has grown`;
    call.cancelAs(new SidecallError('ERR_SIDECALL_LEASE_RELEASED', text), ResetReason.cancelled);
    call.onLate(header, payload.length);
  }

  /** The answer is whole. Where trailers follow, it waits for them. */
  #onAnswer(
    call: OutgoingCall,
    memory: Uint8Array,
    from: number,
    to: number,
    assembly: MessageAssembly | undefined,
  ): void {
    const endsHere = call.hasAnswer;
    const { counters } = this.#shared;
    const answerBytes = assembly?.bytes.length ?? to - from;
    call.counters.countReceived(answerBytes);
    call.trace?.countReceived(answerBytes);
    call.hasAnswer = true;
    releaseAnswer(this.#shared, call);
    let answer: unknown;
    try {
      const codec = call.response as Codec<unknown>;
      const { jsonMaxBytes } = this.#shared.own;
      answer =
        assembly === undefined
          ? decodePart(codec, memory, from, to, jsonMaxBytes)
          : assembly.decode(jsonMaxBytes);
      if (codec.isRaw !== true) counters.countLease(answer);
    } catch (thrown) {
      counters.untakenAnswers.count(answerBytes);
      const error = undecodable(call, thrown);
      if (!endsHere) return call.cancelAs(error, ResetReason.cancelled);
      call.close('peer');
      if (!call.isSettled) call.reject(error);
      return this.#shared.onProgress();
    }
    if (!endsHere) {
      call.answer = answer;
      return;
    }
    call.close('peer');
    if (!call.isSettled) call.resolve(answer);
    this.#shared.onProgress();
  }

  #onHeaders(call: OutgoingCall, payload: Uint8Array): void {
    if (call.hasHeaders || call.hasAnswer)
      throw protocol('headers frame behind the answer, or a second one');
    call.hasHeaders = true;
    tell(call.options.onHeaders, this.#metadata(payload));
  }

  /** The peer has everything that we sent on this stream. */
  #onEndTaken(call: OutgoingCall): void {
    if (call.channel !== undefined) return call.channel.onEndTaken();
    if (call.writer?.isEnding !== true) throw protocol('answer to an end that was not sent');
    call.onEndTaken();
  }

  #onEnd(call: OutgoingCall, header: Header, payload: Uint8Array): void {
    const end = this.#readEnd(call, header, payload);
    if (call.channel !== undefined && end.error === undefined) return call.channel.onEnd();
    if (end.error === undefined) {
      const isWhole = call.reader !== undefined || call.response === undefined;
      if (isWhole === call.hasAnswer || call.reader?.isMidMessage === true) {
        throw protocol('success without an answer');
      }
    }
    call.close('peer');
    if (end.trailers !== undefined) tell(call.options.onTrailers, end.trailers);
    if (end.error !== undefined) call.fail(end.error);
    else if (!call.isSettled) call.resolve(call.answer);
    this.#shared.onProgress();
  }

  /** The content of an `end`. Details that cannot be decoded make the error of the call. */
  #readEnd(
    call: OutgoingCall,
    header: Header,
    payload: Uint8Array,
  ): { trailers: Metadata | undefined; error: SidecallError | undefined } {
    const { status, metadataBytes, textBytes } = header;
    const detailsAt = metadataBytes + textBytes;
    const name = statuses[status];
    if (name === undefined || detailsAt > payload.length || call.assembly !== undefined) {
      throw protocol('end frame with an unknown status or wrong lengths');
    }
    const metadata = this.#metadata(payload.subarray(0, metadataBytes));
    const trailers = metadataBytes > 0 ? metadata : undefined;
    if (name === 'ok') {
      if (detailsAt !== payload.length) throw protocol('success with details');
      return { trailers, error: undefined };
    }
    const text = endText(payload.subarray(metadataBytes, detailsAt));
    const message = `${labelOf(call)}: ${text === '' ? name : text}`;
    try {
      const details = decodeWith(
        json<unknown>(),
        payload.subarray(detailsAt),
        false,
        wireLimits.fragmentBytes,
      );
      return {
        trailers,
        error: fromPeer(new RpcError(name, message, { details, metadata }), text),
      };
    } catch (error) {
      return { trailers, error: SidecallError.from(error) };
    }
  }

  #onReset(call: OutgoingCall, reason: number): void {
    const code = resetCodes[reason];
    if (code === undefined) throw protocol('reset without a known reason');
    call.close('peer');
    const text = `${call.method}: ${resetText[code]}`;
    call.fail(new SidecallError(code, text));
    this.#shared.onProgress();
  }

  #metadata(bytes: Uint8Array): Metadata {
    if (bytes.length > this.#shared.own.metadataMaxBytes) throw protocol('metadata over the limit');
    return decodeMetadata(bytes);
  }
}

/** The error of an answer that its codec refused, with the name of the method. */
function undecodable({ method }: OutgoingCall, error: unknown): unknown {
  if (!SidecallError.is(error) || error.code !== 'ERR_SIDECALL_DECODE') return error;
  const text = `${method}: the answer could not be decoded: ${error.message}`;
  return new SidecallError(error.code, text);
}

/**
 * The call as its caller wrote it, for the text of errors: an 'error' of a byte stream without a
 * listener ends the process, and prints little but its text.
 */
function labelOf({ kind, method }: OutgoingCall): string {
  if (kind === CallKind.duplex) return `openDuplex({ name: '${method}' })`;
  if (kind === CallKind.channel) return `openChannel(…, { name: '${method}' })`;
  return method;
}

const resetCodes: Record<number, keyof typeof resetText | undefined> = {
  [ResetReason.cancelled]: 'ERR_SIDECALL_CANCELLED',
  [ResetReason.deadlineExceeded]: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
  [ResetReason.limitStreams]: 'ERR_SIDECALL_LIMIT_STREAMS',
  [ResetReason.goingAway]: 'ERR_SIDECALL_GOING_AWAY',
};

const resetText = {
  ERR_SIDECALL_DEADLINE_EXCEEDED: 'the deadline passed at the peer',
  ERR_SIDECALL_LIMIT_STREAMS: 'the peer runs as many handlers as it allows',
  ERR_SIDECALL_GOING_AWAY: 'the peer is closing and did not start this call',
  ERR_SIDECALL_CANCELLED: 'the peer gave it up',
} as const;

function tell(listener: ((metadata: Metadata) => void) | undefined, metadata: Metadata): void {
  if (listener === undefined) return;
  try {
    listener(metadata);
  } catch (error) {
    throwLater(error);
  }
}

/** Memory for the answer of a call, of which the first piece has `firstBytes` bytes. */
function assemblyFor(
  { transport }: SessionShared,
  call: OutgoingCall,
  messageBytes: number,
  firstBytes: number,
): MessageAssembly {
  const response = call.response as Codec<unknown>;
  const place = answerPlace(messageBytes, response, call.options.into);
  return MessageAssembly.arriving(transport, messageBytes, firstBytes, response, place);
}
