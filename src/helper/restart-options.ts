// SPDX-License-Identifier: MIT
// The options of restarts, and their checks.
import { ranges } from '../base/limits/option-limits.ts';
import { checkBoolean, checkInteger, checkKeys, nodeError } from '../base/misuse.ts';

/** When and how often a helper that died is started again. */
export interface RestartOptions {
  /**
   * Pause before the first restart, each further one within the window 1.6 times as long. Default
   * 10; 1 to 600,000.
   */
  readonly firstMs?: number | undefined;
  /** The longest pause. Default 1,000; 1 to 600,000. */
  readonly maxMs?: number | undefined;
  /**
   * Restarts within the window before the helper is given up as a crash loop. Default 5; 0 to
   * 1,000,000.
   */
  readonly maxRestarts?: number | undefined;
  /** Length of the window. Default 60,000; 100 to 86,400,000. */
  readonly windowMs?: number | undefined;
  /**
   * Restart the helper also when it ended by itself with exit code 0. Default: no,
   * that is an end and no crash.
   */
  readonly onSuccess?: boolean | undefined;
}

/** Checked {@link RestartOptions}. */
export interface RestartSettings {
  readonly firstMs: number;
  readonly maxMs: number;
  readonly maxRestarts: number;
  readonly windowMs: number;
  readonly onSuccess: boolean;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkRestart(
  restart: boolean | RestartOptions | undefined,
): RestartSettings | undefined {
  if (restart === undefined || restart === false) return undefined;
  const given = restart === true ? {} : restart;
  checkKeys('restart', given, ['firstMs', 'maxMs', 'maxRestarts', 'windowMs', 'onSuccess']);
  const settings = {
    firstMs: checkInteger('restart.firstMs', given.firstMs, ranges.restartFirstMs),
    maxMs: checkInteger('restart.maxMs', given.maxMs, ranges.restartMaxMs),
    maxRestarts: checkInteger('restart.maxRestarts', given.maxRestarts, ranges.maxRestarts),
    windowMs: checkInteger('restart.windowMs', given.windowMs, ranges.restartWindowMs),
    onSuccess: checkBoolean('restart.onSuccess', given.onSuccess),
  };
  if (settings.firstMs <= settings.maxMs) return settings;
  const text = `restart.firstMs ${settings.firstMs} exceeds restart.maxMs ${settings.maxMs}`;
  throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
}
