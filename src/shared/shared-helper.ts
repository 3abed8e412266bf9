// SPDX-License-Identifier: MIT
// sharedHelper(): one helper for all programs of a user, started by the first one that asks.
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { addonReason } from '../open/lane.ts';
import { connectionBy, sessionOpener, takingOver } from '../rendezvous/connect.ts';
import type { Connection } from '../rendezvous/connection.ts';
import { checkReconnect } from '../rendezvous/reconnect-options.ts';
import { held } from '../rpc/serving/hold-door.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { SharedFinder } from './shared-finder.ts';
import { checkShared, type SharedHelperOptions, sharedOptionNames } from './shared-options.ts';
import { sharedSystem } from './shared-system.ts';

/**
 * Connects to the one helper of this name, and starts it where none runs: exactly one, however many
 * programs ask at the same moment. It lives on when they end, and ends by itself when no program
 * has used it for `idleTimeoutMs`. A newer version takes the place of an older one, which finishes
 * its calls; an older never takes that of a newer. The helper calls `listenShared()`.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where it does not start, with
 * its exit; `ERR_SIDECALL_PEER_UNRESPONSIVE` where it runs, and neither answers nor works;
 * `ERR_SIDECALL_VERSION_MISMATCH` by `onOlder` and `onNewer`; `ERR_SIDECALL_ADDON_UNAVAILABLE`;
 * what `connect()` rejects with; `TypeError`/`RangeError` for misuse.
 * @example
 * ```ts
 * import { service, sharedHelper, unary } from 'sidecall';
 *
 * const Index = service('Index', { find: unary<string, string[]>() });
 *
 * const program = new URL('indexer.mjs', import.meta.url);
 * await using helper = await sharedHelper({ name: 'indexer', version: '1.2.0', program });
 * console.log(await helper.client(Index).find('word'));
 * ```
 */
export async function sharedHelper(options: SharedHelperOptions): Promise<Connection> {
  const settings = checkShared(options);
  const reconnect = checkReconnect(options.reconnect ?? true);
  const { addon } = nativeState();
  if (addon === undefined) {
    throw new SidecallError(
      'ERR_SIDECALL_ADDON_UNAVAILABLE',
      `sharedHelper() needs the addon: ${addonReason()}`,
    );
  }
  const registry = new Registry();
  const { path } = settings;
  const session = Object.fromEntries(
    Object.entries(options).filter(([name]) => !ownNames.has(name)),
  );
  const given = { ...session, path };
  const toReplace = sessionOpener({ ...given, lane: 'socket' }, undefined, takingOver);
  const opener = sessionOpener(given, registry);
  const finder = new SharedFinder(settings, sharedSystem(addon, settings, opener, toReplace));
  const open = (signal: AbortSignal | undefined, isWanted = true): Promise<Session> =>
    isWanted ? finder.find(signal) : finder.findRunning(signal);
  const { onEvent } = options;
  // A try begins no connection behind startTimeoutMs, and ends that one.
  const tryMaxMs = settings.startTimeoutMs + ranges.connectTimeoutMs.max;
  const ours = { registry, settings: opener.settings };
  const parts = { path, onEvent, reconnect, ...ours, isOnDemand: true, tryMaxMs };
  return held(options.services, await connectionBy(open, parts, options.signal));
}

const ownNames = new Set<string>(sharedOptionNames);
