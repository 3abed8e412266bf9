// clang-tidy over the C++ of the addon, by the rules of .clang-tidy. A file without findings is not
// checked again until it, a header or a rule has changed: one file takes up to half a minute.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fail, root } from './lib.mjs';

const folders = ['os', 'ring', 'shmipc', 'binding'];
const files = folders.flatMap((folder) => namesIn(folder, '.cc'));
const require = createRequire(import.meta.url);
const headers = ['node-api-headers/include', 'node-addon-api'].map((path) =>
  join(dirname(require.resolve(`${path.split('/')[0]}/package.json`)), ...path.split('/').slice(1)),
);
const flags = [
  ...['-std=c++20', '-fno-exceptions', '-Inative', '-DNAPI_VERSION=8'],
  ...['-DNAPI_DISABLE_CPP_EXCEPTIONS', '-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS'],
  ...['-DNODE_API_NO_EXTERNAL_BUFFERS_ALLOWED', '-DSIDECALL_VERSION="0"'],
  ...headers.flatMap((path) => ['-isystem', path]),
];

function namesIn(folder, ending) {
  return readdirSync(join(root, 'native', folder))
    .filter((name) => name.endsWith(ending))
    .map((name) => join('native', folder, name));
}

const shared = ['base', ...folders].flatMap((folder) => namesIn(folder, '.h'));
const clean = join(root, 'build', 'clang-tidy');
mkdirSync(clean, { recursive: true });

/** The marker of a file without findings; its name is a hash of all inputs of clang-tidy. */
function markOf(file) {
  const hash = createHash('sha256').update(flags.join(' '));
  for (const path of ['.clang-tidy', ...shared, file]) hash.update(readFileSync(join(root, path)));
  return join(clean, `${file.replaceAll('/', '-')}.${hash.digest('hex').slice(0, 16)}`);
}

/** The findings in one file, as text; empty: there are none. */
function findingsIn(file) {
  return new Promise((resolve) => {
    const child = spawn('clang-tidy', ['--quiet', file, '--', ...flags], { cwd: root });
    const output = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data) => output.push(data));
    child.on('error', () => {
      fail('clang-tidy is missing: install it with "apt-get install clang-tidy"');
    });
    child.on('close', (code) => resolve(code === 0 ? '' : Buffer.concat(output).toString()));
  });
}

const found = [];
const waiting = [...files];
async function work() {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const mark = markOf(file);
    if (existsSync(mark)) continue;
    const findings = await findingsIn(file);
    if (findings === '') writeFileSync(mark, '');
    else found.push(findings);
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work));
if (found.length > 0) fail(`${found.join('\n')}\nclang-tidy: findings in ${found.length} files`);
console.log(`clang-tidy: ${files.length} files without findings`);
