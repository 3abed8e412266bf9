// SPDX-License-Identifier: MIT
// The options that every way to a session has, and their checks.
import { nativeState } from '../addon/load-addon.ts';
import type { OnEvent } from '../base/events.ts';
import { checkLimits, ranges, type SessionLimits } from '../base/limits/option-limits.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  checkObject,
  nodeError,
} from '../base/misuse.ts';
import { Registry, type Services, servedSetOf } from '../rpc/serving/registry.ts';
import type { KeepAliveSettings } from '../rpc/session/keep-alive.ts';
import { SessionSums } from '../rpc/session/session-sums.ts';
import { addonReason, type LaneSetting, unavailable } from './lane.ts';
import { checkMonitor, type MonitorOptions, type MonitorSettings } from './monitor.ts';

/** When a peer is asked whether its event loop turns. */
export interface KeepAliveOptions {
  /** Milliseconds between two pings. Default 10,000; 1,000 to 3,600,000. */
  readonly intervalMs?: number | undefined;
  /** Milliseconds for the answer, until `unresponsive`. Default 5,000; 10 to 600,000. */
  readonly timeoutMs?: number | undefined;
}

/** Options that every way to a session has. */
export interface SessionOptions {
  /** Bounds of the session; see {@link SessionLimits} for defaults and ranges. */
  readonly limits?: Partial<SessionLimits> | undefined;
  /**
   * The lane that carries the frames: `auto` (the default) is shared memory where both sides can
   * have it, else the socket; `session.laneReason` says why. `socket` never asks for memory; `ring`
   * refuses with `ERR_SIDECALL_SHM_UNAVAILABLE` where it cannot be had (at a listener: that
   * connection, by a `refused` event). The variable `SIDECALL_LANE` of the environment sets it
   * where it is left out.
   */
  readonly lane?: 'auto' | 'ring' | 'socket' | undefined;
  /**
   * Shared memory for what we send, in bytes: a power of two. Default 1,048,576 between a program
   * and its helper; 262,144 at a path, where sessions are many and have to be opened quickly.
   * 65,536 to 67,108,864. The peer chooses its own.
   */
  readonly ringBytes?: number | undefined;
  /**
   * Buffers of the kernel for the socket lane, in bytes, as asked for: the kernel doubles them on
   * Linux, and bounds them by net.core.wmem_max and rmem_max; `stats().capacity` tells what it
   * gave. Of a Unix socket the sender's counts. It has no effect on the ring lane, and none without
   * the addon. Default: those of the system; 4,096 to 67,108,864.
   */
  readonly socketBufferBytes?: number | undefined;
  /**
   * The handling of messages that the peer has put into its block area, and of what the codec
   * `leased` receives. `copy` (the default): one copy, in memory that is used again.
   * `in-place-trusted`: read where they lie, by a host that allows external buffers (plain Node;
   * not Electron): only for a peer that you trust not to change them meanwhile, since code that
   * reads twice, native decoders among it, can be led to read or write elsewhere. `off`: the peer
   * sends them as any other.
   */
  readonly leases?: 'off' | 'copy' | 'in-place-trusted' | undefined;
  /**
   * Shared memory for blocks of `session.allocate()`, in bytes, taken at once for each session on
   * the ring lane. Default 0: blocks are ordinary memory; up to 1 GiB, rounded up to 16 KiB.
   */
  readonly blockAreaBytes?: number | undefined;
  /**
   * How long the event loop looks for more after a message before it sleeps, in microseconds; eight
   * times as long in dense traffic. Default 50 (0 on one CPU and in Electron's main process, and
   * see `configure()`); 0 to 1,000. Where looking does not pay it stops by itself.
   */
  readonly pollBudgetUs?: number | undefined;
  /**
   * Milliseconds without a call in either direction after which the session is closed in
   * order. Default: none; 1 to 2,147,483,647. Checked once per `idleTimeoutMs`, so the close
   * may come after twice the time.
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * May the peer list what we serve (`ReflectionService`)? Default: if it runs under our own uid.
   */
  readonly introspection?: boolean | undefined;
  /**
   * Services that the first call finds already: `[implement(Contract, handlers)]`, or a `server()`,
   * which then closes what it is given to. Default: none, and calls that arrive before the first
   * `serve()` wait for it, within their window and until their deadlines. With a list, an empty one
   * too, calls of other services are refused with `unimplemented`.
   */
  readonly services?: Services | undefined;
  /**
   * Milliseconds that something of a session may wait without any progress before `onEvent` is told
   * (`stalled`). Default 10,000; 10 to 600,000.
   */
  readonly stalledAfterMs?: number | undefined;
  /**
   * Pings the peer and tells `onEvent` when its event loop stands still (`unresponsive`) and when
   * it turns again (`responsive`); ends nothing. `true` for the defaults of
   * {@link KeepAliveOptions}. Default: no pings.
   */
  readonly keepAlive?: boolean | KeepAliveOptions | undefined;
  /**
   * Ends the session with `ERR_SIDECALL_PEER_UNRESPONSIVE` where the peer stands still for so many
   * milliseconds: it takes nothing of what was sent to it, or does not finish a frame that it has
   * begun. An idle peer is never ended. The end comes at the latest one second plus a quarter of
   * `stallTimeoutMs` after that; time in which this process itself stood still does not count. A
   * peer that computes without a pause, or is stopped in a debugger, stands still, too: choose
   * several times its longest computation. Default: never; 1,000 to 2,147,483,647.
   */
  readonly stallTimeoutMs?: number | undefined;
  /**
   * Reports the numbers of the sessions at an interval, and a last time at their end: of a session,
   * or of all sessions of a listener, helper, connection or pool. Default: no reports.
   */
  readonly monitor?: MonitorOptions | undefined;
  /** Called for events outside a call. An error that it throws is rethrown in a task of its own. */
  readonly onEvent?: OnEvent | undefined;
}

