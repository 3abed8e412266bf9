// SPDX-License-Identifier: MIT
// The requests of a call of grpc-js, one at a time.
import type { EventEmitter } from 'node:events';
import type { ServerDuplexStream, ServerReadableStream } from '@grpc/grpc-js';
import { systemClock } from '../../base/clock.ts';
import { RpcError } from '../../base/errors.ts';

const turnsToClose = 4;

function afterTurns(turns: number, then: () => void): void {
  if (turns === 0) then();
  else systemClock.setImmediate(afterTurns, turns - 1, then);
}

type RequestCall =
  | ServerReadableStream<Uint8Array, Uint8Array>
  | ServerDuplexStream<Uint8Array, Uint8Array>;

/**
 * Requests as they come, one at a time. Not by the stream's own iterator, which destroys the call
 * with the first error, before its status has left.
 */
export function requestsOf(call: RequestCall): AsyncIterable<Uint8Array> {
  const emitter: EventEmitter = call;
  const waiting: Uint8Array[] = [];
  // `lost`: the caller has gone before it ended its requests. The iteration then fails, so that
  // half an upload does not look whole.
  let state: 'open' | 'ending' | 'ended' | 'lost' = 'open';
  let wake: () => void = () => undefined;
  const become = (next: typeof state, from: readonly (typeof state)[]): void => {
    if (from.includes(state)) state = next;
    wake();
  };
  call.pause();
  emitter.on('data', (request: Uint8Array) => {
    if (state === 'ended') return; // the handler takes no more
    waiting.push(request);
    call.pause();
    wake();
  });
  // A reset stream emits 'end', too. grpc-js emits 'cancelled' when Node has closed the stream: two
  // turns of the event loop later, in 400 of 400 measurements.
  emitter.once('end', () => {
    become('ending', ['open']);
    afterTurns(turnsToClose, () => become('ended', ['ending']));
  });
  emitter.once('cancelled', () => become('lost', ['open', 'ending']));
  for (const event of ['error', 'close']) emitter.once(event, () => become('lost', ['open']));
  const iterator: AsyncIterator<Uint8Array, undefined> = {
    async next() {
      while (waiting.length === 0) {
        if (state === 'lost') throw new RpcError('cancelled', 'the caller has gone');
        if (state === 'ended') return { done: true, value: undefined };
        const more = new Promise<void>((resolve) => {
          wake = resolve;
        });
        call.resume();
        await more;
      }
      return { done: false, value: waiting.shift() as Uint8Array };
    },
    async return() {
      become('ended', ['open', 'ending']);
      waiting.length = 0;
      call.resume(); // what still comes is dropped, so that its end arrives
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
