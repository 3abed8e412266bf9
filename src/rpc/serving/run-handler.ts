// SPDX-License-Identifier: MIT
// Runs the handler of a call, and turns what it gives or throws into the answer.
import { RpcError, SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { isIterable } from '../../base/iterable.ts';
import { isThenable } from '../../base/thenable.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import type { Codec } from '../contract/codec.ts';
import {
  encodeMessage,
  type Message,
  messageBytesOf,
  releaseMessage,
} from '../contract/encode-message.ts';
import { releaseBlockIn } from '../contract/leases.ts';
import { traceHandler } from '../counting/call-trace.ts';
import { inScope } from '../deadline.ts';
import { shortWay } from '../short-way.ts';
import type { Admission } from './admission.ts';
import { type AnswerSender, answerOf } from './answer-sender.ts';
import { bytesOf, endOf, faultEnd, plainEnd, reportFailure } from './failure-reply.ts';
import { HandlerContext } from './handler-context.ts';
import type { IncomingCall } from './incoming-call.ts';
import type { Served } from './registry.ts';

export class HandlerRunner {
  readonly #admission: Admission;
  readonly #answers: AnswerSender;

  constructor(admission: Admission, answers: AnswerSender) {
    this.#admission = admission;
    this.#answers = answers;
  }

  /** Runs the handler. Never throws: an error of the handler fails its call. */
  run(call: IncomingCall, served: Served, value: unknown): void {
    this.#admission.noteStarted(call);
    const { method, kind } = call.opening;
    const trace = traceHandler(call.calls.shared, method, kind);
    if (trace !== undefined) {
      call.trace = trace;
      trace.countReceived(call.requestBytes ?? 0);
    }
    call.start();
    const { rare, opening } = call;
    const isPlain =
      rare === undefined && opening.deadline === undefined && kind !== CallKind.notification;
    served.context.runInAsyncScope(isPlain ? this.handle : runInContext, this, call, served, value);
  }

  /** @internal In the asynchronous context of `serve()`. */
  handle(call: IncomingCall, served: Served, value: unknown): void {
    let result: unknown;
    let later: Promise<unknown> | undefined;
    try {
      result = served.handler(value, new HandlerContext(call));
      if (served.isStreaming) later = sendAll(call, served, result);
      // Through Promise.resolve: a thenable of the handler's own may call back twice, or throw.
      else if (isThenable(result)) later = Promise.resolve(result);
    } catch (error) {
      return this.#onThrown(call, served, error);
    }
    if (later === undefined) return this.#onReturned(call, served, result);
    later.then(
      (answer) => this.#onReturned(call, served, answer),
      (error) => this.#onThrown(call, served, error),
    );
  }

  /** The handler has settled: a request that it has borrowed goes back, unless it is the answer. */
  #onReturned(call: IncomingCall, served: Served, value: unknown): void {
    this.#admission.noteSettled(call);
    if (!call.settle()) {
      call.returnRequest();
      return releaseBlockIn(value);
    }
    if (served.response === undefined) {
      call.returnRequest();
      releaseBlockIn(value);
      return call.answer(plainEnd('ok', ''));
    }
    let message: Message;
    let trailers: Uint8Array = noBytes;
    try {
      const {
        calls: { shared },
        rare,
      } = call;
      if (rare !== undefined) trailers = encodeMetadata(rare.trailers, shared.metadataMaxBytes);
      if (served.isStreaming) {
        // Messages that wait to be sent are copies, made by the send queue.
        call.returnRequest();
        return call.answer(plainEnd('ok', '', trailers));
      }
      message = encodeMessage(shared, served.response, value);
    } catch (error) {
      call.returnRequest();
      releaseBlockIn(value);
      if (call.isOver) return;
      // The answer cannot be encoded: a fault like any other.
      const { shared, isOverfull } = call.calls;
      reportFailure(shared, call, error);
      call.trace?.note(error);
      return call.answer(faultEnd(shared, error, isOverfull));
    }
    // A codec, or a `toJSON()`, may have used the context, or ended the session.
    if (call.state !== 'open') {
      releaseMessage(message);
      return call.returnRequest();
    }
    const messageBytes = messageBytesOf(message);
    this.#admission.noteAnswer(call, messageBytes);
    const mayGoNow = call.rare === undefined && shortWay.isOn;
    if (mayGoNow && this.#answers.sendNow(call, message, messageBytes)) {
      return call.onAnswered();
    }
    call.trace?.countSent(messageBytes);
    this.#answers.add(call, answerOf(call, served.response, message, messageBytes, trailers));
  }

  #onThrown(call: IncomingCall, served: Served, error: unknown): void {
    this.#admission.noteSettled(call);
    call.returnRequest();
    // A handler whose call was given up may end by throwing: its error is dropped.
    if (!call.settle()) return;
    call.trace?.note(error);
    const { shared, isOverfull } = call.calls;
    if (RpcError.is(error)) {
      const end = endOf(shared, call, error);
      this.#admission.noteAnswer(call, bytesOf(end));
      return call.answer(end);
    }
    reportFailure(shared, call, error);
    const isTooLong = SidecallError.is(error) && error.code === 'ERR_SIDECALL_MESSAGE_TOO_LARGE';
    if (isTooLong && served.isStreaming) {
      return call.answer(plainEnd('resource_exhausted', error.message));
    }
    call.answer(faultEnd(shared, error, isOverfull));
  }
}

/** Calls that the handler makes inherit its deadline and know the notification that runs it. */
function runInContext(
  this: HandlerRunner,
  call: IncomingCall,
  served: Served,
  value: unknown,
): void {
  const { deadline, kind } = call.opening;
  const { trace } = call;
  const handle = (): void => this.handle(call, served, value);
  const run = trace === undefined ? handle : (): void => trace.run(handle);
  if (deadline === undefined && kind !== CallKind.notification) run();
  else inScope(call, run);
}

/** Sends what a handler yields, each message when there is room. Ends when the call does. */
async function sendAll(call: IncomingCall, served: Served, result: unknown): Promise<void> {
  const writer = call.openWriter(served.response as Codec<unknown>);
  if (call.isOver) writer.fail(new SidecallError('ERR_SIDECALL_CANCELLED'));
  const messages = isThenable(result) ? await result : result;
  if (!isIterable(messages)) {
    const given = messages === null ? 'null' : typeof messages;
    throw new TypeError(`the handler must give something to iterate, and no text; got ${given}`);
  }
  for await (const message of messages) await writer.send(message);
}