/** Names of {@link SessionOptions}, for the checks of unknown keys. */
export const sessionOptionNames = [
  'limits',
  'lane',
  'ringBytes',
  'socketBufferBytes',
  'leases',
  'blockAreaBytes',
  'pollBudgetUs',
  'idleTimeoutMs',
  'introspection',
  'services',
  'stalledAfterMs',
  'keepAlive',
  'stallTimeoutMs',
  'monitor',
  'onEvent',
] as const satisfies readonly (keyof SessionOptions)[];

/** Checked {@link SessionOptions}. */
export interface SessionSettings extends LaneSetting {
  readonly limits: SessionLimits;
  readonly ringBytes: number;
  /** undefined: as the system has it. */
  readonly socketBufferBytes: number | undefined;
  readonly leases: 'off' | 'copy' | 'in-place-trusted';
  readonly blockAreaBytes: number;
  /** undefined: as the process has it. */
  readonly pollBudgetUs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  /** undefined: for peers of our own uid. */
  readonly introspection: boolean | undefined;
  readonly onEvent: OnEvent | undefined;
  readonly stalledAfterMs: number;
  readonly keepAlive: KeepAliveSettings | undefined;
  readonly stallTimeoutMs: number | undefined;
  /** Of a listener or helper, for all of its sessions. */
  readonly registry: Registry | undefined;
  /** Of the session alone. */
  readonly services: Services | undefined;
  /** As in {@link SessionParts}. */
  readonly exitKnownMs?: number;
  /** Sessions wait to be taken from their listener. */
  readonly isUntaken?: boolean;
  /** No policy was given: only processes of our own user are accepted. */
  readonly isDefaultPolicy?: boolean;
  /** The sum of all sessions that have these settings. */
  readonly sums: SessionSums;
  readonly monitor: MonitorSettings | undefined;
  /** The peer looks into this process: the session is not among those that it sees. */
  readonly isInspection?: boolean;
}

/**
 * Checks what every way to a session takes.
 * @throws {TypeError | RangeError} for misuse, {@link SidecallError} `ERR_SIDECALL_SHM_UNAVAILABLE`
 * for `ring` where there is no addon.
 */
