// SPDX-License-Identifier: MIT
// Messages in memory that is lent: a block that the sender fills in place, a lease that the
// receiver gives back. The idea is shmipc-go's Reserve and ReadBytes; each end has an owner.

import { Buffer } from 'node:buffer';
import { isBytes } from '../../base/brands.ts';
import { giveBuffer } from '../../base/buffer-pool.ts';
import { lengthOf } from '../../base/bytes.ts';
import { SidecallError } from '../../base/errors.ts';
import { nodeError } from '../../base/misuse.ts';
import type { LentBytes, OwnBlock } from '../../wire/transport.ts';
import type { Codec } from './codec.ts';

/** Methods of a `Uint8Array` that store into it. */
type Mutator = 'set' | 'fill' | 'copyWithin' | 'reverse' | 'sort';

/**
 * Bytes to be read: a `Uint8Array` whose elements are read-only and whose storing methods are not
 * callable. It goes wherever a `Uint8Array` goes. NOTE: where `lease.copied` is false, a store by
 * other ways (a cast, a `subarray()`, a function that writes what it is given) ends the process:
 * the memory is mapped read-only.
 */
export type ReadonlyBytes = Readonly<Omit<Uint8Array, Mutator>> & {
  readonly [Name in Mutator]: never;
};

/** The owner of blocks: a session sends only its own. */
export type BlockOwner = object;

/**
 * Memory for one message, to be filled in place; from `session.allocate()`. Give it to
 * one call, `send()` or answer, which takes it over even if it fails; or give it back
 * with {@link Block.free}.
 */
export class Block implements Disposable {
  /** Its length in bytes, also after it was sent. */
  readonly byteLength: number;
  readonly #owner: BlockOwner;
  readonly #own: OwnBlock | undefined;
  // Of a block in place: made where the bytes are asked for.
  #memory: Buffer | undefined;
  #isGone = false;

  /** @internal Blocks come from `session.allocate()`. `from`: a block in place, or memory. */
  constructor(owner: BlockOwner, from: OwnBlock | Buffer, byteLength: number) {
    this.#owner = owner;
    this.byteLength = byteLength;
    if (isBytes(from)) this.#memory = from;
    else this.#own = from;
  }

  /** @internal As `instanceof`, and for any value: that throws for some proxies. */
  static is(value: unknown): value is Block {
    return typeof value === 'object' && value !== null && #owner in value;
  }

  /**
   * The memory, of which every byte is sent. A block in place begins with bytes of earlier messages
   * of this session, any other with zeros. NOTE: with `leases: 'in-place-trusted'` nothing may be
   * written through a view that was kept after the block was sent: the peer reads there.
   * @throws {SidecallError} `ERR_SIDECALL_LEASE_RELEASED` once it was sent or freed.
   */
  get bytes(): Buffer {
    if (this.#isGone) {
      throw new SidecallError('ERR_SIDECALL_LEASE_RELEASED', 'the block was sent or freed');
    }
    this.#memory ??= heldTogether((this.#own as OwnBlock).bytes, this);
    return this.#memory;
  }

  /** The peer can read it where it lies. False: it is ordinary memory, and sending copies it. */
  get inPlace(): boolean {
    return this.#own !== undefined;
  }

