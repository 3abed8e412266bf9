// SPDX-License-Identifier: MIT
// The bytes of the hello and of its answer. docs/protocol.md draws them.
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { SidecallError } from '../base/errors.ts';
import { ranges, type SessionLimits, sessionRanges } from '../base/limits/option-limits.ts';

export const helloBytes = 64;

export const answerBytes = 8;

/** The bytes `scal`, little-endian: tells a foreign byte order too. */
const helloMagic = 0x6c61_6373;

/** The protocol versions that this build speaks. */
export const versionMin = 1;

export const versionMax = 1;

/** The verdicts of an answer on the peer's hello. */
export const Verdict = { ring: 0, socketLane: 1, noVersion: 2, full: 3 } as const;

/** The flags of a hello: the memory that it announces. */
export const HelloFlag = {
  /** Its descriptor rides on the first byte of this hello. */
  descriptor: 1,
  /** Its descriptor follows on the first byte of the answer, if the peer offers memory, too. */
  descriptorFollows: 2,
} as const;

/**
 * The abilities that a hello announces; a reader ignores bits that it does not know.
 */
export const HelloFeature = {
  /** It takes messages that lie in the block area of the other side's memory. */
  takesBlocks: 1,
  /** It connects to take the path over. Of the connecting side alone. */
  takesOver: 2,
} as const;

const knownFeatures = HelloFeature.takesBlocks | HelloFeature.takesOver;

/** Limits that a hello carries. */
export type HelloLimits = Pick<
  SessionLimits,
  'receiveMaxBytes' | 'metadataMaxBytes' | 'streamsMax' | 'streamWindowBytes'
>;

/** An outbox as the hello announces it and its own header repeats it. Sizes in bytes. */
export interface MemoryShape {
  readonly capacity: number;
  readonly blockArea: number;
  readonly nonce: Uint8Array;
}

/** The peer's hello. */
export interface PeerHello {
  readonly version: number;
  /** Of {@link HelloFeature}. */
  readonly features: number;
  readonly limits: HelloLimits;
  /** Memory that it announces; undefined: none. */
  readonly memory: MemoryShape | undefined;
}

/**
 * Our hello. `memory` undefined: capacity and block area are 0. `features`: those without memory.
 */
export function encodeHello(
  limits: HelloLimits,
  memory?: { readonly shape: MemoryShape; readonly features: number },
  flags = 0,
  features = 0,
): Buffer {
  const bytes = Buffer.alloc(helloBytes);
  bytes.writeUInt32LE(helloMagic, 0);
  bytes.writeUInt16LE(versionMin, 4);
  bytes.writeUInt16LE(versionMax, 6);
  bytes.writeUInt32LE((memory?.features ?? 0) | features, 8);
  bytes.writeUInt32LE(flags, 12);
  bytes.writeBigUInt64LE(BigInt(memory?.shape.capacity ?? 0), 16);
  bytes.writeBigUInt64LE(BigInt(memory?.shape.blockArea ?? 0), 24);
  bytes.set(memory?.shape.nonce ?? randomBytes(16), 32);
  bytes.writeUInt32LE(limits.receiveMaxBytes, 48);
  bytes.writeUInt32LE(limits.streamsMax, 52);
  bytes.writeUInt32LE(limits.metadataMaxBytes, 56);
  bytes.writeUInt32LE(limits.streamWindowBytes, 60);
  return bytes;
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for fields that no correct peer sends. */
export function decodeHello(bytes: Buffer): PeerHello & { flags: number } {
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('the magic number is not ours');
  const min = bytes.readUInt16LE(4);
  const max = bytes.readUInt16LE(6);
  if (min === 0 || min > max) throw violation(`${min} to ${max} is not a range of versions`);
  const flags = bytes.readUInt32LE(12);
  if (flags > HelloFlag.descriptorFollows) throw violation('unknown flags');
  const memory = decodeMemory(bytes, flags);
  const limits = {
    receiveMaxBytes: bytes.readUInt32LE(48),
    streamsMax: bytes.readUInt32LE(52),
    metadataMaxBytes: bytes.readUInt32LE(56),
    streamWindowBytes: bytes.readUInt32LE(60),
  };
  for (const name of Object.keys(limits) as (keyof HelloLimits)[]) {
    const { min: least, max: most } = sessionRanges[name];
    if (limits[name] < least || limits[name] > most) throw violation(`${name} is out of range`);
  }
  return {
    version: min <= versionMax && max >= versionMin ? Math.min(max, versionMax) : 0,
    features: bytes.readUInt32LE(8) & knownFeatures,
    limits,
    memory,
    flags,
  };
}

export function encodeAnswer(verdict: number, version: number): Buffer {
  const bytes = Buffer.alloc(answerBytes);
  bytes.writeUInt32LE(helloMagic, 0);
  bytes.writeUInt16LE(verdict, 4);
  bytes.writeUInt16LE(version, 6);
  return bytes;
}

/**
 * The verdict of an answer. `version`: the agreed one, which the answer must repeat; 0: there is
 * none. A refusal need not repeat it.
 */
export function decodeAnswer(bytes: Buffer, version: number): number {
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('an answer without its magic number');
  const verdict = bytes.readUInt16LE(4);
  if (verdict === Verdict.noVersion) throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH');
  if (verdict === Verdict.full) throw new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS');
  if (verdict > Verdict.full) throw violation('an answer with an unknown verdict');
  if (version !== 0 && bytes.readUInt16LE(6) !== version)
    throw violation('an answer with another version');
  return verdict;
}

function decodeMemory(bytes: Buffer, flags: number): MemoryShape | undefined {
  const capacity = bytes.readBigUInt64LE(16);
  const blockArea = bytes.readBigUInt64LE(24);
  const { min, max } = ranges.ringBytes;
  const isInRange = capacity >= BigInt(min) && capacity <= BigInt(max);
  const isRing = isInRange && (capacity & (capacity - 1n)) === 0n;
  const isArea = blockArea <= 1_073_741_824n && blockArea % 16_384n === 0n;
  if (capacity === 0n && blockArea === 0n && flags === 0) return undefined;
  if (!isRing || !isArea || flags === 0) throw violation('sizes of memory out of range');
  const nonce = Uint8Array.from(bytes.subarray(32, 48));
  return { capacity: Number(capacity), blockArea: Number(blockArea), nonce };
}

export function violation(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer's hello is wrong: ${what}`);
}