export function checkSessionOptions(
  options: SessionOptions,
  registry: Registry | undefined,
  ringRange: typeof ranges.ringBytes | typeof ranges.pathRingBytes = ranges.ringBytes,
): SessionSettings {
  const lane = options.lane ?? (process.env.SIDECALL_LANE || 'auto');
  if (lane !== 'auto' && lane !== 'ring' && lane !== 'socket') {
    const what = options.lane === undefined ? 'SIDECALL_LANE' : 'lane';
    const text = `${what} must be auto, ring or socket, got '${String(lane)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const ringBytes = checkInteger('ringBytes', options.ringBytes, ringRange);
  if ((ringBytes & (ringBytes - 1)) !== 0) {
    const text = `ringBytes must be a power of two, got ${ringBytes}`;
    throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
  }
  const leases = options.leases ?? 'copy';
  if (leases !== 'off' && leases !== 'copy' && leases !== 'in-place-trusted') {
    const text = `leases must be off, copy or in-place-trusted, got '${String(leases)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const areaBytes = checkInteger('blockAreaBytes', options.blockAreaBytes, ranges.blockAreaBytes);
  const { blockAreaUnitBytes } = wireLimits;
  const { pollBudgetUs, idleTimeoutMs } = options;
  if (idleTimeoutMs !== undefined) {
    checkInteger('idleTimeoutMs', idleTimeoutMs, ranges.idleTimeoutMs);
  }
  if (pollBudgetUs !== undefined) checkInteger('pollBudgetUs', pollBudgetUs, ranges.pollBudgetUs);
  if (lane === 'ring' && nativeState().addon === undefined) {
    throw unavailable(`there is no addon: ${addonReason()}`);
  }
  return {
    limits: checkLimits({
      ...servedSetOf(options.services)?.limits,
      ...checkObject('limits', options.limits),
    }),
    lane,
    ringBytes,
    socketBufferBytes:
      options.socketBufferBytes === undefined
        ? undefined
        : checkInteger('socketBufferBytes', options.socketBufferBytes, ranges.socketBufferBytes),
    leases,
    blockAreaBytes: Math.ceil(areaBytes / blockAreaUnitBytes) * blockAreaUnitBytes,
    pollBudgetUs,
    idleTimeoutMs,
    introspection:
      options.introspection === undefined
        ? undefined
        : checkBoolean('introspection', options.introspection),
    sums: new SessionSums(),
    monitor: checkMonitor(options.monitor),
    onEvent: checkFunction('onEvent', options.onEvent),
    stalledAfterMs: checkInteger('stalledAfterMs', options.stalledAfterMs, ranges.stalledAfterMs),
    keepAlive: checkKeepAlive(options.keepAlive),
    stallTimeoutMs:
      options.stallTimeoutMs === undefined
        ? undefined
        : checkInteger('stallTimeoutMs', options.stallTimeoutMs, ranges.stallTimeoutMs),
    registry,
    services: checkServices(options.services, registry),
  };
}

/**
 * A listener or helper serves its services by its registry; a session without one serves them
 * itself.
 */
function checkServices(
  services: Services | undefined,
  registry: Registry | undefined,
): Services | undefined {
  (registry ?? new Registry()).addAll(services);
  return registry === undefined ? services : undefined;
}

function checkKeepAlive(
  keepAlive: boolean | KeepAliveOptions | undefined,
): KeepAliveSettings | undefined {
  if (keepAlive === undefined || keepAlive === false) return undefined;
  const given = keepAlive === true ? {} : keepAlive;
  checkKeys('keepAlive', given, ['intervalMs', 'timeoutMs']);
  const { keepAliveIntervalMs, keepAliveTimeoutMs } = ranges;
  return {
    intervalMs: checkInteger('keepAlive.intervalMs', given.intervalMs, keepAliveIntervalMs),
    timeoutMs: checkInteger('keepAlive.timeoutMs', given.timeoutMs, keepAliveTimeoutMs),
  };
}
