// The Node helper: lists a folder and hashes a file, in a process of its own, so that this work
// does not block the window.
import { createHash } from 'node:crypto';
import { createReadStream, statSync, watch } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parent, RpcError } from 'sidecall';
import { Library } from './contract.mjs';

// The folder and the file are arguments of main, which started this process.
const [folder, file] = process.argv.slice(2);
const reportEveryBytes = 4 * 1024 * 1024;

async function sizesIn(folder) {
  const sizes = new Map();
  for (const name of (await readdir(folder)).sort()) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.isFile()) sizes.set(name, found.size);
  }
  return sizes;
}

function differences(before, after) {
  const events = [];
  for (const [name, bytes] of after) {
    if (!before.has(name)) events.push({ event: 'added', name, bytes });
    else if (before.get(name) !== bytes) events.push({ event: 'changed', name, bytes });
  }
  for (const name of before.keys()) {
    if (!after.has(name)) events.push({ event: 'removed', name, bytes: 0 });
  }
  return events;
}

const session = await parent();
session.serve(Library, {
  async *watch(_request, { signal }) {
    let wake = () => {};
    const watcher = watch(folder, () => wake());
    watcher.on('error', () => wake()); // the folder was removed: sizesIn() fails next
    const stop = () => wake();
    signal.addEventListener('abort', stop);
    try {
      for (let known = new Map(); !signal.aborted; ) {
        const changed = new Promise((resolve) => {
          wake = resolve; // set before the read, so that a change meanwhile starts another
        });
        const now = await sizesIn(folder);
        yield* differences(known, now);
        known = now;
        await changed;
      }
    } finally {
      watcher.close();
      signal.removeEventListener('abort', stop);
    }
  },
  async *hash(_request, { signal }) {
    let total;
    try {
      const status = statSync(file);
      if (!status.isFile()) throw Object.assign(new Error(), { code: 'no regular file' });
      total = status.size;
    } catch (error) {
      throw new RpcError('not_found', `${file}: ${error.code}`);
    }
    const hash = createHash('sha256');
    let done = 0;
    let reported = 0;
    yield { done, total };
    for await (const chunk of createReadStream(file, { signal, highWaterMark: 256 * 1024 })) {
      hash.update(chunk);
      done += chunk.length;
      if (done - reported < reportEveryBytes) continue;
      reported = done;
      yield { done, total }; // waits until the page has taken earlier ones
    }
    yield { done, total, sha256: hash.digest('hex') };
  },
});
