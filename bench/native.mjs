// The programs in C that the comparison needs, compiled on first use.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, '..', 'build', 'bench');
const built = new Map();

/** Path of a compiled program or library, or why there is none. */
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
