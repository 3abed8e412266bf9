// SPDX-License-Identifier: MIT
// Numbers of sessions in the text format that Prometheus reads
// (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4).
import { nodeError } from '../base/misuse.ts';
import type { MethodStats } from '../rpc/counting/method-counters.ts';
import type { SessionStats } from '../rpc/session/session-stats.ts';
import type { TotalStats } from '../rpc/session/session-sums.ts';

type Labels = Readonly<Record<string, string>>;

/** A number with its labels; `suffix` follows the name of its metric. */
interface Sample {
  readonly labels: Labels;
  readonly value: number;
  readonly suffix?: string;
}

type MetricKind = 'counter' | 'gauge' | 'summary';

const labelForm = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/**
 * The numbers of a session, or of several, as Prometheus reads them. Answer a scrape with it, as
 * `text/plain; version=0.0.4`. Durations are in seconds.
 * @param stats of `stats()` or `totalStats()`.
 * @param labels given to each number, to tell several apart.
 * @throws {TypeError} `ERR_INVALID_ARG_VALUE` for a name of a label that the format does not allow.
 * @example
 * ```ts
 * import { createServer } from 'node:http';
 * import { toPrometheus, totalStats } from 'sidecall';
 *
 * createServer((_, response) => {
 *   response.setHeader('content-type', 'text/plain; version=0.0.4');
 *   response.end(toPrometheus(totalStats(), { program: 'indexer' }));
 * }).listen(9100, '127.0.0.1');
 * ```
 */
export function toPrometheus(stats: SessionStats | TotalStats, labels: Labels = {}): string {
  for (const name of Object.keys(labels)) {
    if (labelForm.test(name)) continue;
    const text = `toPrometheus(): '${name}' is no name of a label: letters, digits and _ only, no digit and no __ first`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const lines: string[] = [];
  const add = (name: string, kind: MetricKind, help: string, samples: readonly Sample[]): void => {
    lines.push(`# HELP sidecall_${name} ${help}`, `# TYPE sidecall_${name} ${kind}`);
    for (const { labels: own, value, suffix = '' } of samples) {
      lines.push(`sidecall_${name}${suffix}${textOf({ ...labels, ...own })} ${numberOf(value)}`);
    }
  };
  const { methods, messages, frames, doorbells, leases, blocks } = stats;
  const all = sided(methods);
  add('calls_total', 'counter', 'Calls that ended.', all.flatMap(endsOf));
  add(
    'call_duration_seconds',
    'summary',
    'Time from the begin of a call to its end.',
    all.flatMap(latencyOf),
  );
  add('call_ends_total', 'counter', 'Calls that failed, by reason.', failuresOf(stats.ends));
  add('calls_open', 'gauge', 'Calls of ours that have begun and have not ended.', [
    one(stats.calls.open),
  ]);
  add('handlers_running', 'gauge', 'Handlers that run.', [one(stats.handlers.running)]);
  add(
    'messages_total',
    'counter',
    'Whole messages; those that were consumed have also been received.',
    by('direction', messages, (each) => each.messages),
  );
  add(
    'message_bytes_total',
    'counter',
    'Bytes of whole messages; those that were consumed have also been received.',
    by('direction', messages, (each) => each.bytes),
  );
  add(
    'frames_total',
    'counter',
    'Frames.',
    by('direction', frames, (each) => each),
  );
  add(
    'waits',
    'gauge',
    'Calls, messages and frames that wait at this moment.',
    by('reason', stats.waits, (each) => each),
  );
  add(
    'waits_total',
    'counter',
    'Waits that have begun.',
    by('reason', stats.waited, ({ count }) => count),
  );
  add(
    'wait_seconds_total',
    'counter',
    'Time in which something waited, of all places together: each stream is one.',
    by('reason', stats.waited, ({ ms }) => ms / 1e3),
  );
  add(
    'queued_bytes',
    'gauge',
    'Bytes of our messages that the lane has not taken, with 64 for each.',
    [one(stats.queuedBytes)],
  );
  add(
    'untaken_bytes',
    'gauge',
    'Bytes of messages that our application has not taken, with 64 for each.',
    [one(stats.untakenBytes)],
  );
  add(
    'doorbells_total',
    'counter',
    'Doorbells.',
    by('kind', doorbells, (each) => each),
  );
  add('leases_held', 'gauge', 'Leases that are held.', [one(leases.held)]);
  add('blocks_in_use', 'gauge', 'Blocks of ours in use.', [one(blocks.inUse)]);
  if ('sessions' in stats) {
    const { open, ended, failed } = stats.sessions;
    add('sessions_open', 'gauge', 'Sessions that are open.', [one(open)]);
    add('sessions_ended_total', 'counter', 'Sessions that are over.', [one(ended)]);
    add(
      'sessions_failed_total',
      'counter',
      'Sessions that did not end in order.',
      by('code', failed, (each) => each ?? 0),
    );
  }
  return `${lines.join('\n')}\n`;
}

interface SidedMethod extends MethodStats {
  readonly labels: Labels;
}

function sided(methods: SessionStats['methods']): SidedMethod[] {
  return Object.entries(methods).flatMap(([side, each]: [string, readonly MethodStats[]]) =>
    each.map((stats) => ({ ...stats, labels: { side, method: stats.method, kind: stats.kind } })),
  );
}

function endsOf({ labels, succeeded, failed }: SidedMethod): Sample[] {
  return [
    { labels: { ...labels, outcome: 'succeeded' }, value: succeeded },
    { labels: { ...labels, outcome: 'failed' }, value: failed },
  ];
}

function latencyOf({ labels, latencyMs }: SidedMethod): Sample[] {
  const { p50, p90, p99, max, sum, count } = latencyMs;
  const shares = { '0.5': p50, '0.9': p90, '0.99': p99, '1': max };
  const quantiles = Object.entries(shares).map(([quantile, ms]) => ({
    labels: { ...labels, quantile },
    value: count === 0 ? Number.NaN : ms / 1e3,
  }));
  const sums = [
    { labels, value: sum / 1e3, suffix: '_sum' },
    { labels, value: count, suffix: '_count' },
  ];
  return [...quantiles, ...sums];
}

function failuresOf(ends: SessionStats['ends']): Sample[] {
  return Object.entries(ends).flatMap(([side, counts]) =>
    Object.entries(counts).map(([reason, value]) => ({ labels: { side, reason }, value })),
  );
}

function one(value: number): Sample {
  return { labels: {}, value };
}

function by<T>(
  label: string,
  values: Readonly<Record<string, T>>,
  of: (value: T) => number,
): Sample[] {
  return Object.entries(values).map(([name, value]) => ({
    labels: { [label]: name },
    value: of(value),
  }));
}

function textOf(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n');
}

function numberOf(value: number): string {
  return Number.isNaN(value) ? 'NaN' : String(value);
}
