// SPDX-License-Identifier: MIT
// The blocks and leases of one session.
import type { Clock } from '../base/clock.ts';
import { LeaseReturns, type Lending } from './arrived-blocks.ts';
import { BlockAreas } from './block-areas.ts';
import { CollectionWatch } from './collection-watch.ts';
import { AreaBlock, DetachableBlock, type RingBlock } from './own-blocks.ts';
import type { Ring } from './ring.ts';

/** Makes blocks of ours, and keeps account of the leases of the peer's. */
export class SessionBlocks implements Lending {
  readonly ring: Ring;
  readonly returns: LeaseReturns;
  readonly watch: CollectionWatch;
  readonly areas: BlockAreas | undefined;

  /** `isTrusted`: blocks are views of shared areas. `onReturn`: leases wait to go back. */
  constructor(ring: Ring, clock: Clock, isTrusted: boolean, onReturn: () => void) {
    this.ring = ring;
    this.returns = new LeaseReturns(ring, clock, onReturn);
    this.watch = new CollectionWatch(clock);
    this.areas = isTrusted ? new BlockAreas(ring) : undefined;
  }

  /** undefined: none is free, or the host refuses external buffers. */
  allocate(bytes: number): RingBlock | undefined {
    if (this.areas === undefined) {
      const block = this.ring.allocate(bytes);
      return block && new DetachableBlock(this.ring, block.bytes, block.offset);
    }
    const area = this.areas.ours;
    const offset = area && this.ring.takePlace(bytes);
    if (area === undefined || offset === undefined) return undefined;
    const block = new AreaBlock(this.ring, area, offset, bytes);
    this.watch.add(block);
    return block;
  }

  /** The session is over: nothing goes back any more. */
  close(): void {
    this.returns.close();
    this.watch.close();
    this.areas?.close();
  }
}
