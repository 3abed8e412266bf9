// npm run test:newcomer: the two commands of the README in a fresh clone, as an ordinary user with
// a home of its own, who has Node, npm, git, a compiler, CMake and Python, and no other tool. Then
// without a compiler, where `npm ci` says what to install and leaves what needs no addon.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { fail, root, run } from './lib.mjs';
import { requireTools } from './suites.mjs';

requireTools('test:newcomer');
/** The tools that CONTRIBUTING.md asks for, and those that these need. */
const stated = ['node', 'npm', 'npx', 'git', 'cmake', 'make', 'python3'];
const compiler = ['c++', 'g++', 'cc', 'gcc', 'as', 'ld', 'ar', 'ranlib', 'strip'];
/** Tools of every system. */
const usual = (
  'awk basename bash cat chmod cp cut date dirname echo env expr false find getconf grep gzip head ' +
  'hostname id install kill ln ls mkdir mktemp mv nice nproc pwd readlink realpath rm rmdir sed ' +
  'seq setsid sh sleep sort stty tail tar tee test touch tr true uname uniq wc which xargs'
).split(' ');
const uid = 61_500;
const home = mkdtempSync(join(tmpdir(), 'newcomer-'));
const clone = join(home, 'sidecall');
process.once('exit', () => rmSync(home, { recursive: true, force: true }));

const tools = toolsOf('tools', [...stated, ...compiler, ...usual]);
const withoutCompiler = toolsOf(
  'few-tools',
  [...stated, ...usual].filter((name) => name !== 'cmake'),
);
run('git', ['clone', '--quiet', '--no-hardlinks', root, clone]);
// The user's npm has the same registry.
const settings = join(homedir(), '.npmrc');
if (existsSync(settings)) copyFileSync(settings, join(home, '.npmrc'));
run('chown', ['-R', `${uid}:${uid}`, home]);

await step('npm ci && npm run demo', tools);
await step('npm test', tools);
// The addon that was built is put aside.
const built = join(clone, 'build', 'Release', 'sidecall.node');
if (!existsSync(built)) fail('test:newcomer: npm ci has built no addon');
rmSync(built);
rmSync(join(clone, 'dist'), { recursive: true });
const said = await step('npm ci', withoutCompiler);
if (!/^sidecall: .*apt-get install cmake g\+\+/m.test(said))
  fail('test:newcomer: npm ci without a compiler does not say what to install');
await step('npx vitest run test/wire/frame test/session/usage.test.ts', withoutCompiler);
await step('node dist/cli/main.js --version', withoutCompiler);

/** A folder with the named tools alone, each as the user can run it. */
function toolsOf(name, names) {
  const folder = join(home, name);
  mkdirSync(folder, { recursive: true });
  const places = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/bin'];
  for (const tool of names) {
    const found = places
      .map((place) => join(place, tool))
      .find((path) => existsSync(path) && isExecutable(path));
    if (found !== undefined) symlinkSync(found, join(folder, tool));
    else if (stated.includes(tool)) fail(`test:newcomer: the user ${uid} cannot run ${tool}`);
  }
  return folder;
}

function isExecutable(path) {
  const ids = { uid, gid: uid };
  const { error } = spawnSync(realpathSync(path), ['--version'], { ...ids, stdio: 'ignore' });
  return error === undefined;
}

/** Runs a command as the user, in the clone; gives what it printed. */
async function step(command, path) {
  console.log(`=== ${command} (as uid ${uid}, ${basename(path)})`);
  const begun = performance.now();
  const env = {
    PATH: path,
    HOME: home,
    ...certificates(),
  };
  const child = spawn(join(path, 'sh'), ['-c', command], {
    cwd: clone,
    env,
    uid,
    gid: uid,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
    process.stdout.write(text);
  });
  const [code, signal] = await once(child, 'close');
  const seconds = ((performance.now() - begun) / 1_000).toFixed(0);
  if (code !== 0) fail(`test:newcomer: ${command} ended with ${code ?? signal} after ${seconds} s`);
  console.log(`=== ok after ${seconds} s: ${command}`);
  return output;
}

/** Certificates that this machine wants for its network. */
function certificates() {
  const names = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'].filter((name) => name in process.env);
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}
