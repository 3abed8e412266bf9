// `sidecall inspect FILE` as a user runs it.
import { spawnSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { scratchDirectory } from '../support/programs.ts';
import { copyWithRequests, unreadRequests } from '../support/ring-copies.ts';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');

function inspect(...args: string[]) {
  return spawnSync(process.execPath, [main, 'inspect', ...args], { encoding: 'utf8' });
}

describe('sidecall inspect', () => {
  it('prints a saved copy, for people and as JSON', async () => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('copy'), await copyWithRequests());
    const { stdout, stderr, status } = inspect(scratch.file('copy'));
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toContain('sent by the side that saved the copy: 1,048,576 bytes');
    expect(stdout.match(/ {2}frame, \d+ bytes: open \d+\.\d+ by its opener, unary/g)).toHaveLength(
      unreadRequests,
    );
    expect(stdout).toMatch(/The shared memory is intact\.\n$/);
    const told = JSON.parse(inspect(scratch.file('copy'), '--json').stdout);
    expect(told).toMatchObject({ faults: [], received: { unreadBytes: 0 } });
    expect(told.sent.records).toHaveLength(unreadRequests);
  });

  it('names faults, and ends with status 1', async () => {
    using scratch = scratchDirectory();
    const copy = await copyWithRequests();
    copy.writeBigUInt64LE(3n, 128);
    writeFileSync(scratch.file('copy'), copy);
    const { stdout, status } = inspect(scratch.file('copy'));
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAULT {2}the published bytes of the first memory are 3, no multiple/m);
  });

  it('says which file cannot be read', () => {
    const { stderr, status } = inspect('/absent');
    expect(status).toBe(1);
    expect(stderr).toContain(
      'sidecall inspect: unknown: /absent could not be read: there is no pid, socket or file',
    );
  });

  it('says that a file is no copy', () => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('text'), 'hello\n');
    for (const args of [[scratch.file('text')], ['--web', scratch.file('text')]]) {
      const { stdout, stderr, status } = inspect(...args);
      expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
      expect(stderr).toContain('its 6 bytes are neither a saved ring (');
    }
  });

  it('looks at the begin of a file before it reads it', () => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('image'), '');
    truncateSync(scratch.file('image'), 3 * 1024 ** 3); // longer than what Node reads at once
    const { stdout, stderr, status } = inspect(scratch.file('image'));
    expect({ stdout, status }).toEqual({ stdout: '', status: 1 });
    expect(stderr).toContain('its 3221225472 bytes are neither a saved ring (');
  });

  it('needs one file', () => {
    expect(inspect()).toMatchObject({ status: 2 });
    expect(inspect('a', 'b')).toMatchObject({ status: 2 });
  });
});
