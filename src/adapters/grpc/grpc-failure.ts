// SPDX-License-Identifier: MIT
// The failures of gRPC calls: those that the other side has said, and those of the way there.
import { type ServiceError, status as statusNumbers } from '@grpc/grpc-js';
import { statuses } from '../../base/error-codes.ts';
import { errorText } from '../../base/error-text.ts';
import { RpcError } from '../../base/errors.ts';
import { localFailure } from '../forwarding/local-failure.ts';
import { detailsKey, fromGrpc } from './grpc-metadata.ts';

/** Words of grpc-js for connections that were not made, and for those that were lost. */
const unconnected = /^(No connection established|Name resolution failed|Channel closed)/;
const lost =
  /^(Connection dropped|Received RST_STREAM|Stream refused|Connection closed|Call ended without|.*ECONNRESET|.*transport)/i;

/**
 * The error of a call.
 * @param wireName of the method, for the text.
 */
export function failureOf(wireName: string, error: ServiceError): RpcError {
  const { code, details: text, metadata } = error;
  if (code === statusNumbers.UNAVAILABLE && unconnected.test(text)) {
    const facts = { delivered: 'no', retryable: true } as const;
    return localFailure('ERR_SIDECALL_NO_LISTENER', `${wireName}: ${text}`, facts);
  }
  const mayBeLost = code === statusNumbers.UNAVAILABLE || code === statusNumbers.INTERNAL;
  if (mayBeLost && lost.test(text)) {
    const facts = { delivered: 'unknown', retryable: true } as const;
    return localFailure('ERR_SIDECALL_PEER_GONE', `${wireName}: ${text}`, facts);
  }
  const status = statuses[code] ?? 'unknown';
  if (status === 'ok') return new RpcError('unknown', text);
  const [encoded] = metadata.get(detailsKey);
  const own = fromGrpc(metadata);
  return new RpcError(status, text, { details: detailsOf(encoded), metadata: withoutHttp(own) });
}

/** The headers of HTTP that grpc-js leaves in the metadata of an answer without messages. */
const httpKeys = /^(content-type|date|server|grpc-.*)$/;

/** Metadata of the other side alone. */
export function withoutHttp<T>(metadata: { readonly [key: string]: T }): { [key: string]: T } {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => !httpKeys.test(key)));
}

function detailsOf(encoded: string | Buffer | undefined): unknown {
  if (encoded === undefined) return undefined;
  try {
    return JSON.parse(String(encoded));
  } catch {
    return undefined; // of a program that uses the key for something else
  }
}

/** The failure of a call that grpc-js cannot send, by the fault of its caller. */
export function unsayable(wireName: string, cause: unknown): RpcError {
  const text = `${wireName}: gRPC cannot carry the call: ${errorText(cause)}`;
  return localFailure('ERR_SIDECALL_ENCODE', text, { delivered: 'no', retryable: false });
}
