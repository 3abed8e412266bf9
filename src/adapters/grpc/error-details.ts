// SPDX-License-Identifier: MIT
// The details of an error as gRPC carries them: JSON in a key of ours, or the standard
// google.rpc.Status, where they are a list of google.protobuf.Any.
import { Buffer } from 'node:buffer';
import type { Metadata } from '@grpc/grpc-js';
import protobufjs from 'protobufjs';
import { isBytes } from '../../base/brands.ts';
import { json } from '../../rpc/contract/json.ts';
import { detailsKey, statusKey } from './grpc-metadata.ts';

const { root } = protobufjs.parse(`syntax = "proto3";
package google.rpc;
message Any { string type_url = 1; bytes value = 2; }
message Status { int32 code = 1; string message = 2; repeated Any details = 3; }`);
const Status = root.lookupType('google.rpc.Status');

/** A detail of an error, as `google.rpc.Status` has it. */
interface Any {
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

// Details of the other side are read up to so many bytes, as many as an RpcError may have.
const detailsMaxBytes = 65_536;
const codec = json<unknown>();

/**
 * Adds the details of an error to its trailers, unless these have a status of their own.
 * @throws {TypeError} for details that JSON does not carry.
 */
export function setDetails(
  metadata: Metadata,
  error: { readonly code: number; readonly message: string; readonly details: unknown },
): void {
  const { details } = error;
  if (details === undefined || metadata.get(statusKey).length > 0) return;
  if (isAnyList(details)) {
    const status = { ...error, details: details.map(({ typeUrl, value }) => ({ typeUrl, value })) };
    metadata.set(statusKey, Buffer.from(Status.encode(Status.create(status)).finish()));
  } else {
    metadata.set(detailsKey, Buffer.from(codec.encode(details) as string));
  }
}

/**
 * The details in the trailers of a failed call; undefined: there are none. Those of a
 * `google.rpc.Status` are a list of `{ typeUrl, value }`, or the bytes of what is none.
 */
export function detailsOf(metadata: Metadata): unknown {
  const [own] = metadata.get(detailsKey) as Buffer[];
  if (own !== undefined) return own.length > detailsMaxBytes ? undefined : decoded(own);
  const [status] = metadata.get(statusKey) as Buffer[];
  if (status === undefined || status.length > detailsMaxBytes) return undefined;
  try {
    const { details } = Status.decode(status) as unknown as { readonly details: readonly Any[] };
    return details.map(({ typeUrl, value }) => ({ typeUrl, value: new Uint8Array(value) }));
  } catch {
    return new Uint8Array(status);
  }
}

function decoded(bytes: Buffer): unknown {
  try {
    return codec.decode(bytes, false);
  } catch {
    return undefined; // of a program that uses the key for something else
  }
}

function isAnyList(details: unknown): details is readonly Any[] {
  const isAny = (each: unknown): boolean => {
    const { typeUrl, value } = (each ?? {}) as Partial<Any>;
    return typeof typeUrl === 'string' && isBytes(value);
  };
  return Array.isArray(details) && details.length > 0 && details.every(isAny);
}
