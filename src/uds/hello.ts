// SPDX-License-Identifier: MIT
// The fixed-size messages before anything else: version, limits, features, outbox offered, verdict.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../base/errors.ts';
import { quiet } from '../base/ignore-errors.ts';
import {
  answerBytes,
  decodeAnswer,
  decodeHello,
  encodeAnswer,
  encodeHello,
  HelloFlag,
  type HelloLimits,
  helloBytes,
  type MemoryShape,
  type PeerHello,
  Verdict,
  versionMax,
  versionMin,
  violation,
} from './hello-bytes.ts';
import type { HelloWire, ReceivedNotes } from './hello-wire.ts';

/** Shared memory on our side of a hello; undefined where a session cannot or shall not have any. */
export interface HelloMemory {
  readonly shape: MemoryShape;
  /** Our abilities with the peer's memory: bits of {@link HelloFeature}. */
  readonly features: number;
  /** Makes our outbox; its descriptor to send, or undefined where it cannot be made. */
  create(): Promise<number | undefined>;
  /** The descriptor went out; or `why` it did not. */
  noteSent(why: string | undefined): void;
  /**
   * Checks and maps the peer's outbox. False: declined. @throws {SidecallError}
   * `ERR_SIDECALL_PROTOCOL`.
   */
  accept(descriptor: number, shape: MemoryShape): Promise<boolean>;
  /** Drops a descriptor that was received and is not used. */
  releaseDescriptor(descriptor: number): void;
}

/** The result of a hello. */
export interface HelloResult {
  readonly peer: PeerHello;
  /** Both outboxes were accepted, and each side knows it. */
  readonly isRing: boolean;
  /** Where it is not: what stood in the way, as far as this side can tell. */
  readonly reason: string;
}

/** Our outbox, as it is made: its descriptor, or undefined. */
type Making = Promise<number | undefined>;

/** Why an accepting side does not take this peer's session, or undefined. */
export type Admit = (hello: PeerHello) => SidecallError | undefined;

const peerHasNone = 'the peer offers no shared memory';

const peerDeclined = 'the peer declined our shared memory';

/**
 * The connecting side: speaks first, and sends its memory last, when the other side has let it in.
 * `features`: bits of {@link HelloFeature} that need no memory.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`, `ERR_SIDECALL_VERSION_MISMATCH`,
 * `ERR_SIDECALL_LIMIT_CONNECTIONS`, `ERR_SIDECALL_PEER_GONE`, or what the wire's deadline says.
 */
export async function helloAsConnecting(
  wire: HelloWire,
  own: HelloLimits,
  memory?: HelloMemory,
  features = 0,
): Promise<HelloResult> {
  if (memory !== undefined) wire.admitDescriptors();
  const flags = memory === undefined ? 0 : HelloFlag.descriptorFollows;
  await wire.send(encodeHello(own, memory, flags, features));
  // Made while the other side makes its own.
  const making = memory === undefined ? undefined : quiet(memory.create());
  const { hello, descriptor } = await receiveHello(wire, HelloFlag.descriptor, memory);
  if (hello.memory === undefined) {
    const verdict = await receiveAnswer(wire, hello.version);
    checkVersion(hello);
    if (verdict === Verdict.ring) throw violation('it accepted a ring that was not offered');
    await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
    return { peer: hello, isRing: false, reason: peerHasNone };
  }
  if (memory === undefined) throw violation('it offers memory that was not asked for');
  if (hello.version === 0 && descriptor !== undefined) memory.releaseDescriptor(descriptor);
  checkVersion(hello);
  const isSent =
    descriptor !== undefined &&
    (await exchange(wire, memory, { ...hello, descriptor }, making as Making));
  if (!isSent) await wire.send(encodeAnswer(Verdict.socketLane, hello.version));
  const verdict = await receiveAnswer(wire, hello.version);
  if (verdict === Verdict.ring && !isSent) throw violation('it accepted memory it never got');
  const reason = descriptor === undefined ? dropped : peerDeclined;
  return { peer: hello, isRing: verdict === Verdict.ring, reason };
}

/**
 * The accepting side: learns the other first, then answers. @throws as {@link helloAsConnecting}.
 */
export async function helloAsAccepting(
  wire: HelloWire,
  own: HelloLimits,
  admit: Admit = () => undefined,
  memory?: HelloMemory,
): Promise<HelloResult> {
  const { hello } = await receiveHello(wire, HelloFlag.descriptorFollows, undefined);
  const refusal = admit(hello);
  const isWelcome = hello.version !== 0 && refusal === undefined;
  if (isWelcome && hello.memory !== undefined && memory !== undefined) {
    if (await offerMemory(wire, own, memory)) return finishWithMemory(wire, hello, memory);
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
  const descriptor = await wire.whileWorking(memory.create());
  if (descriptor === undefined) return false;
  wire.admitDescriptors(); // the peer's own comes with its answer
  const hello = encodeHello(own, memory, HelloFlag.descriptor);
  const why = await wire.sendWith(hello, descriptor);
  memory.noteSent(why);
  return why === undefined;
}

async function finishWithMemory(
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
    descriptor !== undefined &&
    (await wire.whileWorking(memory.accept(descriptor, hello.memory as MemoryShape)));
  const answer = isRing ? Verdict.ring : Verdict.socketLane;
  await wire.send(encodeAnswer(answer, hello.version));
  return { peer: hello, isRing, reason: dropped };
}

const dropped = 'no descriptor could be received: the limit of this process, or its kernel';

/**
 * Takes their memory and sends our acceptance, with our memory on its first byte. False: nothing
 * was sent.
 */
async function exchange(
  wire: HelloWire,
  memory: HelloMemory,
  theirs: PeerHello & { descriptor: number },
  making: Making,
): Promise<boolean> {
  const isAccepted = await memory.accept(theirs.descriptor, theirs.memory as MemoryShape);
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
    if (descriptor !== undefined) memory?.releaseDescriptor(descriptor);
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
    if (descriptor !== undefined) memory?.releaseDescriptor(descriptor);
    throw error;
  }
}

/**
 * One, with the first byte, exactly where it was announced; or the kernel dropped it for want of
 * room.
 */
function checkDescriptors(notes: ReceivedNotes, isExpected: boolean): void {
  const isSurplus = notes.descriptors > 1 || notes.isLate || notes.hasOtherControl;
  const isWrong = notes.isTruncated ? !isExpected : isExpected !== notes.descriptors > 0;
  if (isSurplus || isWrong) throw violation('descriptors that do not match it');
}

/** The addon keeps sealed memory only: anything else may block its closer. */
function checkKept({ descriptors, descriptor }: ReceivedNotes): void {
  if (descriptors === 1 && descriptor === undefined) throw violation('a descriptor of no memory');
}

function checkVersion(hello: PeerHello): void {
  if (hello.version !== 0) return;
  const text = `the peer speaks no protocol version from ${versionMin} to ${versionMax}`;
  throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH', text);
}
