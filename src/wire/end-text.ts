// SPDX-License-Identifier: MIT
// The text of an `end` frame: why a call or a channel failed, as the peer says it.
import { Buffer, isUtf8 } from 'node:buffer';
import { protocol } from './frame-header.ts';

/**
 * The text that `bytes` hold. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for bytes that are no
 * UTF-8.
 */
export function endText(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw protocol('end frame whose text is not UTF-8');
  return Buffer.from(bytes).toString('utf8');
}
