// SPDX-License-Identifier: MIT
// The failures of gRPC calls: those that the other side has said, and those of the way there.
import {
  type Metadata as GrpcMetadata,
  type ServiceError,
  status as statusNumbers,
} from '@grpc/grpc-js';
import { statuses } from '../../base/error-codes.ts';
import { errorText } from '../../base/error-text.ts';
import { RpcError } from '../../base/errors.ts';
import { sessionRanges } from '../../base/limits/option-limits.ts';
import type { Metadata as OwnMetadata } from '../../base/metadata.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import { localFailure } from '../forwarding/local-failure.ts';
import { detailsOf } from './error-details.ts';
import { fromGrpc, statusKey } from './grpc-metadata.ts';

/** Words of grpc-js for connections that were not made, and for those that were lost. */
const unconnected = /^(No connection established|Name resolution failed|Channel closed)/;
const lost =
  /^(Connection dropped|Received RST_STREAM|Connection closed|.*ECONNRESET|.*transport)/i;

/** Text of the other side is cut to so many characters. */
const textMax = 8_192;

/**
 * The error of a call.
 * @param wireName of the method, for the text.
 * @param hasHeard headers of the server have come. `delivered: 'no'` is claimed only where nothing
 * has come from the server, since a server can send the same texts as grpc-js.
 */
export function failureOf(wireName: string, error: ServiceError, hasHeard: boolean): RpcError {
  const { code, details, metadata } = error;
  const text = details.slice(0, textMax);
  const isLocal = !hasHeard && Object.keys(metadata.getMap()).length === 0;
  if (isLocal && code === statusNumbers.UNAVAILABLE && unconnected.test(text)) {
    const facts = { delivered: 'no', retryable: true } as const;
    return localFailure('ERR_SIDECALL_NO_LISTENER', `${wireName}: ${text}`, facts);
  }
  if (isLocal && text === refused) {
    const facts = { delivered: 'no', retryable: true } as const;
    return localFailure('ERR_SIDECALL_GOING_AWAY', `${wireName}: ${text}`, facts);
  }
  if (code === statusNumbers.INTERNAL && text.endsWith(withoutStatus))
    return new RpcError('unknown', text);
  if (isLoss(error)) {
    const facts = { delivered: 'unknown', retryable: true } as const;
    return localFailure('ERR_SIDECALL_PEER_GONE', `${wireName}: ${text}`, facts);
  }
  const status = statuses[code] ?? 'unknown';
  if (status === 'ok') return new RpcError('unknown', text);
  return new RpcError(status, text, { details: detailsOf(metadata), metadata: ownOf(metadata) });
}

/** Words of grpc-js for REFUSED_STREAM, which no handler saw, and for an end without trailers. */
const refused = 'Stream refused by server';
const withoutStatus = '(Call ended without gRPC status)';
/** Words of grpc-js for the other codes with which a server resets a call, or ends a connection. */
const resets: { readonly [code: number]: string } = {
  [statusNumbers.CANCELLED]: 'Call cancelled',
  [statusNumbers.RESOURCE_EXHAUSTED]: 'Bandwidth exhausted or memory limit exceeded',
  [statusNumbers.PERMISSION_DENIED]: 'Protocol not secure enough',
};

function isLoss({ code, details, metadata }: ServiceError): boolean {
  const reset = resets[code];
  if (reset !== undefined) {
    return details === reset && Object.keys(metadata.getMap()).length === 0;
  }
  const mayBeLost = code === statusNumbers.UNAVAILABLE || code === statusNumbers.INTERNAL;
  // Trailers of the server's own make the failure an answer, whatever its words.
  const isSaid = Object.keys(metadata.getMap()).some((key) => !httpKeys.test(key));
  return mayBeLost && !isSaid && metadata.get(statusKey).length === 0 && lost.test(details);
}

/** Metadata of a failure; none where they cannot be passed on: the failure itself matters more. */
function ownOf(metadata: GrpcMetadata): OwnMetadata {
  try {
    return checkedMetadata(metadata);
  } catch {
    return {};
  }
}

/**
 * Metadata of the other side.
 * @throws {TypeError | SidecallError} for more than a session takes, and for other keys.
 */
export function checkedMetadata(metadata: GrpcMetadata): OwnMetadata {
  const own = withoutHttp(fromGrpc(metadata));
  encodeMetadata(own, sessionRanges.metadataMaxBytes.max);
  return own;
}

/** The headers of HTTP that grpc-js leaves in the metadata of an answer without messages. */
const httpKeys = /^(content-type|date|server|grpc-.*)$/;

/** Metadata of the other side alone. */
function withoutHttp<T>(metadata: { readonly [key: string]: T }): { [key: string]: T } {
  const isOwn = ([key]: [string, T]): boolean => key === statusKey || !httpKeys.test(key);
  return Object.fromEntries(Object.entries(metadata).filter(isOwn));
}

/** The failure of a call that grpc-js cannot send, by the fault of its caller. */
export function unsayable(wireName: string, cause: unknown): RpcError {
  const text = `${wireName}: gRPC cannot carry the call: ${errorText(cause)}`;
  return localFailure('ERR_SIDECALL_ENCODE', text, { delivered: 'no', retryable: false });
}
