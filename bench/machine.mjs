// The state of the code and the machine under which something was measured.
import { execFileSync } from 'node:child_process';
import { cpus, release } from 'node:os';

/** For the result files of benchmarks. */
export function machine() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim();
  return {
    schema: 1,
    commit: git('rev-parse', 'HEAD'),
    dirty: git('status', '--porcelain') !== '',
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    kernel: release(),
    node: process.version,
    date: new Date().toISOString(),
    args: process.argv.slice(2),
  };
}
