import { chmodSync, lstatSync, mkdirSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { socketPath } from '../../src/uds/private-directory.ts';
import { scratchDirectory } from '../support/programs.ts';

const before = process.env.XDG_RUNTIME_DIR;
let runtime: ReturnType<typeof scratchDirectory>;
beforeEach(() => {
  runtime = scratchDirectory();
  process.env.XDG_RUNTIME_DIR = runtime.path;
});
afterEach(() => {
  if (before === undefined) delete process.env.XDG_RUNTIME_DIR;
  else process.env.XDG_RUNTIME_DIR = before;
  runtime[Symbol.dispose]();
});

it('is the same path each time, in a directory that only we can enter', async () => {
  const umask = process.umask(0o777);
  const path = socketPath('clock');
  process.umask(umask);
  expect(path).toBe(join(runtime.path, 'sidecall', 'clock.sock'));
  expect(socketPath('clock')).toBe(path);
  expect(statSync(join(runtime.path, 'sidecall')).mode & 0o777).toBe(0o700);
  await using listener = await listen({ path });
  await using session = await connect({ path: socketPath('clock') });
  expect(session.peer.pid).toBe(process.pid);
  expect(listener.path).toBe(path);
});

it.each([undefined, '', 'relative', 'open'])('needs no runtime directory (%s)', (kind) => {
  if (kind === undefined) delete process.env.XDG_RUNTIME_DIR;
  else if (kind !== 'open') process.env.XDG_RUNTIME_DIR = kind;
  else chmodSync(runtime.path, 0o755); // others can see into it
  const path = socketPath('clock');
  expect(path).toBe(`/tmp/sidecall-${process.geteuid?.()}/clock.sock`);
  expect(lstatSync(`/tmp/sidecall-${process.geteuid?.()}`).mode & 0o777).toBe(0o700);
});

it.each(['missing', 'read-only'])('a new one is made where TMPDIR is %s, too', async (kind) => {
  delete process.env.XDG_RUNTIME_DIR;
  const { TMPDIR } = process.env;
  // /proc takes no directory, of root neither.
  process.env.TMPDIR = kind === 'missing' ? runtime.file('absent') : '/proc';
  await using listener = await listen();
  process.env.TMPDIR = TMPDIR;
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  expect(listener.path).toMatch(/^\/tmp\/sidecall-listener-/);
});

it('refuses a directory that others can enter, and a link', () => {
  const directory = join(runtime.path, 'sidecall');
  mkdirSync(directory, { mode: 0o755 });
  chmodSync(directory, 0o755);
  const unsafe = (text: string): object => ({
    code: 'ERR_SIDECALL_PATH_UNSAFE',
    message: expect.stringContaining(text) as string,
  });
  expect(() => socketPath('clock')).toThrow(expect.objectContaining(unsafe('"chmod 700"')));
  chmodSync(directory, 0o700);
  expect(socketPath('clock')).toContain('clock.sock');
  const other = scratchDirectory();
  symlinkSync(directory, other.file('sidecall'));
  process.env.XDG_RUNTIME_DIR = other.path;
  expect(() => socketPath('clock')).toThrow(expect.objectContaining(unsafe('is a link')));
  other[Symbol.dispose]();
});

it.each([
  '',
  '.',
  '..',
  '.hidden',
  '-x',
  'a/b',
  '../a',
  'a b',
  'a\0',
  'x'.repeat(65),
  7,
  undefined,
])('refuses the name %j', (name) => {
  expect(() => socketPath(name as string)).toThrow(TypeError);
});

it('names the bytes of a path that is too long', () => {
  const deep = runtime.file('d'.repeat(60));
  mkdirSync(deep, { mode: 0o700 });
  process.env.XDG_RUNTIME_DIR = deep;
  const error = expect.objectContaining({ code: 'ERR_SIDECALL_PATH_TOO_LONG' }) as Error;
  expect(() => socketPath('x'.repeat(40))).toThrow(error);
});
