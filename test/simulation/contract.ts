// The contract of the simulated programs, and the bytes of their messages.
import { bytes } from '../../src/rpc/contract/codec.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import type { Client } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';

/** The wishes of a caller: how long its handler works, and how much it answers. */
export interface Wanted {
  /** Of the call, the same for all its attempts. */
  readonly id: number;
  readonly length: number;
  readonly pauseMs: number;
  /** Answers of a stream. */
  readonly count: number;
}

/** The answer of a handler that was given bytes. */
export interface Counted {
  readonly id: number;
  readonly messages: number;
  readonly bytes: number;
}

export const Program = service('Program', {
  get: unary<Wanted, Uint8Array>({ response: bytes }),
  put: unary<Uint8Array, Counted>({ request: bytes }),
  fail: unary<Wanted, void>(),
  headers: unary<Wanted, Uint8Array>({ response: bytes }),
  lease: unary({ request: leased, response: leased }),
  relay: unary<Wanted, Uint8Array>({ response: bytes }),
  wait: unary<Wanted, void>(),
  job: unary<Wanted, Uint8Array>({ response: bytes, idempotent: true }),
  note: notification<Uint8Array>({ request: bytes }),
  noteBack: notification<Wanted>(),
  download: serverStream<Wanted, Uint8Array>({ response: bytes }),
  upload: clientStream<Uint8Array, Counted>({ request: bytes }),
  echo: bidi<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
});

export type ProgramClient = Client<typeof Program.methods>;

const headBytes = 8;
const patternBytes = 256;
const pattern = Uint8Array.from({ length: patternBytes + 1_048_576 }, (_, at) => at * 7);

/** A message of this length that nobody else sends: the call, its number in it, and a pattern. */
export function messageOf(id: number, number: number, length: number): Uint8Array {
  const message = new Uint8Array(Math.max(headBytes, length));
  message.set(
    pattern.subarray(
      (id + number) % patternBytes,
      ((id + number) % patternBytes) + message.byteLength,
    ),
  );
  const view = new DataView(message.buffer);
  view.setUint32(0, id);
  view.setUint32(4, number);
  return message;
}

/** The call and the number of a message. @throws where a byte is not as it was sent. */
export function readMessage(message: Uint8Array): { id: number; number: number } {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  if (message.byteLength < headBytes) throw new Error(`a message of ${message.byteLength} bytes`);
  const [id, number] = [view.getUint32(0), view.getUint32(4)];
  if (Buffer.compare(message, messageOf(id, number, message.byteLength)) !== 0) {
    throw new Error(`message ${number} of ${id} has other bytes than it was sent with`);
  }
  return { id, number };
}

/** The request of an act. */
export function wanted(id: number, { length, pauseMs, count }: Omit<Wanted, 'id'>): Wanted {
  return { id, length, pauseMs, count };
}

/** The messages of an act. */
export function messagesOf(
  id: number,
  { count, length }: Pick<Wanted, 'count' | 'length'>,
): Uint8Array[] {
  return Array.from({ length: count }, (_, number) => messageOf(id, number, length));
}

/** The answer to a handler that has got all of these messages. */
export function countOf(id: number, messages: readonly Uint8Array[]): Counted {
  const sum = messages.reduce((total, { byteLength }) => total + byteLength, 0);
  return { id, messages: messages.length, bytes: sum };
}

/** All settle; then the first failure, if there is one. */
export async function allOf(promises: readonly Promise<unknown>[]): Promise<void> {
  const ends = await Promise.allSettled(promises);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** @throws where a message is not the one that was wanted. */
export function sameMessage(message: Uint8Array, id: number, length: number, number = 0): void {
  same(readMessage(message), { id, number });
  same(message.byteLength, Math.max(headBytes, length));
}

/** @throws where the two are not the same as JSON. */
export function same(got: unknown, expected: unknown): void {
  const [first, second] = [JSON.stringify(got), JSON.stringify(expected)];
  if (first !== second) throw new Error(`got ${first}, expected ${second}`);
}
