// The programs in C that the comparison needs, compiled on first use.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, '..', 'build', 'bench');
const built = new Map();

/** `{ file }` of a compiled program or library, or `{ why }` there is none. */
export function compiled(name) {
  if (!built.has(name)) built.set(name, compile(name));
  return built.get(name);
}

function compile(name) {
  mkdirSync(output, { recursive: true });
  const isLibrary = name === 'blocks';
  const file = join(output, isLibrary ? `${name}.so` : name);
  const args = isLibrary ? ['-shared', '-fPIC'] : [];
  const source = join(here, 'peers', 'c', `${name}.c`);
  const done = spawnSync('cc', ['-O2', ...args, '-o', file, source], { encoding: 'utf8' });
  if (done.error) return { why: `no C compiler: ${done.error.message}` };
  return done.status === 0 ? { file } : { why: `cc: ${done.stderr}` };
}

/**
 * `{ file }` of the program with the peers in Go, or `{ why }` there is none. The first build
 * fetches their modules.
 */
export function builtGo() {
  if (!built.has('go')) built.set('go', buildGo());
  return built.get('go');
}

function buildGo() {
  mkdirSync(output, { recursive: true });
  const file = join(output, 'go-peers');
  const cwd = join(here, 'peers', 'go');
  const done = spawnSync('go', ['build', '-o', file, '.'], { cwd, encoding: 'utf8' });
  if (done.error) return { why: `no Go toolchain: ${done.error.message}` };
  return done.status === 0 ? { file } : { why: `go build: ${done.stderr.split('\n')[0]}` };
}

/** Go's version (GOVERSION of `go env`); null without a toolchain. */
export function goVersion() {
  const done = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' });
  return done.status === 0 ? done.stdout.trim() : null;
}
