// SPDX-License-Identifier: MIT
// The length of the pieces of long messages: short ones while short messages go beside them, so
// that those wait less.
import { tuning } from '../../base/limits/internal-limits.ts';
import type { Bulk } from '../../wire/transport.ts';

export class BulkPieces {
  readonly #fragmentBytes: number;
  /** Bytes of long messages that were sent since a short one went beside them. */
  #aloneBytes = Number.POSITIVE_INFINITY;

  /** `fragmentBytes`: the longest payload of a frame. */
  constructor(fragmentBytes: number) {
    this.#fragmentBytes = fragmentBytes;
  }

  /** The queue of the transport for the next frame. */
  bulkOf(isBulk: boolean): Bulk {
    return isBulk && this.#aloneBytes < tuning.sharedPiecesBytes ? 'shared' : isBulk;
  }

  /** The longest payload of the next frame. */
  maxBytes(isBulk: boolean): number {
    const isShared = this.bulkOf(isBulk) === 'shared';
    return isShared ? Math.min(tuning.sharedPieceBytes, this.#fragmentBytes) : this.#fragmentBytes;
  }

  /** A frame was sent: of a long message, or a short one beside long ones that wait. */
  noteSent(isBulk: boolean, bytes: number): void {
    this.#aloneBytes = isBulk ? this.#aloneBytes + bytes : 0;
  }
}
