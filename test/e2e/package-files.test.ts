// The files that a program loads with each entry of the package: each costs its start half a
// millisecond of processor.
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const { exports, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** The files of the package that a module loads, itself included. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, path] of text.matchAll(/^(?:import|export)\b[^"']*["'](\.[^"']+)["'];?$/gm)) {
    loadedBy(resolve(dirname(file), path as string), seen);
  }
  return seen;
}

it.each([
  [exports['.'].default, 4],
  [exports['.'].browser, 2],
  [exports['./electron/renderer'].default, 2],
  [exports['./testing'].default, 6],
  [exports['./jsonrpc'].default, 5],
  [exports['./grpc'].default, 8],
  [bin.sidecall, 8],
])('%s loads at most %i files', (file, most) => {
  expect(loadedBy(join(root, file)).size).toBeLessThanOrEqual(most);
});

it('no module of a page names Node', () => {
  for (const entry of [exports['.'].browser, exports['./electron/renderer'].default]) {
    for (const file of loadedBy(join(root, entry))) {
      expect(readFileSync(file, 'utf8'), file).not.toMatch(/["']node:|\bprocess\.|\bBuffer\b/);
    }
  }
});
