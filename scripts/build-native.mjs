// Builds the addon with cmake-js for this machine, where the loader looks first in a checkout.
// `--where-possible`: a machine without a compiler is no failure.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

function has(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}

const compilers = [process.env.CXX, 'c++', 'g++', 'clang++'].filter(Boolean);
if (!has('cmake') || !compilers.some(has)) {
  const remedy =
    'sidecall: building the addon needs CMake and a C++20 compiler: install them with "apt-get install cmake g++" (Debian) or "xcode-select --install && brew install cmake" (macOS)';
  if (process.argv[2] !== '--where-possible') fail(remedy);
  console.log(
    `${remedy}, then run "npm run build:native". Until then only what needs no addon works.`,
  );
  process.exit();
}
const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
const args = ['compile', '--directory', root, '--out', join(root, 'build')];
const build = spawnSync(process.execPath, [cmakeJs, ...args], { cwd: root, encoding: 'utf8' });
if (build.status !== 0) fail(`${build.stdout}${build.stderr}sidecall: the addon did not build.`);

console.log('sidecall: built build/Release/sidecall.node');
