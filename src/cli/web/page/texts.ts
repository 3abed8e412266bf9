// SPDX-License-Identifier: MIT
// Numbers with the units that suit them.

/** Milliseconds. */
export function durationText(ms: number | undefined): string {
  if (ms === undefined) return '–';
  if (ms < 1) return `${Math.round(ms * 1_000)} µs`;
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000)
    return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Bytes, in powers of 1,000. */
export function bytesText(bytes: number | undefined): string {
  if (bytes === undefined) return '–';
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${bytes < 0 ? '−' : ''}${value.toFixed(digits)} ${units[unit]}`;
}

/** A number of something per second. */
export function rateText(rate: number | undefined): string {
  if (rate === undefined) return '–';
  if (rate < 10 && !Number.isInteger(rate)) return rate.toFixed(1);
  return Math.round(rate).toLocaleString('en');
}

/** A count. */
export function countText(count: number): string {
  return count.toLocaleString('en');
}

/** The time of day, with milliseconds. */
export function clockText(ms: number): string {
  const date = new Date(ms);
  const time = date.toLocaleTimeString('en-GB');
  return `${time}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}
