// Support for tests of leases in shared memory: an addon with replaced functions, collections
// until a condition holds.

import type { NativeAddon } from '../../src/addon/addon-api.ts';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SessionOptions } from '../../src/open/session-options.ts';
import { until } from './contract.ts';

export const KiB = 1024;

export const MiB = 1024 * KiB;

export const native = requireNative('the test');

export const inPlace: SessionOptions = { leases: 'in-place-trusted', blockAreaBytes: MiB };

/** The addon, some of its functions replaced. */
export function addonWith(overrides: Partial<NativeAddon>): NativeAddon {
  return Object.assign(Object.create(native) as NativeAddon, overrides);
}

export async function collectUntil(isDone: () => boolean): Promise<void> {
  await until(() => {
    globalThis.gc?.();
    return isDone();
  });
}
