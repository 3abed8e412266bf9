// SPDX-License-Identifier: MIT
// The message of golib's RPC, request and answer alike: `Payload` of its package chunk/rpc.
import protobufjs from 'protobufjs/minimal.js';

/** The kinds of errors of golib, by their numbers. */
export const ErrorKind = {
  none: 0,
  methodNotFound: 1,
  deadlineExceeded: 2,
  badData: 3,
  server: 4,
} as const;

/** A request, an answer, or an error. */
export interface Payload {
  /** 0: golib leaves it out of errors of its server. */
  readonly id: number;
  /** Deadline by the wall clock, in nanoseconds since 1970; 0: it is missing. */
  readonly deadlineNanos: bigint;
  readonly method: string;
  readonly data: Uint8Array;
  readonly errorKind: number;
  readonly error: string;
}

const none = new Uint8Array(0);

export function encodePayload(payload: Partial<Payload>): Uint8Array {
  const { id, deadlineNanos, method, data, errorKind, error } = payload;
  const writer = protobufjs.Writer.create();
  if (id) writer.uint32(8).uint32(id);
  if (deadlineNanos) writer.uint32(16).int64(longOf(deadlineNanos) as never);
  if (method) writer.uint32(26).string(method);
  if (data && data.length > 0) writer.uint32(34).bytes(data);
  if (errorKind) writer.uint32(40).uint32(errorKind);
  if (error) writer.uint32(50).string(error);
  return writer.finish();
}

/** As protobufjs takes it: two halves of 32 bits. */
function longOf(value: bigint): object {
  return {
    low: Number(BigInt.asIntN(32, value)),
    high: Number(BigInt.asIntN(32, value >> 32n)),
    unsigned: false,
  };
}

/** @throws {Error} for bytes that are no such message. */
export function decodePayload(bytes: Uint8Array): Payload {
  const reader = protobufjs.Reader.create(bytes);
  let id = 0;
  let deadlineNanos = 0n;
  let method = '';
  let data: Uint8Array = none;
  let errorKind = 0;
  let error = '';
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === 8) id = reader.uint32();
    else if (tag === 16) deadlineNanos = BigInt(String(reader.int64()));
    else if (tag === 26) method = reader.string();
    else if (tag === 34) data = reader.bytes();
    else if (tag === 40) errorKind = reader.uint32();
    else if (tag === 50) error = reader.string();
    else reader.skipType(tag & 7);
  }
  return { id, deadlineNanos, method, data, errorKind, error };
}
