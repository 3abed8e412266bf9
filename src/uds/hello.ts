// SPDX-License-Identifier: MIT
// The fixed-size messages before anything else: version, limits, features, outbox offered, verdict.
import { randomBytes } from 'node:crypto';
import { SidecallError } from '../errors.ts';
import { type SessionLimits, sessionRanges } from '../limits.ts';
import type { HelloWire } from './hello-wire.ts';

export const helloBytes = 64;
export const answerBytes = 8;
/** The bytes `scal`, little-endian: tells a foreign byte order too. */
const helloMagic = 0x6c61_6373;
/** The protocol versions that this build speaks. */
const versionMin = 1;
const versionMax = 1;

/** What an answer says of the peer's hello. */
export const Verdict = { ring: 0, socketLane: 1, noVersion: 2, full: 3 } as const;

const descriptorFlag = 1;

/** Limits that a hello carries. */
export type HelloLimits = Pick<
  SessionLimits,
  'receiveMaxBytes' | 'metadataMaxBytes' | 'streamsMax' | 'streamWindowBytes'
>;

/** What the peer said. */
export interface PeerHello {
  readonly version: number;
  /** Features both sides know; none are defined yet. */
  readonly features: number;
  readonly limits: HelloLimits;
}

/** Our hello: no ring is offered, so capacity and block area are 0 and no descriptor rides along. */
export function encodeHello(limits: HelloLimits): Buffer {
  const bytes = Buffer.alloc(helloBytes);
  bytes.writeUInt32LE(helloMagic, 0);
  bytes.writeUInt16LE(versionMin, 4);
  bytes.writeUInt16LE(versionMax, 6);
  bytes.writeUInt32LE(0, 8); // features
  bytes.writeUInt32LE(0, 12); // flags
  randomBytes(16).copy(bytes, 32);
  bytes.writeUInt32LE(limits.receiveMaxBytes, 48);
  bytes.writeUInt32LE(limits.streamsMax, 52);
  bytes.writeUInt32LE(limits.metadataMaxBytes, 56);
  bytes.writeUInt32LE(limits.streamWindowBytes, 60);
  return bytes;
}

/** @throws {SidecallError} `PROTOCOL` for fields that no correct peer sends. */
export function decodeHello(bytes: Buffer): PeerHello & { hasDescriptor: boolean } {
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('the magic number is not ours');
  const min = bytes.readUInt16LE(4);
  const max = bytes.readUInt16LE(6);
  if (min === 0 || min > max) throw violation(`the version range ${min} to ${max} is none`);
  const flags = bytes.readUInt32LE(12);
  if ((flags & ~descriptorFlag) !== 0) throw violation('unknown flags');
  const hasDescriptor = flags === descriptorFlag;
  checkCapacity(bytes, hasDescriptor);
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
    features: 0,
    limits,
    hasDescriptor,
  };
}

export function encodeAnswer(verdict: number, version: number): Buffer {
  const bytes = Buffer.alloc(answerBytes);
  bytes.writeUInt32LE(helloMagic, 0);
  bytes.writeUInt16LE(verdict, 4);
  bytes.writeUInt16LE(version, 6);
  return bytes;
}

/** Why an accepting side takes no more sessions, or undefined. */
export type Admission = () => SidecallError | undefined;

/**
 * The connecting side: speaks first.
 * @throws {SidecallError} `PROTOCOL`, `VERSION_MISMATCH`, `LIMIT_CONNECTIONS`, `PEER_GONE`, or what
 * the wire's deadline says.
 */
export async function helloAsConnecting(wire: HelloWire, own: HelloLimits): Promise<PeerHello> {
  await wire.send(encodeHello(own));
  const hello = await receiveHello(wire);
  const verdict = await receiveAnswer(wire);
  checkVersion(hello);
  if (verdict === Verdict.ring) throw violation('it accepted a ring that was not offered');
  await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
  return hello;
}

/** The accepting side: learns the other first, then answers. @throws as {@link helloAsConnecting}. */
export async function helloAsAccepting(
  wire: HelloWire,
  own: HelloLimits,
  admit: Admission = () => undefined,
): Promise<PeerHello> {
  const hello = await receiveHello(wire);
  const refusal = admit();
  const verdict =
    hello.version === 0
      ? Verdict.noVersion
      : refusal !== undefined
        ? Verdict.full
        : Verdict.socketLane;
  const answer = encodeAnswer(verdict, hello.version);
  await wire.send(Buffer.concat([encodeHello(own), answer]));
  checkVersion(hello);
  if (refusal !== undefined) throw refusal;
  if ((await receiveAnswer(wire)) === Verdict.ring) {
    throw violation('it accepted a ring that was not offered');
  }
  return hello;
}

async function receiveHello(wire: HelloWire): Promise<PeerHello> {
  const bytes = Buffer.alloc(helloBytes);
  const notes = await wire.receive(bytes);
  const hello = decodeHello(bytes);
  // Where the kernel dropped descriptors for want of room, their number proves nothing.
  const isSurplus = notes.descriptors > 1 || notes.isLate || notes.hasOtherControl;
  const isMissing = hello.hasDescriptor !== notes.descriptors > 0 && !notes.isTruncated;
  if (isSurplus || isMissing) throw violation('descriptors that do not match it');
  return hello;
}

async function receiveAnswer(wire: HelloWire): Promise<number> {
  const bytes = Buffer.alloc(answerBytes);
  const notes = await wire.receive(bytes);
  if (notes.descriptors > 0 || notes.isTruncated || notes.hasOtherControl) {
    throw violation('a descriptor with its answer');
  }
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('an answer without its magic number');
  const verdict = bytes.readUInt16LE(4);
  if (verdict === Verdict.noVersion) throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH');
  if (verdict === Verdict.full) throw new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS');
  if (verdict > Verdict.full) throw violation('an answer with an unknown verdict');
  return verdict;
}

function checkVersion(hello: PeerHello): void {
  if (hello.version !== 0) return;
  const words = `the peer speaks no protocol version from ${versionMin} to ${versionMax}`;
  throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH', words);
}

function checkCapacity(bytes: Buffer, hasDescriptor: boolean): void {
  const capacity = bytes.readBigUInt64LE(16);
  const blockArea = bytes.readBigUInt64LE(24);
  const isRing =
    capacity >= 65_536n && capacity <= 67_108_864n && (capacity & (capacity - 1n)) === 0n;
  const isArea = blockArea <= 1_073_741_824n && blockArea % 16_384n === 0n;
  const isNone = capacity === 0n && blockArea === 0n && !hasDescriptor;
  if (!isNone && !(isRing && isArea)) throw violation('sizes of memory out of range');
}

function violation(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer's hello is wrong: ${what}`);
}
