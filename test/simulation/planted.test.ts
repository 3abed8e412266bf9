// The known bugs that `npm run sim:bugs` plants: each changes a text that is in the sources.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

interface Bug {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const root = resolve(import.meta.dirname, '../..');

it.each(['mended', 'mutants', 'ring'])('%s: each text is in its file', async (list) => {
  const module = await import(`./planted/${list}.mjs`);
  const bugs: readonly Bug[] = Object.values<readonly Bug[]>(module).flat();
  expect(bugs.length).toBeGreaterThan(0);
  for (const { name, file, from, to } of bugs) {
    expect(from, name).not.toBe(to);
    expect(readFileSync(join(root, file), 'utf8'), name).toContain(from);
  }
});
