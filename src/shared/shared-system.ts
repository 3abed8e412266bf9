// SPDX-License-Identifier: MIT
// The real system around a program that looks for a shared helper.
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import type { OpenSession } from '../rendezvous/connect.ts';
import { lockHolder } from '../uds/file-lock.ts';
import { standingOf } from './process-standing.ts';
import type { SharedSystem } from './shared-finder.ts';
import type { SharedSettings } from './shared-options.ts';
import { isPreparing, startLockOf, startShared, whileStarter } from './start-shared.ts';

export function sharedSystem(
  native: NativeAddon,
  settings: SharedSettings,
  open: OpenSession,
  openToReplace: OpenSession,
): SharedSystem {
  const { path } = settings;
  return {
    clock: systemClock,
    random: systemRandom,
    open: (signal) => open(signal),
    openToReplace: (signal) => openToReplace(signal),
    whileStarter: (work) => whileStarter(native, path, work),
    starterPid: () => lockHolder(startLockOf(path)),
    isPreparing: () => isPreparing(native, path),
    start: () => startShared(settings),
    standing: () => standingOf(native, path),
  };
}
