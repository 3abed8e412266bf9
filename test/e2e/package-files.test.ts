// Weights that only go down: the files that a program loads with each entry of the package, of
// which each costs its start half a millisecond of processor, and the functions of a plain call.
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { startProgram } from '../support/programs.ts';

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

it('a plain call runs at most 121 functions of ours, on both sides together', async () => {
  await using program = startProgram('functions-called.mjs');
  const { functions } = (await program.next()) as { functions: number };
  expect(functions).toBeGreaterThan(50);
  expect(functions).toBeLessThanOrEqual(121);
});

it('no module of a page names Node', () => {
  for (const entry of [exports['.'].browser, exports['./electron/renderer'].default]) {
    for (const file of loadedBy(join(root, entry))) {
      expect(readFileSync(file, 'utf8'), file).not.toMatch(/["']node:|\bprocess\.|\bBuffer\b/);
    }
  }
});
