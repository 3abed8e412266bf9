// SPDX-License-Identifier: MIT
// The fixed-size messages before anything else: version, limits, features, outbox offered, verdict.
import { randomBytes } from 'node:crypto';
import { SidecallError } from '../base/errors.ts';
import { ranges, type SessionLimits, sessionRanges } from '../base/limits.ts';
import { quiet } from '../base/quiet.ts';
import type { HelloWire, ReceivedNotes } from './hello-wire.ts';

export const helloBytes = 64;
export const answerBytes = 8;
/** The bytes `scal`, little-endian: tells a foreign byte order too. */
const helloMagic = 0x6c61_6373;
/** The protocol versions that this build speaks. */
const versionMin = 1;
const versionMax = 1;

/** What an answer says of the peer's hello. */
export const Verdict = { ring: 0, socketLane: 1, noVersion: 2, full: 3 } as const;

/** What a hello says of the memory it announces. */
export const HelloFlag = {
  /** Its descriptor rides on the first byte of this hello. */
  descriptor: 1,
  /** Its descriptor follows on the first byte of the answer, if the peer offers memory, too. */
  descriptorFollows: 2,
} as const;

/** What a hello says that its sender can do; bits that a reader does not know mean nothing to it. */
export const HelloFeature = {
  /** It takes messages that lie in the block area of the other side's memory. */
  takesBlocks: 1,
} as const;

const knownFeatures = HelloFeature.takesBlocks;

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

/** What the peer said. */
export interface PeerHello {
  readonly version: number;
  /** Of {@link HelloFeature}. */
  readonly features: number;
  readonly limits: HelloLimits;
  /** Memory that it announces; undefined: none. */
  readonly memory: MemoryShape | undefined;
}

/** Shared memory on our side of a hello; undefined where a session cannot or shall not have any. */
export interface HelloMemory {
  readonly shape: MemoryShape;
  /** What we can do with the peer's: of {@link HelloFeature}. */
  readonly features: number;
  /** Makes our outbox; its descriptor to send, or undefined where it cannot be made. */
  create(): Promise<number | undefined>;
  /** The descriptor went out; or `why` it did not. */
  noteSent(why: string | undefined): void;
  /** Checks and maps the peer's outbox. False: declined. @throws {SidecallError} `PROTOCOL`. */
  accept(descriptor: number, shape: MemoryShape): Promise<boolean>;
  /** A descriptor that came and is not wanted. */
  drop(descriptor: number): void;
}

/** How a hello ended. */
export interface HelloResult {
  readonly peer: PeerHello;
  /** Both outboxes were accepted, and each side knows it. */
  readonly isRing: boolean;
  /** Where it is not: what stood in the way, as far as this side can tell. */
  readonly reason: string;
}

