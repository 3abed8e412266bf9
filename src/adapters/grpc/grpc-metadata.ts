// SPDX-License-Identifier: MIT
// Metadata of calls, as gRPC carries it and as handlers and callers of this package see it.
import { Buffer } from 'node:buffer';
import { Metadata as GrpcMetadata } from '@grpc/grpc-js';
import type { Metadata as OwnMetadata } from '../../base/metadata.ts';

/** The trailer with the details of an `RpcError`, as JSON. */
export const detailsKey = 'sidecall-details-bin';
/**
 * The name of the codec of the requests. grpc-js sends `content-type: application/grpc` and nothing
 * else, so that the content has to be named here.
 */
export const codecKey = 'sidecall-codec';

function metadataEntries(metadata: OwnMetadata | undefined): [string, string | Buffer][] {
  return Object.entries(metadata ?? {}).map(([key, value]) => [
    key,
    typeof value === 'string' ? value : Buffer.from(value),
  ]);
}

// Of HTTP/2 and gRPC themselves.
const reservedKeys =
  /^(grpc-.*|te|content-type|content-length|connection|keep-alive|proxy-connection|transfer-encoding|upgrade|host|http2-settings)$/;

/** @throws {TypeError} for what gRPC does not carry: text beyond ASCII, names that are taken. */
export function toGrpc(metadata: OwnMetadata | undefined): GrpcMetadata {
  const grpc = new GrpcMetadata();
  for (const [key, value] of metadataEntries(metadata)) {
    if (reservedKeys.test(key)) throw new TypeError(`metadata '${key}' is gRPC's own`);
    if (key.startsWith('sidecall-')) throw new TypeError(`metadata '${key}' is sidecall's own`);
    grpc.set(key, value);
  }
  return grpc;
}

/**
 * Several values of one key are joined, as HTTP does; of bytes the last is taken. The keys of this
 * package itself are left out.
 */
export function fromGrpc(metadata: GrpcMetadata): OwnMetadata {
  const own: Record<string, string | Uint8Array> = Object.create(null);
  for (const key of Object.keys(metadata.getMap())) {
    if (key.startsWith('sidecall-')) continue;
    const values = metadata.get(key);
    own[key] = key.endsWith('-bin') ? (values.at(-1) as Buffer) : values.join(', ');
  }
  return own;
}
