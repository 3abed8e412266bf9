// clang-tidy over the C++ of the addon, by the rules of .clang-tidy. A file without findings is not
// checked again until it, a header that it includes or a rule has changed: one takes up to half a
// minute. Files that the long run has checked count as such.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fail, root } from './lib.mjs';
import { readResults } from './suites.mjs';

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

const clean = join(root, 'build', 'clang-tidy');
mkdirSync(clean, { recursive: true });

/** The file and our headers that it includes, directly or through others. */
function withIncludes(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  const text = readFileSync(join(root, file), 'utf8');
  for (const [, path] of text.matchAll(/^ *# *include "(.+)"/gm)) {
    const header = join('native', path);
    if (existsSync(join(root, header))) withIncludes(header, seen);
  }
  return seen;
}

/** The marker of a file without findings; its name is a hash of all inputs of clang-tidy. */
function markOf(file) {
  const hash = createHash('sha256').update(flags.join(' '));
  for (const path of ['.clang-tidy', ...withIncludes(file)])
    hash.update(readFileSync(join(root, path)));
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

/** Files that differ from those of the last long run, or include what does. */
function filesSinceLongRun() {
  const { commit, isPassed } = readResults()['check:native'] ?? {};
  if (commit === undefined || !isPassed || process.env.SIDECALL_LONG === '1') return files;
  const args = ['diff', '--name-only', commit, '--', 'native', '.clang-tidy'];
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  const changed = stdout.split('\n');
  if (status !== 0 || changed.includes('.clang-tidy')) return files;
  return files.filter((file) => [...withIncludes(file)].some((path) => changed.includes(path)));
}

const found = [];
const waiting = filesSinceLongRun();
const count = waiting.length;
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
console.log(`clang-tidy: ${count} of ${files.length} files, without findings`);
