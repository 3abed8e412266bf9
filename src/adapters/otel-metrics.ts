// SPDX-License-Identifier: MIT
// The numbers of all sessions of the thread, as instruments of OpenTelemetry that are read whenever
// the program exports its metrics.
import { type BatchObservableCallback, type MeterProvider, metrics } from '@opentelemetry/api';
import { checkKeys } from '../base/misuse.ts';
import { version } from '../base/version.ts';
import { totalStats } from '../open/open-sessions.ts';
import type { MethodStats } from '../rpc/counting/method-counters.ts';
import { checkProvider } from './otel-options.ts';

/** Instruments that are read until they are stopped. */
export interface Instruments {
  /** They are not read any more. A second call has no further effect. */
  stop(): void;
}

/** Options of {@link observeSessions}. */
export interface ObserveOptions {
  /** Default: the provider that the program has set for all of its code. */
  readonly meterProvider?: MeterProvider | undefined;
}

/**
 * Makes instruments of `totalStats()`, the numbers of all sessions of the thread: `sidecall.calls`
 * by method, kind, side and outcome; `sidecall.messages` and `sidecall.message.size` by direction;
 * `sidecall.sessions`; `sidecall.waits` and `sidecall.wait.duration` by reason;
 * `sidecall.queue.size` by direction; `sidecall.leases`; `sidecall.doorbells`. The instruments read
 * the numbers when the program exports, and count no more. Without `meterProvider` the program sets
 * up its SDK first: OpenTelemetry gives instruments that were made before to no exporter.
 * @throws {TypeError} for misuse.
 * @example
 * ```ts
 * import { observeSessions } from 'sidecall/otel';
 *
 * const instruments = observeSessions();
 * process.once('beforeExit', () => instruments.stop());
 * ```
 */
export function observeSessions(options: ObserveOptions = {}): Instruments {
  checkKeys('observeSessions()', options, ['meterProvider']);
  checkProvider('observeSessions()', 'meterProvider', options.meterProvider);
  const meter = (options.meterProvider ?? metrics).getMeter('sidecall', version);
  const calls = meter.createObservableCounter('sidecall.calls', { unit: '{call}' });
  const messages = meter.createObservableCounter('sidecall.messages', { unit: '{message}' });
  const bytes = meter.createObservableCounter('sidecall.message.size', { unit: 'By' });
  const sessions = meter.createObservableUpDownCounter('sidecall.sessions', { unit: '{session}' });
  const waits = meter.createObservableUpDownCounter('sidecall.waits', { unit: '{wait}' });
  const waited = meter.createObservableCounter('sidecall.wait.duration', { unit: 's' });
  const queued = meter.createObservableUpDownCounter('sidecall.queue.size', { unit: 'By' });
  const leases = meter.createObservableUpDownCounter('sidecall.leases', { unit: '{lease}' });
  const doorbells = meter.createObservableCounter('sidecall.doorbells', { unit: '{doorbell}' });
  const all = [calls, messages, bytes, sessions, waits, waited, queued, leases, doorbells];

  const read: BatchObservableCallback = (result) => {
    const stats = totalStats();
    for (const [side, methods] of Object.entries(stats.methods)) {
      for (const { method, kind, succeeded, failed } of methods as readonly MethodStats[]) {
        const of = { 'rpc.method': method, 'sidecall.kind': kind, 'sidecall.side': side };
        result.observe(calls, succeeded, { ...of, outcome: 'succeeded' });
        result.observe(calls, failed, { ...of, outcome: 'failed' });
      }
    }
    for (const [direction, count] of Object.entries(stats.messages)) {
      result.observe(messages, count.messages, { direction });
      result.observe(bytes, count.bytes, { direction });
    }
    result.observe(sessions, stats.sessions.open);
    for (const [reason, count] of Object.entries(stats.waits)) {
      result.observe(waits, count, { reason });
    }
    for (const [reason, { ms }] of Object.entries(stats.waited)) {
      result.observe(waited, ms / 1e3, { reason });
    }
    result.observe(queued, stats.queuedBytes, { direction: 'sent' });
    result.observe(queued, stats.untakenBytes, { direction: 'received' });
    result.observe(leases, stats.leases.held);
    result.observe(doorbells, stats.doorbells.sent, { direction: 'sent' });
    result.observe(doorbells, stats.doorbells.received, { direction: 'received' });
  };
  meter.addBatchObservableCallback(read, all);
  return { stop: () => meter.removeBatchObservableCallback(read, all) };
}
