// SPDX-License-Identifier: MIT
// The words between a shared helper and the programs that use it.
import { SidecallError } from '../base/errors.ts';
import { notification, service, unary } from '../rpc/contract/service.ts';
import { isVersion } from './version-order.ts';

/** A shared helper that runs, as `sidecall ps` lists it. */
export interface SharedHelperInfo {
  readonly name: string;
  readonly key: string | undefined;
  readonly version: string;
  readonly pid: number;
  /** Milliseconds since it was started. */
  readonly uptimeMs: number;
  /** Sessions that are open, the one that asks included. */
  readonly clients: number;
  readonly idleTimeoutMs: number;
}

/**
 * Checks what a helper says of itself, before it is compared or printed.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` where it is something else.
 */
export function checkInfo(info: SharedHelperInfo): SharedHelperInfo {
  const { name, key, version, pid, uptimeMs, clients, idleTimeoutMs } = info ?? {};
  const isText = (value: unknown): boolean =>
    typeof value === 'string' && value.length <= textMax && !control.test(value);
  const numbers = [pid, uptimeMs, clients, idleTimeoutMs];
  const isRight =
    isText(name) &&
    (key === undefined || isText(key)) &&
    isText(version) &&
    isVersion(version) &&
    numbers.every((value) => Number.isSafeInteger(value) && value >= 0);
  if (isRight) return { name, key, version, pid, uptimeMs, clients, idleTimeoutMs };
  const text = 'a shared helper says something else of itself than one does';
  throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}

const textMax = 1_024;
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are the ones
const control = /[\u0000-\u001f\u007f-\u009f]/;

/** Served by every shared helper. */
export const SharedService = service('sidecall.Shared', {
  info: unary<void, SharedHelperInfo>(),
  /** Ends the helper in order. */
  stop: notification<void>(),
});

/** The variable that tells a shared helper what it is; the helper deletes it. */
export const sharedVariable = 'SIDECALL_SHARED';

/** The value of {@link sharedVariable}, as JSON. */
export interface SharedOrder {
  readonly path: string;
  readonly name: string;
  readonly key: string | undefined;
  readonly version: string;
  readonly idleTimeoutMs: number;
}

/** The exit code of a helper whose path another one has taken first. */
export const pathTakenExit = 75;
