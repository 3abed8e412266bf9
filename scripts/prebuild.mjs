// npm run prebuilds [-- target …]: builds the addon for every platform that the package carries,
// with the clang and the libraries in PyPI's "ziglang", into prebuilds/, and checks the
// results.
import { spawn, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fail, platforms, root } from './lib.mjs';

const triples = {
  'linux-x64': 'x86_64-linux-gnu.2.28',
  'linux-arm64': 'aarch64-linux-gnu.2.28',
  'linux-x64-musl': 'x86_64-linux-musl',
  'linux-arm64-musl': 'aarch64-linux-musl',
  'darwin-x64': 'x86_64-macos.11.0',
  'darwin-arm64': 'aarch64-macos.11.0',
};
const targets = Object.fromEntries(platforms.map((name) => [name, triples[name]]));
const usage = `npm run prebuilds [-- [--compile] TARGET …]: builds prebuilds/TARGET/sidecall.node. Without one: all.
--compile: compiles the sources for the targets, and links nothing, which takes most of the time.
Targets: ${Object.keys(targets).join(', ')}
Needs patchelf, readelf and nm, and Python 3 with ziglang ("python3 -m pip install ziglang"; in a folder of its own:
PYTHONPATH names it).`;

const compiles = process.argv.includes('--compile');
const wanted = process.argv.slice(2).filter((argument) => argument !== '--compile');
if (wanted.includes('--help')) {
  console.log(usage);
  process.exit();
}
const unknown = wanted.filter((name) => !(name in targets));
if (unknown.length > 0) fail(`prebuild: there is no target ${unknown.join(', ')}\n${usage}`);
const zig = spawnSync('python3', ['-m', 'ziglang', 'version'], { encoding: 'utf8' });
if (zig.status !== 0) fail(`prebuild: python3 with ziglang is missing\n${usage}`);

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const sources = ['os', 'ring', 'shmipc', 'binding'].flatMap((folder) =>
  readdirSync(join(root, 'native', folder))
    .filter((name) => name.endsWith('.cc'))
    .map((name) => join(root, 'native', folder, name)),
);
// A target is compiled from two files: ring_blocks.cc, which needs other settings of the headers of
// Node-API, and one that includes all others, so that these headers are read twice for each target.
const alone = sources.filter((file) => file.endsWith('ring_blocks.cc'));
const together = join(root, 'build', 'prebuild.cc');
mkdirSync(join(root, 'build'), { recursive: true });
const included = sources.filter((file) => !alone.includes(file));
writeFileSync(together, included.map((file) => `#include "${file}"\n`).join(''));
const names = wanted.length > 0 ? wanted : Object.keys(targets);
const waiting = [...names];
const failed = [];
let done = 0;
console.log(`prebuild: ${names.length} targets with zig ${zig.stdout.trim()}`);
await Promise.all(Array.from({ length: availableParallelism() }, work));
if (failed.length > 0) fail(`prebuild: failed for ${failed.join(', ')}`);

async function work() {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    const since = performance.now();
    const problem = await build(name);
    done += 1;
    const seconds = ((performance.now() - since) / 1000).toFixed(0);
    const file = join(root, 'prebuilds', name, 'sidecall.node');
    const sizeOf = () => `${Math.round(statSync(file).size / 1024)} kB`;
    const outcome = problem ?? (compiles ? 'compiled' : sizeOf());
    console.log(`prebuild: ${done}/${names.length} ${name}: ${outcome} (${seconds} s)`);
    if (problem !== undefined) failed.push(name);
  }
}

/** Compiles, links and checks one target. Returns an error text, or undefined. */
async function build(name) {
  const files = [together, ...alone];
  if (compiles) {
    for (const file of files) {
      const object = join(root, 'build', `${name}.o`);
      const { status, words } = await compile(name, [file], ['-c', '-o', object]);
      if (status !== 0) return `FAILED\n${words}`;
    }
    return undefined;
  }
  const folder = join(root, 'prebuilds', name);
  const file = join(folder, 'sidecall.node');
  const fresh = `${file}.new`;
  mkdirSync(folder, { recursive: true });
  // The linker strips, since that keeps the ad-hoc signature that macOS on arm64 requires.
  const linking = name.startsWith('darwin') ? '-Wl,-undefined,dynamic_lookup' : '-Wl,--gc-sections';
  const { status, words } = await compile(name, files, ['-shared', '-s', linking, '-o', fresh]);
  if (status === 0 && name.endsWith('musl')) removeLibc(fresh);
  const problem = status === 0 ? lookAt(name, fresh) : `FAILED\n${words}`;
  if (problem === undefined) renameSync(fresh, file);
  else rmSync(fresh, { force: true });
  return problem;
}

