// Text files below a folder, links not followed.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

const looksAt = 8192;

/** Paths of all regular files below `folder`. */
export async function filesBelow(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

/** The bytes of a text file; undefined for a binary one, or one larger than `maxBytes`. */
export async function readText(path, maxBytes) {
  const bytes = await readFile(path);
  const isText = !bytes.subarray(0, looksAt).includes(0);
  return isText && bytes.byteLength <= maxBytes ? bytes : undefined;
}
