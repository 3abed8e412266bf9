// Two native rings that are each other's peer in one process, without events of sockets and
// without sessions.
import { randomBytes } from 'node:crypto';

/** A result of `createOutbox`: a thread is still making the outbox. */
const underWay = -2;
const capacity = 1024 * 1024;
const blockArea = 1024 * 1024;
const written = 1;

export class RingPair {
  #native;
  #near;
  #far;
  #sockets;
  #staged;
  #registers;
  #ownArea;
  #peerArea;

  constructor(native) {
    this.#native = native;
    const { staged, registers } = native.ringExchange();
    this.#staged = staged;
    this.#registers = registers;
    this.#sockets = native.socketPair();
    this.#near = native.openRing();
    this.#far = native.openRing();
    this.#meet(this.#near, this.#far);
    this.#meet(this.#far, this.#near);
    native.joinRing(this.#near, this.#sockets.near, true, true);
    native.joinRing(this.#far, this.#sockets.far, true, true);
    this.#ownArea = native.ringArea(this.#near, 1).buffer;
    this.#peerArea = native.ringArea(this.#far, 0).buffer;
  }

  /** The handles of both ends. */
  get rings() {
    return { near: this.#near, far: this.#far };
  }

  /** Writes one frame of 16 + `payload` bytes; drains it into the slab or its final place. */
  roundTrip(payload) {
    const native = this.#native;
    if (payload.length > 4096) native.ringWriteBytes(this.#near, 16, payload, 0);
    else {
      this.#staged.set(payload, 16);
      native.ringWriteStaged(this.#near, 16 + payload.length, 0);
    }
    native.ringPublish(this.#near);
    if (native.ringDrain(this.#far, 16, 0) === 2) native.ringTake(this.#far, 16, payload);
  }

  drainNothing() {
    this.#native.ringDrain(this.#far, 16, 0);
  }

  /** Views of a block in both processes' areas, as with trusted peers. */
  lend() {
    const native = this.#native;
    if (native.ringTakePlace(this.#near, 4096) !== written) throw new Error('no block is free');
    const offset = this.#registers[6];
    this.block = new Uint8Array(this.#ownArea, offset, 4096);
    native.ringWriteBlock(this.#near, 16, offset, 4096);
    native.ringPublish(this.#near);
    native.ringDrain(this.#far, 16, 0);
    if (native.ringTakeBlock(this.#far) !== written) throw new Error('no block came');
    const id = this.#registers[6];
    this.lease = new Uint8Array(this.#peerArea, this.#registers[8], this.#registers[7]);
    native.ringReleaseLease(this.#far, id);
    native.ringPublish(this.#far);
    native.ringDrain(this.#near, 16, 0);
  }

  close() {
    for (const ring of [this.#near, this.#far]) this.#native.closeRing(ring);
    for (const fd of Object.values(this.#sockets)) this.#native.closeDescriptor(fd);
  }

  /**
   * `one` makes its outbox, `other` accepts it: the descriptor travels as it does between
   * processes.
   */
  #meet(one, other) {
    const native = this.#native;
    const nonce = randomBytes(16);
    let fd = native.createOutbox(one, capacity, blockArea, nonce, 1 << 30, 0);
    while (fd === underWay) fd = native.takeOutbox(one);
    const { near, far } = this.#sockets;
    const [from, to] = one === this.#near ? [near, far] : [far, near];
    native.admitDescriptors(to);
    native.send(from, Buffer.from([1]), 0, fd);
    const { descriptor } = native.receive(to, Buffer.alloc(1), 0, true, true, 0);
    native.acceptOutbox(other, descriptor, capacity, blockArea, nonce, true, 0);
    let taken = false;
    while (taken === false) taken = native.takeAccepted(other);
    if (taken !== true) throw new Error(taken.what);
    native.closeDescriptor(fd);
  }
}
