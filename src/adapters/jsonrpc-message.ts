// SPDX-License-Identifier: MIT
// Requests, notifications and responses of JSON-RPC. A peer may send any other value instead.
import { Buffer } from 'node:buffer';

/** A request has both parts, a notification `method`, a response `id`. */
export interface MessageParts {
  readonly id?: unknown;
  readonly method?: unknown;
}

export function partsOf(message: unknown): MessageParts {
  return typeof message === 'object' && message !== null ? message : {};
}

export function isRequest(message: unknown): boolean {
  const { id, method } = partsOf(message);
  return id !== undefined && method !== undefined;
}

export function isResponse(message: unknown): boolean {
  return responseId(message) !== undefined;
}

/** The request that a message answers; undefined: it is no response. */
export function responseId(message: unknown): unknown {
  const { id, method } = partsOf(message);
  return method === undefined ? id : undefined;
}

/** The value of a body; undefined: it is no JSON. */
export function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString());
  } catch {
    return undefined;
  }
}

// InternalError of JSON-RPC.
const internalError = -32_603;

/**
 * The error in place of a response that is too long for the other end: its caller would otherwise
 * wait for ever.
 */
export function tooLongResponse(id: unknown, { message }: Error): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code: internalError, message } });
}
