// The recorder of a helper, as its parent meets it.
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { RecorderMemory } from '../../src/helper/recorder-memory.ts';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { FlightRecorder } from '../../src/wire/flight-recorder.ts';
import { FrameType } from '../../src/wire/frame-header.ts';
import { RecordEvent, recorderBytes } from '../../src/wire/recorder-layout.ts';
import { until } from '../support/contract.ts';
import { watchLeaks } from '../support/leaks.ts';
import { programPath } from '../support/programs.ts';
import { copyWithRequests } from '../support/ring-copies.ts';

const Work = service('Work', {
  a: unary<number, { variable: string | undefined; left: string | undefined }>(),
  b: unary<number, unknown>(),
});

function start(options: SpawnOptions = {}): Promise<Helper> {
  const program = programPath('recorded.mjs');
  return spawnHelper(process.execPath, [program], {
    execArgv: [],
    stdout: 'ignore',
    recorder: 'frames',
    ...options,
  });
}

const command = join(import.meta.dirname, '..', '..', 'dist', 'cli', 'main.js');
const sidecall = (...args: string[]): string =>
  execFileSync(process.execPath, [command, ...args], { encoding: 'utf8' });

describe('a helper that is killed', () => {
  it('is told with what it was doing: to callers, as an event, and as a recording', async () => {
    const events: SidecallEvent[] = [];
    const helper = await start({ onEvent: (event) => events.push(event) });
    const client = helper.client(Work);
    const waiting = client.b(-1);
    await client.a(1);
    const live = helper.recording();
    expect(live?.endText).toBe('');
    expect(live?.running).toMatchObject([{ method: 'Work.b', kind: 'unary', session: 1 }]);
    process.kill(helper.pid, 'SIGKILL');
    const doing =
      /ended with signal SIGKILL; 1 call running: Work\.b for \d+ ms; last frame \d+ ms before the end$/;
    await expect(waiting).rejects.toThrow(doing);
    await helper.exited;
    const exited = events.find(({ type }) => type === 'helper-exited');
    expect(exited?.error.message).toMatch(doing);
    const dead = helper.recording();
    expect(dead).toMatchObject({ pid: helper.pid, runningCount: 1, faults: [] });
    expect(dead?.endText).toBe(`helper ${helper.pid} ended with signal SIGKILL`);
    expect(dead?.copiedAtMs).toBeGreaterThan(Date.now() - 60_000);
  });

  it('after noise in its memory: the parent goes on, and believes none of it', async () => {
    const helper = await start();
    await expect(helper.client(Work).b(-2)).rejects.toThrow(
      'ended with signal SIGKILL; its flight recorder holds what no correct one writes',
    );
    await helper.exited;
    expect(helper.recording()?.faults.length).toBeGreaterThan(0);
  });
});

it('what is written while a process that runs is copied is left out, of a dead one nothing', () => {
  const memory = Buffer.alloc(recorderBytes);
  const recorder = new FlightRecorder(memory, { pid: 7, monotonicMs: 1, epochMs: 1 }, true);
  const record = (): void => recorder.write(RecordEvent.sent, 1, FrameType.message, 0, 1, 0, 0, 1);
  record();
  const native = {
    createRecorder: () => 5,
    closeDescriptor: () => undefined,
    readRecorder: (_: number, target: Uint8Array) => {
      target.set(memory);
      record();
    },
  };
  const read = RecorderMemory.create(native as never);
  expect(read?.read()?.events.map(({ sequence }) => sequence)).toEqual([1]);
  read?.end('it has ended');
  expect(read?.read()?.events.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
});

it('an orderly end says nothing of calls, and all memory and descriptors are given back', async () => {
  const checkLeaks = await watchLeaks();
  const events: SidecallEvent[] = [];
  const helper = await start({ onEvent: (event) => events.push(event) });
  events.length = 0; // a slow start, on a busy machine
  await helper.client(Work).a(1);
  await helper.stop();
  expect(events).toEqual([]);
  expect(helper.recording()).toMatchObject({ runningCount: 0, faults: [] });
  const killed = await start();
  process.kill(killed.pid, 'SIGKILL');
  await killed.exited;
  await checkLeaks();
});

it('by default handlers are recorded, and no frames', async () => {
  const helper = await start({ recorder: undefined });
  const waiting = helper.client(Work).b(-1);
  await helper.client(Work).a(1);
  process.kill(helper.pid, 'SIGKILL');
  await expect(waiting).rejects.toThrow(/SIGKILL; 1 call running: Work\.b for \d+ ms$/);
  await helper.exited;
  expect(helper.recording()).toMatchObject({ events: [], faults: [], runningCount: 1 });
});

it('the helper deletes its variable; with recorder: off there is none', async () => {
  await using helper = await start();
  expect(await helper.client(Work).a(1)).toEqual({ variable: '4:frames' });
  await using plain = await start({
    recorder: 'off',
    env: { ...process.env, SIDECALL_RECORDER: '4' },
  });
  expect(await plain.client(Work).a(1)).toEqual({});
  expect(plain.recording()).toBeUndefined();
});

describe('a saved recording', () => {
  it('is read by the command line, as lines, as JSON lines and as packets', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'recording-'));
    try {
      const helper = await start();
      const client = helper.client(Work);
      for (let at = 0; at < 5; at += 1) await client.a(1);
      void client.b(-1);
      await until(() => helper.recording()?.runningCount === 1);
      process.kill(helper.pid, 'SIGKILL');
      await helper.exited;
      const file = join(folder, 'dead.rec');
      const recording = helper.recording();
      await recording?.save(file);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      await expect(recording?.save(file)).rejects.toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });

      const lines = sidecall('inspect', file);
      expect(lines).toContain(`recording of process ${helper.pid}: helper ${helper.pid} ended`);
      expect(lines).toMatch(/ {2}1 call running: Work\.b for .*; last frame .* before the end/);
      expect(lines).toMatch(/received open \d+\.\d+ Work\.a, payload 1; session 1/);
      expect(JSON.parse(sidecall('inspect', file, '--json')).recording.pid).toBe(helper.pid);

      const packets = join(folder, 'out.pcapng');
      const jsonl = sidecall('inspect', file, '--jsonl', '--pcapng', packets);
      const events = jsonl
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(events[0]).toMatchObject({ what: 'process', pid: helper.pid });
      const frames = events.filter(({ type }) => type !== undefined);
      expect(frames).toHaveLength(recording?.events.filter(({ type }) => type).length ?? 0);

      expect(readFileSync(packets).readUInt32LE(0)).toBe(0x0a0d0d0a); // pcapng's first block
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('--jsonl and --pcapng are refused for anything else, with what to do', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'recording-'));
    try {
      const file = join(folder, 'no-recording');
      writeFileSync(file, await copyWithRequests());
      expect(() => sidecall('inspect', file, '--jsonl')).toThrow(
        /are for the recording of a helper/,
      );
      expect(existsSync(join(folder, 'out'))).toBe(false);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

it('the dissector is the one that the package has', () => {
  const root = join(import.meta.dirname, '..', '..');
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(files).toContain('tools/wireshark');
});