/** Our hello. `memory` undefined: capacity, block area and features are 0. */
export function encodeHello(
  limits: HelloLimits,
  memory?: Pick<HelloMemory, 'shape' | 'features'>,
  flags = 0,
): Buffer {
  const bytes = Buffer.alloc(helloBytes);
  bytes.writeUInt32LE(helloMagic, 0);
  bytes.writeUInt16LE(versionMin, 4);
  bytes.writeUInt16LE(versionMax, 6);
  bytes.writeUInt32LE(memory?.features ?? 0, 8);
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

/** @throws {SidecallError} `PROTOCOL` for fields that no correct peer sends. */
export function decodeHello(bytes: Buffer): PeerHello & { flags: number } {
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('the magic number is not ours');
  const min = bytes.readUInt16LE(4);
  const max = bytes.readUInt16LE(6);
  if (min === 0 || min > max) throw violation(`the version range ${min} to ${max} is none`);
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

/** Why an accepting side takes no more sessions, or undefined. */
export type Admission = () => SidecallError | undefined;

const peerHasNone = 'the peer offers no shared memory';
const peerDeclined = 'the peer declined our shared memory';

/**
 * The connecting side: speaks first, and sends its memory last, when the other side has let it in.
 * @throws {SidecallError} `PROTOCOL`, `VERSION_MISMATCH`, `LIMIT_CONNECTIONS`, `PEER_GONE`, or what
 * the wire's deadline says.
 */
export async function helloAsConnecting(
  wire: HelloWire,
  own: HelloLimits,
  memory?: HelloMemory,
): Promise<HelloResult> {
  if (memory !== undefined) wire.admitDescriptors();
  const flags = memory === undefined ? 0 : HelloFlag.descriptorFollows;
  await wire.send(encodeHello(own, memory, flags));
  const { hello, descriptor } = await receiveHello(wire, HelloFlag.descriptor, memory);
  if (hello.memory === undefined) {
    const verdict = await receiveAnswer(wire, hello.version);
    checkVersion(hello);
    if (verdict === Verdict.ring) throw violation('it accepted a ring that was not offered');
    await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
    return { peer: hello, isRing: false, reason: peerHasNone };
  }
  if (memory === undefined) throw violation('it offers memory that was not asked for');
  if (hello.version === 0 && descriptor !== undefined) memory.drop(descriptor);
  checkVersion(hello);
  const isSent =
    descriptor !== undefined && (await exchange(wire, memory, { ...hello, descriptor }));
  if (!isSent) await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
  const verdict = await receiveAnswer(wire, hello.version);
  if (verdict === Verdict.ring && !isSent) throw violation('it accepted memory it never got');
  const reason = descriptor === undefined ? dropped : peerDeclined;
  return { peer: hello, isRing: verdict === Verdict.ring, reason };
}

/** The accepting side: learns the other first, then answers. @throws as {@link helloAsConnecting}. */
export async function helloAsAccepting(
  wire: HelloWire,
  own: HelloLimits,
  admit: Admission = () => undefined,
  memory?: HelloMemory,
): Promise<HelloResult> {
  const { hello } = await receiveHello(wire, HelloFlag.descriptorFollows, undefined);
  const refusal = admit();
  const isWelcome = hello.version !== 0 && refusal === undefined;
  if (isWelcome && hello.memory !== undefined && memory !== undefined) {
    if (await offerMemory(wire, own, memory)) return meetWithMemory(wire, hello, memory);
  }
  const verdict = isWelcome
    ? Verdict.socketLane
    : hello.version === 0
      ? Verdict.noVersion
      : Verdict.full;
  await wire.send(Buffer.concat([encodeHello(own), encodeAnswer(verdict, hello.version)]));
  checkVersion(hello);
  if (refusal !== undefined) throw refusal;
  if ((await receiveAnswer(wire, hello.version)) === Verdict.ring)
    throw violation('it accepted a ring that was not offered');
  return { peer: hello, isRing: false, reason: peerHasNone };
}

/** Our hello with our memory on its first byte. False: it was not sent at all. */
async function offerMemory(
  wire: HelloWire,
  own: HelloLimits,
  memory: HelloMemory,
): Promise<boolean> {
  const descriptor = await memory.create();
  if (descriptor === undefined) return false;
  wire.admitDescriptors(); // the peer's own comes with its answer
  const hello = encodeHello(own, memory, HelloFlag.descriptor);
  const why = await wire.sendWith(hello, descriptor);
  memory.noteSent(why);
  return why === undefined;
}

async function meetWithMemory(
  wire: HelloWire,
  hello: PeerHello,
  memory: HelloMemory,
): Promise<HelloResult> {
  const { verdict, descriptor, isTruncated } = await receiveAnswerWith(wire, hello.version, memory);
  if (verdict === Verdict.socketLane) {
    await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
    return { peer: hello, isRing: false, reason: peerDeclined };
  }
  if (descriptor === undefined && !isTruncated) throw violation('memory that did not come');
  const isRing =
    descriptor !== undefined && (await memory.accept(descriptor, hello.memory as MemoryShape));
  const answer = isRing ? Verdict.ring : Verdict.socketLane;
  await wire.send(encodeAnswer(answer, hello.version));
  return { peer: hello, isRing, reason: dropped };
}

const dropped = 'no descriptor could be received: the limit of this process, or its kernel';

/** Takes their memory and sends our acceptance, with our memory on its first byte. False: nothing was sent. */
async function exchange(
  wire: HelloWire,
  memory: HelloMemory,
  theirs: PeerHello & { descriptor: number },
): Promise<boolean> {
  const accepting = memory.accept(theirs.descriptor, theirs.memory as MemoryShape);
  const making = quiet(memory.create()); // while a thread checks theirs
  const isAccepted = await accepting;
  const descriptor = await making;
  if (!isAccepted || descriptor === undefined) return false;
  const why = await wire.sendWith(encodeAnswer(Verdict.ring, theirs.version), descriptor);
  memory.noteSent(why);
  return why === undefined;
}

/** `flag`: the one that this side's peer may set. A descriptor that does not belong is closed. */
async function receiveHello(
  wire: HelloWire,
  flag: number,
  memory: HelloMemory | undefined,
): Promise<{ hello: PeerHello; descriptor: number | undefined }> {
  const bytes = Buffer.alloc(helloBytes);
  const notes = await wire.receive(bytes, memory !== undefined);
  const { descriptor } = notes;
  try {
    const hello = decodeHello(bytes);
    if (hello.flags !== 0 && hello.flags !== flag) throw violation('a flag of the other side');
    checkDescriptors(notes, hello.flags === HelloFlag.descriptor);
    checkKept(notes);
    return { hello, descriptor };
  } catch (error) {
    if (descriptor !== undefined) memory?.drop(descriptor);
    throw error;
  }
}

async function receiveAnswer(wire: HelloWire, version: number): Promise<number> {
  return (await receiveAnswerWith(wire, version, undefined)).verdict;
}

async function receiveAnswerWith(
  wire: HelloWire,
  version: number,
  memory: HelloMemory | undefined,
): Promise<{ verdict: number; descriptor: number | undefined; isTruncated: boolean }> {
  const bytes = Buffer.alloc(answerBytes);
  const notes = await wire.receive(bytes, memory !== undefined);
  const { descriptor, isTruncated } = notes;
  try {
    const verdict = decodeAnswer(bytes, version);
    checkDescriptors(notes, memory !== undefined && verdict === Verdict.ring);
    checkKept(notes);
    return { verdict, descriptor, isTruncated };
  } catch (error) {
    if (descriptor !== undefined) memory?.drop(descriptor);
    throw error;
  }
}

/** `version`: the one that both sides speak; 0: there is none, which is told apart. A refusal need not name it. */
function decodeAnswer(bytes: Buffer, version: number): number {
  if (bytes.readUInt32LE(0) !== helloMagic) throw violation('an answer without its magic number');
  const verdict = bytes.readUInt16LE(4);
  if (verdict === Verdict.noVersion) throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH');
  if (verdict === Verdict.full) throw new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS');
  if (verdict > Verdict.full) throw violation('an answer with an unknown verdict');
  if (version !== 0 && bytes.readUInt16LE(6) !== version)
    throw violation('an answer with another version');
  return verdict;
}

/** One, with the first byte, exactly where it was announced; or the kernel dropped it for want of room. */
function checkDescriptors(notes: ReceivedNotes, isExpected: boolean): void {
  const isSurplus = notes.descriptors > 1 || notes.isLate || notes.hasOtherControl;
  const isWrong = notes.isTruncated ? !isExpected : isExpected !== notes.descriptors > 0;
  if (isSurplus || isWrong) throw violation('descriptors that do not match it');
}

/** The addon keeps sealed memory only: anything else may block whoever closes it. */
function checkKept({ descriptors, descriptor }: ReceivedNotes): void {
  if (descriptors === 1 && descriptor === undefined) throw violation('a descriptor of no memory');
}

function checkVersion(hello: PeerHello): void {
  if (hello.version !== 0) return;
  const words = `the peer speaks no protocol version from ${versionMin} to ${versionMax}`;
  throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH', words);
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

function violation(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer's hello is wrong: ${what}`);
}