  /** Gives the block back unsent. Does nothing the second time, or once it was sent. */
  free(): void {
    if (this.#isGone) return;
    this.#end();
    this.#own?.release();
  }

  [Symbol.dispose](): void {
    this.free();
  }

  /**
   * @throws {TypeError} always: a block is a message of the codec `leased`, and no value in
   * another.
   */
  toJSON(): never {
    const text = 'a Block is a message of the codec leased; it cannot be a value in JSON';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }

  /**
   * @internal It is sent: it is not written from here on. @throws {SidecallError}
   * `ERR_SIDECALL_LEASE_RELEASED`.
   */
  take(): Block | Buffer {
    if (this.#own === undefined) {
      const memory = this.bytes;
      this.#end();
      return memory;
    }
    if (this.#isGone) return this.bytes; // throws
    this.#end();
    this.#own.seal();
    return this;
  }

  /**
   * @internal Its bytes as ordinary memory; it is given back. @throws {SidecallError}
   * `ERR_SIDECALL_LEASE_RELEASED`.
   */
  copyOut(): Buffer {
    const memory = this.bytes;
    const copy = this.#own === undefined ? memory : Buffer.from(memory);
    this.free();
    return copy;
  }

  /** @internal It was sent or freed. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** @internal It belongs to this session. */
  isOf(owner: BlockOwner): boolean {
    return this.#owner === owner;
  }

  /** @internal For the transport. NOTE: only of a block that was taken in place. */
  get own(): OwnBlock {
    return this.#own as OwnBlock;
  }

  /** @internal Frees a block that was taken and is not sent. Does nothing once the peer has it. */
  release(): void {
    this.#own?.release();
  }

  /** The program writes into it no more. */
  #end(): void {
    this.#isGone = true;
    if (this.#own?.sharesMemory === false) mark(this.#own.bytes.buffer);
    this.#memory = undefined;
  }
}

/** Frees a value that was never encoded, if it is a block. */
export function releaseBlockIn(value: unknown): void {
  if (Block.is(value)) value.free();
}

/** A message in memory of our own, which is detached when it goes back. */
class CopiedBytes {
  readonly bytes: Uint8Array;
  readonly byteLength: number;
  readonly #pooled: Buffer | undefined;

  constructor(bytes: Uint8Array, pooled: Buffer | undefined) {
    this.bytes = bytes;
    this.byteLength = bytes.length;
    this.#pooled = pooled;
  }

  release(): void {
    const memory = this.bytes.buffer as ArrayBuffer;
    const moved = detach(memory);
    if (moved === undefined) return;
    if (this.#pooled !== undefined && giveBuffer(Buffer.from(moved))) return;
    // A job of the thread pool may still read it, and keeps the object that it was given.
    outlived.register(memory, moved);
  }
}

/**
 * A message to be given back. In a handler the request is given back when the handler has settled,
 * unless {@link Lease.keep} was called; all others belong to their receiver. A lease that is
 * collected unreleased is given back then.
 */
export class Lease implements Disposable {
  /** Length of the message in bytes, also after it was released. */
  readonly byteLength: number;
  /** The bytes are a copy of our own. False: they lie in the peer's memory. */
  readonly copied: boolean;
  // Of a lease in place: made where the bytes are asked for.
  #bytes: Uint8Array | undefined;
  readonly #source: LentBytes | CopiedBytes;
  #isReleased = false;
  #isKept = false;

  /** @internal Leases are received. */
  constructor(source: LentBytes | CopiedBytes) {
    this.#source = source;
    this.copied = source instanceof CopiedBytes;
    this.byteLength = source.byteLength;
  }

  /**
   * The message. NOTE: a peer can change bytes in place while they are read; only a trusted one
   * lends them. A view of bytes in place that is kept longer than the lease shows later messages.
   * @throws {SidecallError} `ERR_SIDECALL_LEASE_RELEASED` once it was released.
   */
  get bytes(): ReadonlyBytes {
    if (this.#isReleased) {
      const text = 'the lease was released; in a handler keep() makes it last longer';
      throw new SidecallError('ERR_SIDECALL_LEASE_RELEASED', text);
    }
    this.#bytes ??= this.copied ? this.#source.bytes : heldTogether(this.#source.bytes, this);
    return this.#bytes as ReadonlyBytes;
  }

  /**
   * Gives the memory back. Views of a copy have length 0 from then on; views of bytes in place show
   * whatever the peer writes there next. A second call has no further effect. NOTE: nothing may
   * read it any more: release behind a pending `fs.write()`, not beside it.
   */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#bytes = undefined;
    this.#source.release();
  }

  /** In a handler: it is not given back when the handler settles, but by {@link Lease.release}. */
  keep(): this {
    this.#isKept = true;
    return this;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** @internal Its handler settled. */
  settle(): void {
    if (!this.#isKept) this.release();
  }

  /** @internal It was released. */
  get isGone(): boolean {
    return this.#isReleased;
  }

  /** @internal Does a view look into it? */
  isUnder(view: Uint8Array): boolean {
    const bytes = this.#bytes;
    if (bytes === undefined || bytes.buffer !== view.buffer) return false;
    const begin = view.byteOffset - bytes.byteOffset;
    return begin + view.length > 0 && begin < this.byteLength;
  }
}

/**
 * Raw bytes in memory that is lent, where {@link bytes} gives fresh memory for each message: a
 * {@link Block} (or any `Uint8Array`) goes out, a {@link Lease} comes in. With the option `leases:
 * 'in-place-trusted'` and a block of the peer's it is read where it was written; else it is one
 * copy, in memory that is used again.
 * @example
 * ```ts
 * import { leased, type Session, service, unary } from 'sidecall';
 *
 * const Frames = service('Frames', { show: unary<unknown, void>({ request: leased }) });
 *
 * async function show(session: Session): Promise<void> {
 *   const block = session.allocate(4 * 1024 * 1024);
 *   block.bytes.fill(255);
 *   await session.client(Frames).show(block);
 * }
 * ```
 */
export const leased: Codec<Lease, Block | Uint8Array> = {
  name: 'leased',
  copiesBytes: true,
  encode(value) {
    if (Block.is(value)) return value.copyOut(); // under a codec of the application's own
    if (isBytes(value)) return value;
    throw new TypeError(`a Block or a Uint8Array is needed, got ${kindOf(value)}`);
  },
  decode: (view) => copiedLease(new Uint8Array(view), undefined),
};

/** True: the codec is {@link leased}. */
export function isLeased(codec: Codec<unknown> | undefined): boolean {
  return (codec as unknown) === leased;
}

/** Over bytes of our own; `pooled`: the memory under them, which goes back to the pool. */
export function copiedLease(bytes: Uint8Array, pooled: Buffer | undefined): Lease {
  return new Lease(new CopiedBytes(bytes, pooled));
}

/** Gives back a value that is not handed out, if it is a lease. */
export function releaseLeaseIn(value: unknown): void {
  if (value instanceof Lease) value.release();
}

// Memory that lives as long as the array buffer that it was moved out of.
const outlived = new FinalizationRegistry<ArrayBuffer>(() => undefined);

const owner = Symbol('owner');

type Owned = Uint8Array & { readonly [owner]?: Block | Lease };

/**
 * The view, which refers to its block or lease from now on: that one goes back when it is
 * collected, which shall not happen while the view is in use.
 */
function heldTogether<V extends Uint8Array>(view: V, by: Block | Lease): V {
  return Object.defineProperty(view, owner, { value: by });
}

// Mark of the array buffers of leases and blocks that were given back, so that an empty view of one
// is not sent as an empty message. A property of the object: a WeakSet slows garbage collections
// down more than all leases do.
const released = Symbol('released');

type Marked = ArrayBufferLike & { [released]?: true };

/**
 * The memory, moved into a new array buffer; the old one has length 0. undefined:
 * it was transferred before.
 */
function detach(memory: ArrayBuffer): ArrayBuffer | undefined {
  mark(memory);
  if (memory.byteLength === 0) return undefined;
  const { transfer } = memory as ArrayBuffer & { transfer?: () => ArrayBuffer };
  try {
    return transfer?.call(memory) ?? structuredClone(memory, { transfer: [memory] });
  } catch {
    return undefined; // marked as not to be transferred: it stays readable until it is collected
  }
}

function mark(memory: Marked): void {
  memory[released] = true;
}

/** Bytes that were given back before they were sent. */
export function isReleased(view: Uint8Array): boolean {
  const { [owner]: by } = view as Owned;
  if (by !== undefined) return by.isGone;
  return lengthOf.call(view) === 0 && (view.buffer as Marked)[released] === true;
}

function kindOf(value: unknown): string {
  return value instanceof Lease ? 'a Lease (send lease.bytes)' : typeof value;
}