function compile(name, files, options) {
  const args = [
    ...['-m', 'ziglang', 'c++', '-target', targets[name], '-std=c++20', '-O2', '-fPIC'],
    ...['-fno-exceptions', '-fno-rtti', '-fvisibility=hidden', '-fvisibility-inlines-hidden'],
    ...['-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Werror'],
    ...[
      '-DNAPI_VERSION=8',
      '-DNAPI_DISABLE_CPP_EXCEPTIONS',
      '-DNODE_API_NO_EXTERNAL_BUFFERS_ALLOWED',
      '-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS',
    ],
    `-DSIDECALL_VERSION="${version}"`,
    ...['-I', join(root, 'native')],
    ...['-isystem', join(root, 'node_modules', 'node-api-headers', 'include')],
    ...['-isystem', join(root, 'node_modules', 'node-addon-api')],
    ...files,
    ...options,
  ];
  return new Promise((resolve) => {
    const child = spawn('python3', args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] });
    let words = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      words += text;
    });
    child.on('close', (status) => resolve({ status, words }));
  });
}

/**
 * Takes musl's C library out of the libraries that the addon names: Node has loaded it already, and
 * a package of a distribution with glibc that carries the addon would require it.
 */
function removeLibc(file) {
  const { status, stderr, error } = spawnSync('patchelf', ['--remove-needed', 'libc.so', file], {
    encoding: 'utf8',
  });
  if (status !== 0) fail(`prebuild: patchelf: ${error?.message ?? stderr}`);
}

/** Checks a file that is shipped. Returns an error text, or undefined. */
function lookAt(name, file) {
  if (name.startsWith('darwin')) return isSigned(file, name) ? undefined : 'has no signature';
  const { stdout, error } = spawnSync('nm', ['-D', '--undefined-only', file], { encoding: 'utf8' });
  if (error !== undefined) return `cannot be looked at: nm: ${error.message}`;
  const symbols = stdout.split('\n').map((line) => line.trim().split(' ').at(-1) ?? '');
  // Bun has stubs of libuv's names that abort, and Node promises nothing about them.
  // Packagers of distributions turn each into a requirement of the package that carries the file.
  const isOfGlibc = (library) =>
    /^(libc|libm|libpthread|libdl|librt)\.so\.\d|^ld-linux/.test(library);
  const needed = neededBy(file).filter((library) => name.endsWith('musl') || !isOfGlibc(library));
  if (needed.length > 0) return `needs ${needed.join(', ')}`;
  const strange = symbols.filter((symbol) => /^_?uv_|^_ZN2v8|^_ZN4node/.test(symbol));
  if (strange.length > 0) return `uses ${strange.join(', ')}`;
  const newest = symbols
    .map((symbol) => /@GLIBC_2\.(\d+)/.exec(symbol)?.[1])
    .reduce((most, minor) => Math.max(most, Number(minor ?? 0)), 0);
  if (name.endsWith('musl') ? newest > 0 : newest > 28) return `needs glibc 2.${newest}`;
  return symbols.some((symbol) => symbol.startsWith('napi_')) ? undefined : 'is no addon';
}

/** The libraries that an ELF file names (DT_NEEDED). */
function neededBy(file) {
  const { stdout, error } = spawnSync('readelf', ['--dynamic', '--wide', file], {
    encoding: 'utf8',
  });
  if (error !== undefined) fail(`prebuild: readelf: ${error.message}`);
  return [...stdout.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, library]) => library);
}

/**
 * True: the Mach-O file has an LC_CODE_SIGNATURE, or needs none. macOS on arm64 loads no file
 * without one; on x64 it is optional.
 */
function isSigned(file, name) {
  if (name !== 'darwin-arm64') return true;
  const bytes = readFileSync(file);
  const commands = bytes.readUInt32LE(16);
  let at = 32;
  for (let index = 0; index < commands; index += 1) {
    if (bytes.readUInt32LE(at) === 0x1d) return true;
    at += bytes.readUInt32LE(at + 4);
  }
  return false;
}
