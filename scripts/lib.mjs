// Helpers of the scripts: the project's root, an end with an error, a step.
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The platforms whose addon the package carries: the folders of prebuilds/. */
export const platforms = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64',
  'linux-arm64-musl',
  'linux-x64',
  'linux-x64-musl',
];

/** Prints `words` and ends the process with 1. */
export function fail(words) {
  console.error(words);
  process.exit(1);
}

/** Runs a step with its output shown; a failure ends the process with 1. */
export function run(command, args, options = {}) {
  const step = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
  if (step.error !== undefined) fail(`${command}: ${step.error.message}`);
  if (step.status !== 0)
    fail(`${[command, ...args].join(' ')} ended with ${step.status ?? step.signal}`);
}
