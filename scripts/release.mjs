// npm run release X.Y.Z: sets the version in its three places, dates the changelog, commits and
// tags. The tag, once it is pushed, has the workflow `publish` build, test and stage the package.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, root } from './lib.mjs';

const usage = `usage: npm run release -- X.Y.Z [--dry-run]

  X.Y.Z      the new version: not lower than that of package.json
  --dry-run  says what would change, and changes nothing`;

const { values, positionals } = parse();
if (values.help === true) {
  console.log(usage);
  process.exit();
}
const [version] = positionals;
if (positionals.length !== 1 || !/^\d+\.\d+\.\d+$/.test(version)) fail(usage);

const read = (path) => readFileSync(join(root, path), 'utf8');
const now = JSON.parse(read('package.json')).version;
if (compare(version, now) < 0) fail(`release: ${version} is lower than ${now}`);
if (git('tag', '--list', `v${version}`) !== '') fail(`release: the tag v${version} exists`);
if (git('status', '--porcelain') !== '') fail('release: there are changes that are not committed');

const date = new Date().toISOString().slice(0, 10);
const files = {
  'package.json': replaced('package.json', `"version": "${now}"`, `"version": "${version}"`),
  'package-lock.json': lockFile(),
  'src/base/version.ts': replaced('src/base/version.ts', `'${now}'`, `'${version}'`),
  'CHANGELOG.md': changelog(),
};
const changed = Object.entries(files).filter(([path, text]) => read(path) !== text);
console.log(`release: ${now} → ${version} (${date}): ${changed.map(([path]) => path).join(', ')}`);
if (values['dry-run'] === true) process.exit();

for (const [path, text] of changed) writeFileSync(join(root, path), text);
git('add', ...changed.map(([path]) => path));
git('commit', '--quiet', '--message', `Release ${version}`);
git('tag', '--annotate', `v${version}`, '--message', `sidecall ${version}`);
console.log(`release: committed and tagged. "git push --follow-tags" starts the publication.`);

function parse() {
  const options = { 'dry-run': { type: 'boolean' }, help: { type: 'boolean' } };
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    return fail(`release: ${error.message}\n\n${usage}`);
  }
}

function git(...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}

function compare(a, b) {
  const [left, right] = [a, b].map((text) => text.split('.').map(Number));
  return left.map((part, at) => part - right[at]).find((difference) => difference !== 0) ?? 0;
}

function replaced(path, from, to) {
  const text = read(path);
  if (!text.includes(from)) fail(`release: ${path} has no ${from}`);
  return text.replace(from, to);
}

function lockFile() {
  const lock = JSON.parse(read('package-lock.json'));
  lock.version = version;
  lock.packages[''].version = version;
  return `${JSON.stringify(lock, undefined, 2)}\n`;
}

/** The section "(unreleased)" gets version and date. */
function changelog() {
  const text = read('CHANGELOG.md');
  const heading = /^## .*\(unreleased\)$/m;
  if (!heading.test(text)) fail('release: CHANGELOG.md has no section "(unreleased)"');
  return text.replace(heading, `## ${version} (${date})`);
}
