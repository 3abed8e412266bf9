// The values of each scenario that its chart shows, and the text that says its result.
import { cpuPerCall } from './report.mjs';

const sizeOf = ({ size }) => `${size.toLocaleString('en')} B`;
const whoOf = ({ peer, lane }) => (lane === null ? peer : `${peer} (${lane})`);
const rate = { unit: 'calls a second', value: (row) => row.callsPerSecond, isLog: true };
/** The fastest peer in another language, and that of Node with answers. */
const pickedPeers = ['shmipc-go', 'zeromq'];
const median = { unit: 'µs, median', value: (row) => row.p50Us };

/**
 * The bars that are drawn of each scenario: bars of `value`, grouped by `category`, one colour per
 * `series`.
 */
export const plots = {
  echo: {
    ...rate,
    title: '16 calls at once (programs in C: one)',
    takes: (row) => row.codec === 'bytes' && (row.inFlight === 16 || row.peer.startsWith('c-')),
    category: sizeOf,
    series: whoOf,
  },
  wake: { ...median, title: 'a call when both sides sleep', category: whoOf },
  paced: {
    title: '1,000 calls a second',
    unit: 'µs of CPU for a call, both sides',
    value: cpuPerCall,
    category: whoOf,
  },
  'unary-json': { ...rate, isLog: false, category: whoOf, series: (row) => row.codec },
  'unary-protobuf': { ...rate, isLog: false, category: whoOf, series: (row) => row.codec },
  stream: {
    title: 'one way',
    unit: 'GB a second',
    value: (row) => row.bytesPerSecond / 1e9,
    isLog: true,
    category: (row) => `${sizeOf(row)}, ${row.what ?? 'pour'}`,
    series: whoOf,
  },
  codecs: {
    ...rate,
    title: 'ways to send bytes, 16 calls at once',
    takes: ({ peer, what }) =>
      peer === 'sidecall' || (pickedPeers.includes(peer) && what === 'bytes'),
    category: sizeOf,
    series: (row) =>
      (row.what ?? 'bytes') === 'bytes' && row.peer !== 'sidecall'
        ? row.peer
        : `${row.peer}, ${row.what}`,
  },
  lease: {
    ...median,
    isLog: true,
    title: 'a round trip in leased memory',
    category: sizeOf,
    series: (row) => (row.peer === 'sidecall' ? `sidecall, ${row.what}` : row.peer),
  },
  fairness: {
    title: '100 B calls beside a large transfer',
    unit: 'µs, 99th percentile',
    value: (row) => row.p99Us,
    isLog: true,
    category: (row) => row.what,
    series: whoOf,
  },
  growth: {
    ...rate,
    isLog: false,
    category: (row) => (row.what === 'in flight' ? `${row.inFlight} in flight` : row.what),
    series: whoOf,
  },
  allocs: {
    title: 'memory of a call of 1 kB',
    unit: 'blocks of the C library (Go: mallocs of both sides)',
    value: (row) => row.nativeBlocksPerCall ?? row.mallocsPerCall,
    isLog: true,
    category: (row) => `${whoOf(row)}, ${row.codec}`,
  },
  idle: {
    unit: 'KiB for an idle session, beside its rings',
    value: (row) => row.rssBytesPerSession / 1024,
    category: whoOf,
  },
  reliability: {
    title: 'SIGKILL of the helper',
    unit: 'ms, 99th percentile',
    value: (row) => row.p99Us / 1000,
    isLog: true,
    category: (row) => row.what,
    series: whoOf,
  },
  users16: { ...rate, title: '16 callers, 10,000 requests', category: sizeOf, series: whoOf },
  health100k: { ...median, title: 'health checks in turn', category: whoOf },
  pingpong: {
    ...rate,
    unit: 'operations a second',
    title: 'one stream, of which the server sends first',
    category: sizeOf,
    series: whoOf,
  },
  pool: {
    ...rate,
    title: 'pools of workers that compute',
    category: (row) => row.what,
    series: whoOf,
  },
  connect: {
    title: 'a further connection',
    unit: 'µs, median',
    value: (row) => row.p50Us,
    category: (row) => row.what,
    series: whoOf,
  },
  'short-stream': {
    title: 'a stream of one message each way',
    unit: 'µs, median',
    value: (row) => row.p50Us,
    category: (row) => row.what,
    series: whoOf,
  },
  'connect-rate': {
    ...rate,
    unit: 'requests a second',
    category: (row) => `${row.inFlight} at once, ${row.what}`,
    series: whoOf,
  },
};

/** The rows of a scenario that are drawn. */
export function shownRows(scenario, rows) {
  const { value, takes = () => true } = plots[scenario];
  return rows.filter((row) => row.skipped === undefined && takes(row) && value(row) > 0);
}

/** The result of a chart in words: the values of its first and its last group. */
export function altOf(scenario, rows) {
  const { title, unit, value, category, series } = plots[scenario];
  const shown = shownRows(scenario, rows);
  const groups = [...new Set(shown.map(category))];
  const ends = groups.length <= 3 || series === undefined ? groups : [groups[0], groups.at(-1)];
  const valuesOf = (group) =>
    shown
      .filter((row) => category(row) === group)
      .map((row) => [series?.(row), rounded(value(row))].filter(Boolean).join(' '))
      .join(', ');
  const words = ends.map((group) => `${group}: ${valuesOf(group)}`);
  return `${title ?? scenario}, ${unit}. ${words.join('; ')}`;
}

export function rounded(number) {
  if (number >= 100) return Math.round(number).toLocaleString('en');
  return Number(number.toPrecision(3)).toString();
}
