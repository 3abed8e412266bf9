// npm run package: the package as users get it, in build/package, and packed beside it. It is made
// of the built files and a package.json without what only a checkout needs, so that nothing runs at
// its installation.
//
//   npm run package                 needs all prebuilds
//   npm run package -- --release    needs a dated section of the changelog, too
//   npm run package -- --check      checks, and makes nothing
//   npm run package -- --here       for tests: with the addon of this machine in place of all
//   npm run package -- --few        for tests: with one prebuild in place of each that is missing
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, platforms, root } from './lib.mjs';

const { values } = parseArgs({
  options: {
    check: { type: 'boolean' },
    few: { type: 'boolean' },
    here: { type: 'boolean' },
    release: { type: 'boolean' },
    // For prepack and prepublishOnly, which run where somebody packs the checkout itself.
    refuse: { type: 'boolean' },
  },
});
/** Fields of package.json that only a checkout needs. */
const ofCheckout = ['scripts', 'devDependencies', 'knip', 'overrides', 'allowScripts'];
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const { name, version } = manifest;

const problems = [...missingPrebuilds(), ...missingBuild()];
if (values.release === true) problems.push(...undatedChangelog());
if (values.refuse === true) {
  problems.push(
    'a checkout is not packed itself: "npm run package" makes the package in build/package',
  );
}
if (problems.length > 0) fail(`package: ${problems.join('\npackage: ')}`);
if (values.check !== true) make();

function missingPrebuilds() {
  const missing = platforms.filter((each) => !existsSync(addonOf(each)));
  if (missing.length > 0) return [`no addon for ${missing.join(', ')}: "npm run prebuilds"`];
  const others = platforms.filter((each) => !readFileSync(addonOf(each)).includes(version));
  return others.length === 0
    ? []
    : [`the addon for ${others.join(', ')} is not of version ${version}: "npm run prebuilds"`];
}

function addonOf(platform) {
  if (values.here === true) return join(root, 'build', 'Release', 'sidecall.node');
  const prebuild = (name) => join(root, 'prebuilds', name, 'sidecall.node');
  if (values.few !== true || existsSync(prebuild(platform))) return prebuild(platform);
  return prebuild(platforms.find((name) => existsSync(prebuild(name))) ?? platform);
}

function missingBuild() {
  const command = [join(root, 'dist', 'cli', 'main.js'), '--version'];
  const { stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' });
  return stdout.trim() === version ? [] : [`dist is not of version ${version}: "npm run build:ts"`];
}

function undatedChangelog() {
  const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');
  const heading = `## ${version} (`;
  const line = changelog.split('\n').find((each) => each.startsWith(heading));
  if (line !== undefined && /\(\d{4}-\d{2}-\d{2}\)$/.test(line)) return [];
  return [`CHANGELOG.md has no section "${heading}YYYY-MM-DD)": "npm run release ${version}"`];
}

function make() {
  const target = join(root, 'build', 'package');
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  // Modules that only our tests and benchmarks look into stay here.
  const internal = ['internal', join('addon', 'load-addon.js')].map((name) =>
    join(root, 'dist', name),
  );
  const filter = (path) => !internal.includes(path);
  const copying = { recursive: true, filter };
  for (const path of [...manifest.files, 'README.md', 'LICENSE']) {
    if (path !== 'prebuilds') cpSync(join(root, path), join(target, path), copying);
  }
  for (const platform of platforms) {
    cpSync(addonOf(platform), join(target, 'prebuilds', platform, 'sidecall.node'));
  }
  const shipped = { ...manifest };
  for (const field of ofCheckout) delete shipped[field];
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(shipped, undefined, 2)}\n`);
  const packing = ['pack', '--json', '--pack-destination', join(root, 'build')];
  const packed = spawnSync('npm', packing, { cwd: target, encoding: 'utf8' });
  if (packed.status !== 0) fail(`package: npm ${packing.join(' ')}: ${packed.stderr}`);
  const said = JSON.parse(packed.stdout);
  const { filename, size, files } = Array.isArray(said) ? said[0] : Object.values(said)[0];
  console.log(`package: ${name} ${version}, ${files.length} files, ${size} bytes`);
  console.log(`package: ${join('build', filename)}`);
}
