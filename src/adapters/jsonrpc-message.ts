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

/** Length up to which a body is parsed to find its id. */
const parsedMaxBytes = 64 * 1024;
/** Bytes at each end of a longer one in which its id is looked for. */
const searchedBytes = 1_024;
const version = '"jsonrpc"\\s*:\\s*"2\\.0"';
const id = '"id"\\s*:\\s*(-?(?:0|[1-9]\\d{0,20})|"[^"\\\\\\0-\\x1f]{0,256}")';
const outcome = '"(?:result|error)"\\s*:';
const idFirst = new RegExp(
  `^\\s*\\{\\s*(?:${version}\\s*,\\s*)?${id}\\s*,\\s*(?:${version}\\s*,\\s*)?${outcome}`,
);
const outcomeFirst = new RegExp(`^\\s*\\{\\s*(?:${version}\\s*,\\s*)?${outcome}`);
const idLast = new RegExp(`,\\s*${id}\\s*(?:,\\s*${version}\\s*)?\\}\\s*$`);

/**
 * As {@link responseId}, of a body. A long one is not parsed, which can take seconds: its id is
 * found in front of the result, or behind it.
 */
export function responseIdOf(body: Buffer): unknown {
  if (body.length <= parsedMaxBytes) return responseId(parsed(body));
  const head = body.toString('latin1', 0, searchedBytes);
  const tail = body.toString('utf8', body.length - searchedBytes);
  const last = outcomeFirst.test(head) ? idLast.exec(tail) : null;
  const [, found] = idFirst.exec(body.toString('utf8', 0, searchedBytes)) ?? last ?? [];
  return found === undefined ? undefined : JSON.parse(found);
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
