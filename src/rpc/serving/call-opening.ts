// SPDX-License-Identifier: MIT
// A call as its first frame describes it.
import type { Metadata } from '../../base/metadata.ts';

/** The first frame of a call, taken apart. */
export interface CallOpening {
  readonly slot: number;
  readonly generation: number;
  /** The kind, a value of `CallKind`. */
  readonly kind: number;
  readonly method: string;
  readonly metadata: Metadata;
  readonly deadline: number | undefined;
  /** The bytes that its message took of the window. */
  readonly charge: number;
  /** The bytes of a stream that we may send before the caller grants more. */
  readonly windowBytes: number;
}
