// One chart per scenario, drawn from a result's rows. Text and bars are of middle tones on no
// background, so that they are legible on light and dark pages.
import { init } from 'echarts';
import { altOf, plots, rounded, shownRows } from './plots.mjs';

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

/** The width of a page's text on a desk, so that letters of 12 px are shown as such. */
const chartWidth = 688;

/** The chart as SVG, or undefined where there is nothing to draw. */
export function chartOf(scenario, rows) {
  const { title, unit, value, isLog, category, series } = plots[scenario];
  const shown = shownRows(scenario, rows);
  if (shown.length === 0) return undefined;
  const categories = [...new Set(shown.map(category))];
  const names = [...new Set(shown.map((row) => series?.(row) ?? ''))];
  const lookUp = (name, one) =>
    shown.find((row) => (series?.(row) ?? '') === name && category(row) === one);
  const bars = Math.max(categories.length * Math.max(names.length, 1), 3);
  const legendRows = names.length > 1 ? Math.ceil(names.length / 3) : 0;
  const top = 44 + legendRows * 30;
  const height = top + 60 + bars * 17 + categories.length * 8;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: chartWidth, height });
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
    grid: { left: 190, right: 70, top, bottom: 46 },
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
        fontSize: 12,
        formatter: ({ value: shownValue }) => (shownValue === '-' ? '' : rounded(shownValue)),
      },
      data: categories.map((one) => {
        const row = lookUp(name, one);
        return row === undefined ? '-' : value(row);
      }),
    })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return labelled(svg, altOf(scenario, rows));
}

function lowest(all) {
  return 10 ** Math.floor(Math.log10(Math.min(...all)));
}

function colourOf(name, at, names) {
  const isOurs = (each) => each === '' || each.startsWith('sidecall');
  const before = names.slice(0, at).filter((each) => isOurs(each) === isOurs(name)).length;
  const palette = isOurs(name) ? ours : theirs;
  return palette[before % palette.length];
}

function labelled(svg, text) {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  return svg.replace('>', ` role="img" aria-label="${escaped}">`);
}

/**
 * The chart of rows of the same work: a bar for each, in their order. `width` is that of the screen
 * that it is for: letters have 12 px there.
 */
export function overviewOf(rows, { width, label, alt }) {
  const left = width < 500 ? 128 : 190;
  const height = 40 + rows.length * 26;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({
    animation: false,
    textStyle: { color: ink, fontFamily: 'sans-serif' },
    grid: { left, right: 70, top: 4, bottom: 34 },
    xAxis: {
      type: 'value',
      name: 'calls a second',
      nameLocation: 'middle',
      nameGap: 20,
      nameTextStyle: { color: ink, fontSize: 12 },
      axisLabel: { show: false },
      splitLine: { show: false },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: rows.map(label),
      axisLabel: { color: ink, fontSize: 12 },
      axisTick: { show: false },
    },
    series: [
      {
        type: 'bar',
        barWidth: 16,
        label: {
          show: true,
          position: 'right',
          color: ink,
          fontSize: 12,
          formatter: ({ value }) => rounded(value),
        },
        data: rows.map((row) => ({
          value: row.callsPerSecond,
          itemStyle: { color: row.peer === 'sidecall' ? ours[0] : theirs[1] },
        })),
      },
    ],
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return labelled(svg, alt);
}
