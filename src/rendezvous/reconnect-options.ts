// SPDX-License-Identifier: MIT
// The options of connections that are made again, and their checks.
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../base/misuse.ts';

/** How often, and how long, a connection that was lost is made again. The first try is at once. */
export interface ReconnectOptions {
  /**
   * Longest pause before the second try, in milliseconds; each further one is 1.6 times as long.
   * Each pause is drawn between a half and the whole, so that many clients of one listener do not
   * arrive together. Default 50; 1 to 600,000.
   */
  readonly firstMs?: number | undefined;
  /** The longest pause of all, in milliseconds. Default 1,000; 1 to 600,000. */
  readonly maxMs?: number | undefined;
  /**
   * Milliseconds without a session after which the connection is given up: its calls fail from
   * then on. Default 600,000; 0 (one try) to 86,400,000.
   */
  readonly giveUpMs?: number | undefined;
}

/** Checked {@link ReconnectOptions}. */
export interface ReconnectSettings {
  readonly firstMs: number;
  readonly maxMs: number;
  readonly giveUpMs: number;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkReconnect(reconnect: true | ReconnectOptions): ReconnectSettings {
  const given = reconnect === true ? {} : reconnect;
  checkKeys('reconnect', given, ['firstMs', 'maxMs', 'giveUpMs']);
  const settings = {
    firstMs: checkInteger('reconnect.firstMs', given.firstMs, ranges.reconnectFirstMs),
    maxMs: checkInteger('reconnect.maxMs', given.maxMs, ranges.reconnectMaxMs),
    giveUpMs: checkInteger('reconnect.giveUpMs', given.giveUpMs, ranges.reconnectGiveUpMs),
  };
  if (settings.firstMs <= settings.maxMs) return settings;
  const text = `reconnect.firstMs ${settings.firstMs} exceeds reconnect.maxMs ${settings.maxMs}`;
  throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
}
