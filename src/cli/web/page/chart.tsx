// SPDX-License-Identifier: MIT
// Lines over time.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { Sample } from '../samples.ts';

/** A line of a chart. */
export interface Line {
  readonly label: string;
  /** The color, as a custom property of the style sheet. */
  readonly color: '--first' | '--second';
  readonly value: (sample: Sample) => number | undefined;
}

interface ChartProps {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly samples: readonly Sample[];
  readonly text: (value: number) => string;
  /** `light` or `dark`: the chart is drawn anew where it changes. */
  readonly colors: string;
}

const height = 150;

/** A chart with its newest values as text, which readers of screens read, too. */
export function Chart({ title, lines, samples, text, colors }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = dataOf(lines, samples);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = place.current as HTMLDivElement;
    plot.current = new uPlot(optionsOf(lines, text, element), latest.current, element);
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [colors]);
  useEffect(() => plot.current?.setData(data), [data]);
  const last = samples.at(-1);
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {lines.map(({ label, color, value }) => {
          const now = last && value(last);
          return (
            <span key={label} class={`key ${color.slice(2)}`}>
              {label} <b>{now === undefined ? '–' : text(now)}</b>
            </span>
          );
        })}
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}

/** Without a sample for so long, the line has a gap. */
const gapMs = 15_000;

function dataOf(lines: readonly Line[], samples: readonly Sample[]): uPlot.AlignedData {
  const times: number[] = [];
  const rows: (Sample | undefined)[] = [];
  for (const [at, sample] of samples.entries()) {
    const before = samples[at - 1];
    if (before !== undefined && sample.atMs - before.atMs > gapMs) {
      times.push((before.atMs + 1) / 1_000);
      rows.push(undefined);
    }
    times.push(sample.atMs / 1_000);
    rows.push(sample);
  }
  return [
    times,
    ...lines.map(({ value }) => rows.map((sample) => (sample && value(sample)) ?? null)),
  ] as uPlot.AlignedData;
}

function optionsOf(
  lines: readonly Line[],
  text: (value: number) => string,
  element: HTMLElement,
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string): string => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`;
  const axis = {
    stroke: color('--muted'),
    font,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      {
        ...axis,
        size: 26,
        space: 90,
        incrs: timeSteps,
        values: (_, times) => times.map((time) => timeText(time)),
      },
      { ...axis, size: 64, values: (_, values) => marks(values.map((value) => text(value))) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 2,
        points: { show: false },
      })),
    ],
  };
}

/** A text that the mark below has already, after rounding, is left out. */
function marks(texts: readonly string[]): string[] {
  return texts.map((text, at) => (text === texts[at - 1] ? '' : text));
}

/** Seconds between two marks of time. */
const timeSteps = [1, 5, 10, 30, 60, 120, 300, 600];

function timeText(seconds: number): string {
  return new Date(seconds * 1_000).toLocaleTimeString('en-GB');
}
