// SPDX-License-Identifier: MIT
// listenGolib(): services for Go programs that call by golib's RPC.
import { ranges, type SessionLimits } from '../../base/limits/option-limits.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { type ListenBaseOptions, listen, plainListenNames } from '../../rendezvous/listen.ts';
import type { PlainListener } from '../../rendezvous/plain-listener.ts';
import { held } from '../../rpc/serving/hold-door.ts';
import { Registry, type Services, servedSetOf } from '../../rpc/serving/registry.ts';
import { checkFrames, type FrameOptions } from './frame-socket.ts';
import { ServedConnection, type ServingSettings } from './served-connection.ts';

/** Options of {@link listenGolib}. */
export interface ListenGolibOptions extends ListenBaseOptions, FrameOptions {
  /** A `server()`, which then closes this listener too; or a list of `implement(…)`. */
  readonly services: Services;
  /**
   * The wire name of the method that a Go program calls by this name. Default: the same name.
   */
  readonly wireName?: ((methodName: string) => string) | undefined;
  /**
   * Handlers at work for one connection; then it is not read. Default: `limits.streamsMax` of the
   * `server()`, else 1,024; 1 to 65,536.
   */
  readonly callsPerConnection?: number | undefined;
  /**
   * Largest answer, in bytes: 32 less than the `MaxSize` of the Go programs, which close their
   * connection at a longer one. A longer answer is an error of its call. Default 1 GiB, the most;
   * at least 1.
   */
  readonly answerMaxBytes?: number | undefined;
}

const callsRange = { standard: 1_024, min: 1, max: 65_536 };
const answerRange = { standard: ranges.blockBytes.max, min: 1, max: ranges.blockBytes.max };
const ownNames = [
  'services',
  'wireName',
  'callsPerConnection',
  'answerMaxBytes',
  'receiveMaxBytes',
  'frameTimeoutMs',
] as const;
const ofPlain = plainListenNames.filter((name) => name !== 'protocol');

/**
 * Listens at a path for Go programs that call by golib's `chunk/rpc`, `json/rpc` or `proto/rpc`.
 * The kernel says who calls, as at any listener. Methods with streams are refused. golib's clients
 * check mode, uid and gid of the socket file: give them those of `mode`, `owner` and `gid` (a
 * client without a list of modes refuses exactly 0770, by a mistake of golib).
 * @throws (as rejection) what `listen({ protocol: 'plain' })` rejects with; `ERR_SIDECALL_CLOSED`
 * where the server of `services` was closed; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { implement, service, unary } from 'sidecall';
 * import { listenGolib } from 'sidecall/golib';
 *
 * const Sums = service('math', { sum: unary<{ Ints: number[] }, { Sum: number }>() });
 * const sum = ({ Ints }: { Ints: number[] }) => ({ Sum: Ints.reduce((a, b) => a + b, 0) });
 *
 * await listenGolib({ path: '/run/user/1000/math/socket', services: [implement(Sums, { sum })] });
 * ```
 */
export async function listenGolib(options: ListenGolibOptions): Promise<PlainListener> {
  if (typeof options !== 'object' || options === null || options.services === undefined) {
    const text = 'listenGolib() needs services: a server(), or a list of implement(…)';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkKeys('listenGolib()', options, [...ownNames, ...ofPlain]);
  const { services, wireName, onEvent } = options;
  const ofServer = servedSetOf(services)?.limits;
  checkFunction('wireName', wireName);
  const registry = new Registry();
  registry.addAll(services);
  const settings: ServingSettings = {
    registry,
    onEvent,
    wireName: wireName ?? ((name) => name),
    callsMax: checkInteger(
      'callsPerConnection',
      options.callsPerConnection === undefined ? callsOf(ofServer) : options.callsPerConnection,
      callsRange,
    ),
    answerMaxBytes: checkInteger('answerMaxBytes', options.answerMaxBytes, answerRange),
    frames: checkFrames(
      options.receiveMaxBytes === undefined
        ? { ...options, receiveMaxBytes: ofServer?.receiveMaxBytes }
        : options,
    ),
  };
  const entries = Object.entries(options).filter(([name]) => !ownNames.includes(name as never));
  const door: ListenBaseOptions = Object.fromEntries(entries);
  const listener = await listen({ ...door, protocol: 'plain' });
  void serveAll(listener, settings);
  return held(services, listener, { isListener: true });
}

async function serveAll(listener: PlainListener, settings: ServingSettings): Promise<void> {
  for await (const connection of listener) {
    if (!connection.destroyed) void new ServedConnection(connection, settings).serve();
  }
}

function callsOf(limits: Partial<SessionLimits> | undefined): number | undefined {
  const { streamsMax } = limits ?? {};
  return streamsMax === undefined ? undefined : Math.min(streamsMax, callsRange.max);
}
