// SPDX-License-Identifier: MIT
// Metadata of calls, as gRPC carries it and as handlers and callers of this package see it.
import { Buffer } from 'node:buffer';
import { Metadata as GrpcMetadata } from '@grpc/grpc-js';
import type { MetadataValue, Metadata as OwnMetadata } from '../../base/metadata.ts';

/** The trailer with the details of an `RpcError`, as JSON. */
export const detailsKey = 'sidecall-details-bin';
/**
 * The name of the codec of the requests. grpc-js sends `content-type: application/grpc` and nothing
 * else, so that the content has to be named here.
 */
export const codecKey = 'sidecall-codec';

// Of HTTP/2 and gRPC themselves.
const reservedKeys =
  /^(grpc-.*|te|content-type|content-length|connection|keep-alive|proxy-connection|transfer-encoding|upgrade|host|http2-settings)$/;

/** The key of gRPC with the details of an error, which a program may set itself. */
export const statusKey = 'grpc-status-details-bin';

/**
 * Bytes of headers or trailers that HTTP/2 of Node carries, encoded, with room for those of gRPC:
 * longer ones hang the whole connection.
 */
const headersMaxBytes = 60_000;
/** Bytes that HTTP/2 counts for each field, beside those of its name and value. */
const fieldBytes = 32;

/**
 * @throws {TypeError} for what gRPC does not carry: text beyond ASCII or with spaces around it,
 * names that are taken, more than `headersMaxBytes`.
 */
export function toGrpc(metadata: OwnMetadata | undefined): GrpcMetadata {
  const grpc = new GrpcMetadata();
  for (const [key, value] of Object.entries(metadata ?? {})) {
    if (reservedKeys.test(key) && key !== statusKey)
      throw new TypeError(`metadata '${key}' is gRPC's own`);
    if (key.startsWith('sidecall-')) throw new TypeError(`metadata '${key}' is sidecall's own`);
    const values: readonly (string | Uint8Array)[] = Array.isArray(value) ? value : [value];
    for (const each of values) {
      if (typeof each === 'string' && each.trim() !== each)
        throw new TypeError(`metadata '${key}' has spaces around its text, which HTTP/2 drops`);
      grpc.add(key, typeof each === 'string' ? each : Buffer.from(each));
    }
  }
  checkHeaders(grpc, 0);
  return grpc;
}

/** @throws {TypeError} for more than `headersMaxBytes`. `others`: bytes of other fields. */
export function checkHeaders(metadata: GrpcMetadata, others: number): void {
  let bytes = others;
  for (const key of Object.keys(metadata.getMap())) {
    for (const value of metadata.get(key)) {
      const ofValue = typeof value === 'string' ? value.length : 4 * Math.ceil(value.length / 3);
      bytes += key.length + ofValue + fieldBytes;
    }
  }
  if (bytes <= headersMaxBytes) return;
  throw new TypeError(
    `${bytes} bytes of metadata, as HTTP/2 has them, are more than the ${headersMaxBytes} that it carries`,
  );
}

/**
 * Several texts of one key are joined, as HTTP does; several byte arrays are an array. The keys of
 * this package itself are left out.
 */
export function fromGrpc(metadata: GrpcMetadata): OwnMetadata {
  const own: Record<string, MetadataValue> = Object.create(null);
  for (const key of Object.keys(metadata.getMap())) {
    if (key.startsWith('sidecall-')) continue;
    const values = metadata.get(key);
    if (!key.endsWith('-bin')) own[key] = values.join(', ');
    else own[key] = values.length === 1 ? (values[0] as Buffer) : (values as Buffer[]);
  }
  return own;
}
