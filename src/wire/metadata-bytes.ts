// SPDX-License-Identifier: MIT
// The bytes of key-values: u16 key length, key, u32 value length, value, repeated.

import { Buffer, isUtf8 } from 'node:buffer';
import { isBytes, isPlain } from '../base/brands.ts';
import { SidecallError } from '../base/errors.ts';
import { noBytes } from '../base/ignore-errors.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import type { Metadata, MetadataValue } from '../base/metadata.ts';
import { nodeError } from '../base/misuse.ts';

const keyPattern = /^[a-z0-9_.-]{1,256}$/;
const noEntries: Metadata = Object.freeze(Object.create(null) as Metadata);

/**
 * Bytes of `metadata`.
 * @throws {TypeError} for what is no plain object, a key that is not lower case ASCII, or a value
 * of the wrong type.
 * @throws {SidecallError} `ERR_SIDECALL_MESSAGE_TOO_LARGE` above `maxBytes` or 64 entries.
 */
export function encodeMetadata(metadata: Metadata | undefined, maxBytes: number): Uint8Array {
  if (metadata === undefined) return noBytes;
  checkPlainMetadata(metadata);
  const keys = Object.keys(metadata);
  if (keys.length === 0) return noBytes;
  let entries = 0;
  const parts: Buffer[] = [];
  let bytes = 0;
  for (const key of keys) {
    const values = valuesOf(key, metadata[key]);
    entries += values.length;
    if (entries > wireLimits.metadataEntriesMax) throw tooLarge(entries, undefined, maxBytes);
    for (const each of values) {
      const value = encodeValue(key, each);
      const head = Buffer.allocUnsafe(2 + key.length + 4);
      head.writeUInt16LE(key.length, 0);
      head.write(key, 2, 'latin1');
      head.writeUInt32LE(value.length, 2 + key.length);
      parts.push(head, value);
      bytes += head.length + value.length;
    }
  }
  if (bytes <= maxBytes) return Buffer.concat(parts);
  throw tooLarge(entries, bytes, maxBytes);
}

/** The values of a key: only one of bytes can have several. */
function valuesOf(key: string, value: MetadataValue | undefined): readonly unknown[] {
  return Array.isArray(value) && key.endsWith('-bin') ? value : [value];
}

function tooLarge(entries: number, bytes: number | undefined, maxBytes: number): SidecallError {
  const size = bytes === undefined ? ' or more' : ` and ${bytes} bytes`;
  const text = `metadata of ${entries} entries${size} exceeds what the peer takes: ${wireLimits.metadataEntriesMax} entries, ${maxBytes} bytes`;
  return new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
}

/**
 * The key-values in `bytes`, without a prototype.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what no correct peer sends.
 */
export function decodeMetadata(bytes: Uint8Array): Metadata {
  if (bytes.length === 0) return noEntries;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const metadata = Object.create(null) as Record<string, MetadataValue>;
  let at = 0;
  let entries = 0;
  const take = (count: number): Buffer => {
    if (count > view.length - at) throw broken('an entry runs past the end');
    at += count;
    return view.subarray(at - count, at);
  };
  while (at < view.length) {
    entries += 1;
    if (entries > wireLimits.metadataEntriesMax) throw broken('more than 64 entries');
    const key = take(take(2).readUInt16LE(0)).toString('latin1');
    if (!keyPattern.test(key)) throw broken('a key that is not lower case ASCII');
    const value = take(take(4).readUInt32LE(0));
    const before = metadata[key];
    if (key.endsWith('-bin')) metadata[key] = withValue(before, new Uint8Array(value));
    else if (before !== undefined) throw broken('a key twice');
    else if (!isUtf8(value)) throw broken('a value that is not UTF-8');
    else metadata[key] = value.toString('utf8');
  }
  return metadata;
}

function withValue(before: MetadataValue | undefined, value: Uint8Array): MetadataValue {
  if (before === undefined) return value;
  return Array.isArray(before) ? [...before, value] : [before as Uint8Array, value];
}

/**
 * A Map has no keys of its own, a string has one per letter: both would be lost in silence.
 * @throws {TypeError} for what is no plain object.
 */
export function checkPlainMetadata(metadata: unknown): void {
  if (typeof metadata === 'object' && metadata !== null && isPlain(metadata)) return;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'metadata must be a plain object');
}

function encodeValue(key: string, value: unknown): Buffer {
  if (!keyPattern.test(key)) {
    const isUpper = typeof key === 'string' && keyPattern.test(key.toLowerCase());
    const advice = isUpper ? `: write '${key.toLowerCase()}'` : '';
    const text = `metadata key '${key}' must be 1 to 256 of a-z 0-9 _ . -${advice}`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  if (key.endsWith('-bin')) {
    if (isBytes(value)) return Buffer.from(value);
    const text = `metadata '${key}' must be a Uint8Array because its key ends in -bin`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  if (typeof value === 'string') return Buffer.from(value, 'utf8');
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `metadata '${key}' must be a string`);
}

function broken(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `metadata with ${what}`);
}
