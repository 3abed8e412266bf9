// SPDX-License-Identifier: MIT
// Reports the numbers of sessions at an interval, and a last time at their end. After the Monitor
// of shmipc-go.
import { systemClock, type Timer, throwLater } from '../base/clock.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkFunction, checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import type { SessionSums, TotalStats } from '../rpc/session/session-sums.ts';

/** Options of the reports of numbers. An error that a function throws is uncaught. */
export interface MonitorOptions {
  /** Milliseconds between two reports. Default 30,000; 100 to 86,400,000. */
  readonly intervalMs?: number | undefined;
  /**
   * Takes the numbers up to now: at each interval, and a last time at the end. A process that exits
   * before has no last report.
   */
  readonly report: (stats: TotalStats) => void;
  /** Called after the last report. */
  readonly flush?: (() => void) | undefined;
}

/** Checked {@link MonitorOptions}. */
export interface MonitorSettings {
  readonly intervalMs: number;
  readonly report: (stats: TotalStats) => void;
  readonly flush: (() => void) | undefined;
}

/** @throws {TypeError | RangeError} for misuse of the option `monitor`. */
export function checkMonitor(options: MonitorOptions | undefined): MonitorSettings | undefined {
  if (options === undefined) return undefined;
  checkKeys('monitor', options, ['intervalMs', 'report', 'flush']);
  const range = ranges.monitorIntervalMs;
  const intervalMs = checkInteger('monitor.intervalMs', options.intervalMs, range);
  const flush = checkFunction('monitor.flush', options.flush);
  const report = checkFunction(
    'monitor.report',
    options.report as typeof options.report | undefined,
  );
  if (report !== undefined) return { intervalMs, report, flush };
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'monitor.report must be a function');
}

/** Reports until `ended` settles. Its timer keeps no process alive. */
export function startMonitor(
  settings: MonitorSettings | undefined,
  stats: () => TotalStats,
  ended: Promise<unknown>,
): void {
  if (settings === undefined) return;
  const { intervalMs, report, flush } = settings;
  let timer: Timer | undefined;
  const wait = (): void => {
    timer = systemClock.setTimeout(tell, intervalMs);
    timer.unref();
  };
  const tell = (): void => {
    wait();
    guarded(() => report(stats()));
  };
  const onEnded = (): void => {
    systemClock.clearTimeout(timer);
    guarded(() => report(stats()));
    if (flush !== undefined) guarded(flush);
  };
  wait();
  ended.then(onEnded, onEnded);
}

/** The same for all sessions that have the same settings. */
export function monitorSums(
  settings: MonitorSettings | undefined,
  sums: SessionSums,
  ended: Promise<unknown>,
): void {
  startMonitor(settings, () => sums.stats(), ended);
}

function guarded(run: () => void): void {
  try {
    run();
  } catch (error) {
    throwLater(error);
  }
}
