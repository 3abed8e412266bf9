// Compiles and links the addon for the other platforms, with the clang and the libraries in PyPI's
// "ziglang". A check that they build; nothing of the result is kept or run here.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const targets = {
  'linux-x64': 'x86_64-linux-gnu.2.28',
  'linux-arm64': 'aarch64-linux-gnu.2.28',
  'linux-x64-musl': 'x86_64-linux-musl',
  'linux-arm64-musl': 'aarch64-linux-musl',
  'darwin-x64': 'x86_64-macos.11.0',
  'darwin-arm64': 'aarch64-macos.11.0',
};

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const sources = ['os', 'ring', 'binding'].flatMap((folder) =>
  readdirSync(join(root, 'native', folder))
    .filter((name) => name.endsWith('.cc'))
    .map((name) => join(root, 'native', folder, name)),
);
const output = join(root, 'build', 'cross');
mkdirSync(output, { recursive: true });

const failed = Object.entries(targets).filter(([platform, target]) => !compile(platform, target));
if (failed.length > 0) fail(`cross-compile: failed for ${failed.map(([name]) => name).join(', ')}`);

function compile(platform, target) {
  const isMac = platform.startsWith('darwin');
  const args = [
    ...['-m', 'ziglang', 'c++', '-target', target, '-std=c++20', '-O2', '-fPIC', '-shared', '-s'],
    ...[
      '-fno-exceptions',
      '-fvisibility=hidden',
      '-Wall',
      '-Wextra',
      '-Wconversion',
      '-Wshadow',
      '-Werror',
    ],
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
    ...(isMac ? ['-Wl,-undefined,dynamic_lookup'] : []),
    ...sources,
    ...['-o', join(output, `${platform}.node`)],
  ];
  const { status, stderr, error } = spawnSync('python3', args, { cwd: root, encoding: 'utf8' });
  if (error !== undefined) fail(`python3: ${error.message}`);
  if (stderr.includes('No module named'))
    fail('ziglang is missing: install it with "pip install ziglang"');
  console.log(`cross-compile: ${platform} ${status === 0 ? 'ok' : `FAILED\n${stderr}`}`);
  return status === 0;
}
