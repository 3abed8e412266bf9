// SPDX-License-Identifier: MIT
// The frames that were written to a ring and are not visible to the peer yet, and the moment at
// which they become visible. Each publication is an access to memory that both processes write to.

/** Frames that become visible together: not all of a turn, so that the peer works meanwhile. */
const publishEvery = 4;

export class Unpublished {
  count = 0;
  /** False: each frame is published at once. */
  isHeld = true;
  /** The event loop has not published anything in this turn. */
  #isFirst = true;

  /**
   * A frame was written. True: it is time to publish. `arrived`: records that came together last.
   * Where one came alone, the peer most likely waits for the first frame that is written next.
   */
  add(arrived: number): boolean {
    this.count += 1;
    const isDue = this.#isFirst && arrived <= 1;
    return isDue || this.count >= publishEvery || !this.isHeld;
  }

  /** All of them are about to be published. */
  clear(): void {
    this.count = 0;
    this.#isFirst = false;
  }

  /** The event loop goes on. */
  goOn(): void {
    this.#isFirst = true;
  }
}
