// One chart per scenario, drawn from a result's rows. Text and bars are of middle tones on no
// background, so that they are legible on light and dark pages.
import { init } from 'echarts';
import { cpuPerCall } from './report.mjs';

const ink = '#7d8590';
const ours = ['#2f81f7', '#79b8ff', '#1158a7', '#a5d0ff', '#0b3d73', '#56a4ff'];
const theirs = [
  '#d29922',
  '#8b949e',
  '#fabed4',
  '#db6d28',
  '#a371f7',
  '#3fb950',
  '#f778ba',
  '#9a6324',
  '#e3b341',
  '#57ab5a',
  '#ec6547',
  '#b083f0',
  '#469990',
  '#808000',
  '#39c5cf',
  '#e275ad',
];

const sizeOf = ({ size }) => `${size.toLocaleString('en')} B`;
const whoOf = ({ peer, lane }) => (lane === null ? peer : `${peer} (${lane})`);
const rate = { unit: 'calls a second', value: (row) => row.callsPerSecond, isLog: true };
const median = { unit: 'µs, median', value: (row) => row.p50Us };

/**
 * The bars that are drawn of each scenario: bars of `value`, grouped by `category`, one colour per
 * `series`.
 */
const plots = {
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
  lease: {
    ...median,
    isLog: true,
    title: 'there and back in lent memory',
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
    title: 'the server sends first',
    category: sizeOf,
    series: whoOf,
  },
  'connect-rate': {
    ...rate,
    unit: 'requests a second',
    category: (row) => `${row.inFlight} at once, ${row.what}`,
    series: whoOf,
  },
};

/** The chart as SVG, or undefined where there is nothing to draw. */
export function chartOf(scenario, rows) {
  const { title, unit, value, isLog, category, series, takes = () => true } = plots[scenario];
  const shown = rows.filter((row) => row.skipped === undefined && takes(row) && value(row) > 0);
  if (shown.length === 0) return undefined;
  const categories = [...new Set(shown.map(category))];
  const names = [...new Set(shown.map((row) => series?.(row) ?? ''))];
  const lookUp = (name, one) =>
    shown.find((row) => (series?.(row) ?? '') === name && category(row) === one);
  const bars = Math.max(categories.length * Math.max(names.length, 1), 3);
  const legendRows = names.length > 1 ? Math.ceil(names.length / 4) : 0;
  const top = 44 + legendRows * 40;
  const height = top + 60 + bars * 13 + categories.length * 8;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: 900, height });
  chart.setOption({
    animation: false,
    textStyle: { color: ink, fontFamily: 'sans-serif' },
    title: { text: title ?? scenario, left: 0, textStyle: { color: ink, fontSize: 14 } },
    legend: {
      show: names.length > 1,
      top: 34,
      left: 0,
      type: 'plain',
      itemGap: 40, // spare room: the width of a text depends on the renderer
      textStyle: { color: ink },
      data: names,
    },
    grid: { left: 200, right: 80, top, bottom: 46 },
    xAxis: {
      type: isLog ? 'log' : 'value',
      name: unit,
      nameLocation: 'middle',
      nameGap: 28,
      nameTextStyle: { color: ink },
      axisLabel: { color: ink, hideOverlap: true },
      splitLine: { lineStyle: { color: ink, opacity: 0.25 } },
      ...(isLog && { min: lowest(shown.map(value)) }),
    },
    yAxis: { type: 'category', data: categories, inverse: true, axisLabel: { color: ink } },
    series: names.map((name, at) => ({
      name,
      type: 'bar',
      barMaxWidth: 14,
      itemStyle: { color: colourOf(name, at, names) },
      label: {
        show: true,
        position: 'right',
        color: ink,
        fontSize: 9,
        formatter: ({ value: shownValue }) => (shownValue === '-' ? '' : round(shownValue)),
      },
      data: categories.map((one) => {
        const row = lookUp(name, one);
        return row === undefined ? '-' : value(row);
      }),
    })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg.replace('>', ` role="img" aria-label="${scenario}: ${unit}">`);
}

function lowest(all) {
  return 10 ** Math.floor(Math.log10(Math.min(...all)));
}

function round(number) {
  if (number >= 100) return Math.round(number).toLocaleString('en');
  return Number(number.toPrecision(3)).toString();
}

function colourOf(name, at, names) {
  const isOurs = (each) => each === '' || each.startsWith('sidecall');
  const before = names.slice(0, at).filter((each) => isOurs(each) === isOurs(name)).length;
  const palette = isOurs(name) ? ours : theirs;
  return palette[before % palette.length];
}
