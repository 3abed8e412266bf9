// The bound of the standard error of a shared helper.
import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { expect, it } from 'vitest';
import { boundLog, logKeptBytes, logMaxBytes } from '../../src/shared/bounded-log.ts';
import { scratchDirectory } from '../support/programs.ts';

const line = (number: number): string => `line ${number} `.padEnd(99, '.');

it('a log is cut to its last whole lines, and goes on behind them', () => {
  using directory = scratchDirectory();
  const path = directory.file('helper.log');
  const fd = openSync(path, 'a');
  try {
    const count = Math.floor(logMaxBytes / 100) + 1;
    for (let number = 1; number < count; number += 1) writeSync(fd, `${line(number)}\n`);
    const before = statSync(path).size;
    boundLog(path, fd);
    expect(statSync(path).size).toBe(before); // it is not longer than it may be
    writeSync(fd, `${line(count)}\n`);
    boundLog(path, fd);
    writeSync(fd, 'the next one\n');
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    expect(lines.at(-1)).toBe('the next one');
    expect(lines.at(-2)).toBe(line(count));
    expect(lines[0]).toBe(line(count - lines.length + 2));
    expect(lines.length * 100).toBeGreaterThan(logKeptBytes - 200);
    expect(statSync(path).size).toBeLessThan(logKeptBytes + 100);
  } finally {
    closeSync(fd);
  }
});

it('a standard error that is another file is left alone', () => {
  using directory = scratchDirectory();
  const [path, other] = [directory.file('helper.log'), directory.file('other')];
  writeFileSync(path, 'short');
  writeFileSync(other, Buffer.alloc(logMaxBytes + 1, 'x'));
  const fd = openSync(other, 'a');
  try {
    boundLog(path, fd);
    expect(statSync(other).size).toBe(logMaxBytes + 1);
    expect(readFileSync(path, 'utf8')).toBe('short');
  } finally {
    closeSync(fd);
  }
});
