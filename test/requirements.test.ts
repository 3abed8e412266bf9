// Each promise of docs/requirements.md has a test of that name, and says where its full size runs.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Does the test of this name in a file have another size in the long run? */
function isLonger(file: string, name: string): boolean {
  const text = read(file);
  const sizes = [...text.matchAll(/^const (\w+) = .*\brounds\(/gm)].map(([, constant]) => constant);
  const from = text.indexOf(name);
  const next = /\n\s*(it|describe)(\.each)?\(/.exec(text.slice(from));
  const body = text.slice(from, next === null ? undefined : from + next.index);
  return ['rounds\\(', ...sizes].some((size) => new RegExp(`\\b${size}`).test(body));
}

/** The names of the tests of a file: all that stands between quotation marks in it. */
function namesIn(file: string): (string | undefined)[] {
  return [...read(file).matchAll(/(['"`])((?:(?!\1).)+)\1/g)].map(([, , name]) => name);
}

describe('docs/requirements.md', () => {
  const [, ...parts] = read('docs/requirements.md').split(/^`([^`]+)`$/m);
  const files = parts.filter((_, at) => at % 2 === 0);

  it.each(files)('names tests of %s', (file) => {
    const names = namesIn(file);
    const lines = parts[parts.indexOf(file) + 1]?.match(/^- .*$/gm) ?? [];
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) {
      const [, proof = '', mark] = /\. \[(.+)\](| \*\*long run\*\*)$/.exec(line) ?? [];
      const name = proof.replaceAll('`', '');
      expect(names, line).toContain(name);
      expect(mark !== '', line).toBe(isLonger(file, name));
    }
  });
});

describe('the rows of docs/requirements.md', () => {
  const [systems = ''] = read('docs/requirements.md').split(/^`[^`]+`$/m);
  const rows = [...systems.matchAll(/^- \*\*([UGSNR]\d+)\.\*\* .+\n((?: {2}- .+\n)+)/gm)];

  it('are those of all five systems, each once', () => {
    const counts = { U: 43, G: 14, S: 37, N: 8, R: 8 };
    const ids = Object.entries(counts).flatMap(([letter, count]) =>
      Array.from({ length: count }, (_, at) => `${letter}${at + 1}`),
    );
    expect(rows.map(([, id]) => id)).toEqual(ids);
  });

  it.each(rows.map(([, id, proofs]) => ({ id, proofs: proofs ?? '' })))(
    'has proofs of $id that exist',
    ({ proofs }) => {
      const lines = proofs.trimEnd().split('\n');
      const tests = lines.flatMap(
        (line) => /^ {2}- `([^`]+)` \[(.+)\](| \*\*long run\*\*)$/.exec(line)?.slice(1) ?? [],
      );
      const commands = lines.filter((line) => /^ {2}- `[^`]+`: `npm run .+`$/.test(line));
      const open = lines.filter((line) => /^ {2}- Not run: .+\. Command: `.+`.*\.$/.test(line));
      expect(tests.length / 3 + commands.length + open.length).toBe(lines.length);
      expect(tests.length + commands.length).toBeGreaterThan(0);
      for (let at = 0; at < tests.length; at += 3) {
        const [file = '', proof = '', mark] = tests.slice(at, at + 3);
        const name = proof.replaceAll('`', '');
        expect(namesIn(file), file).toContain(name);
        expect(mark !== '', `${file} [${name}]`).toBe(isLonger(file, name));
      }
      for (const line of commands)
        expect(existsSync(join(root, line.split('`')[1] ?? ''))).toBe(true);
    },
  );
});
