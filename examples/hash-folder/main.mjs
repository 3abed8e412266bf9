// Prints the SHA-256 of every file of a folder, as `sha256sum` does, by a pool of helpers. A
// terminal shows a progress bar.
import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { SingleBar } from 'cli-progress';
import { spawnPool } from 'sidecall';
import { Hasher } from './contract.mjs';

const [folder, size = 'auto'] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node main.mjs FOLDER [HELPERS]');
  process.exit(2);
}

const files = await filesOf(folder);
const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
const bar = new SingleBar({
  format: '{bar} {percentage} %  {file}/{files} files  {eta_formatted} left',
  noTTYOutput: false,
  clearOnComplete: true,
});
const helper = new URL('helper.mjs', import.meta.url);
const pool = await spawnPool(helper, [], {
  size: size === 'auto' ? size : Number(size),
  callsPerMember: 2,
});
process.once('SIGINT', () => void pool.stop({ deadlineMs: 0 }).finally(() => process.exit(130)));
const hasher = pool.client(Hasher, { retry: true }); // a file is read again if its helper dies

const shown = { bytes: 0, file: 0, files: files.length };
bar.start(total, 0, shown);
const lines = [];
const results = pool.map(files, (file, { signal }) =>
  hasher.hash({ path: file.path }, { signal }).then(
    (hash) => ({ ...file, hash }),
    (error) => ({ ...file, error }),
  ),
);
for await (const { path, bytes, hash, error } of results) {
  const name = relative(folder, path);
  if (error === undefined) lines.push(`${hash}  ${name}`);
  else lines.push(`${name}: ${error.message}`);
  if (error !== undefined) process.exitCode = 1;
  shown.bytes += bytes;
  shown.file += 1;
  bar.update(shown.bytes, shown);
}
bar.stop();
await pool.stop();
for (const line of lines) console.log(line);

/** All files below a folder, sorted by their paths. */
async function filesOf(root) {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
  return Promise.all(paths.map(async (path) => ({ path, bytes: (await stat(path)).size })));
}
