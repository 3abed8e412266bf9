// SPDX-License-Identifier: MIT
// The block areas of a session as memory of JavaScript's: one array buffer over each, since to make
// and detach one for each message costs more than the message.
import { type Ticket, watchCollection } from './collection-watch.ts';
import type { Ring } from './ring.ts';

class AreaTicket implements Ticket {
  readonly #ring: Ring;
  readonly #isOurs: boolean;

  constructor(ring: Ring, isOurs: boolean) {
    this.#ring = ring;
    this.#isOurs = isOurs;
  }

  /** The mapping may go, too. */
  onCollected(): void {
    this.#ring.releaseObject(this.#isOurs);
  }
}

/** Both block areas of a ring. Views of them keep them mapped, also beyond the session. */
export class BlockAreas {
  readonly #ring: Ring;
  // null: there is none, or the host refuses external buffers.
  #ours: ArrayBuffer | null | undefined;
  #peers: ArrayBuffer | null | undefined;

  constructor(ring: Ring) {
    this.#ring = ring;
  }

  /** Where we write. undefined: blocks cannot be views of it. */
  get ours(): ArrayBuffer | undefined {
    if (this.#ours === undefined || this.#ours?.byteLength === 0) this.#ours = this.#make(true);
    return this.#ours ?? undefined;
  }

  /** Mapped read-only. undefined: leases cannot be views of it. */
  get peers(): ArrayBuffer | undefined {
    if (this.#peers === undefined || this.#peers?.byteLength === 0) this.#peers = this.#make(false);
    return this.#peers ?? undefined;
  }

  /** The session is over: views alone keep the areas from here on. */
  close(): void {
    this.#ours = null;
    this.#peers = null;
  }

  #make(isOurs: boolean): ArrayBuffer | null {
    const area = this.#ring.area(isOurs);
    if (area !== undefined) watchCollection(area, new AreaTicket(this.#ring, isOurs));
    return area ?? null;
  }
}
