// What the guides and the README show is run, and what it prints is what they say.
import { spawnSync } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const guides = readdirSync(join(root, 'docs', 'guide'))
  .filter((name) => name !== 'README.md')
  .map((name) => join('docs', 'guide', name));

interface Snippets {
  /** Blocks that begin with the name of a file. */
  readonly files: Map<string, string>;
  /** All others, in order: one program. */
  readonly program: string[];
}

function snippetsOf(text: string): Snippets {
  const files = new Map<string, string>();
  const program: string[] = [];
  for (const [, code] of text.matchAll(/```js\n([\s\S]*?)```/g)) {
    const name = /^\/\/ (\w+\.mjs)\n/.exec(code as string)?.[1];
    if (name === undefined) program.push(code as string);
    else files.set(name, code as string);
  }
  return { files, program };
}

/** One module: imports first, then the rest, around a pair of sessions that are called as in the texts. */
function moduleOf(program: readonly string[]): string {
  const imports = new Set<string>();
  const names = new Set<string>();
  const body = program
    .join('\n')
    .replace(/^import \{([^}]*)\} from ('[^']+');\n/gm, (_whole, list: string, from: string) => {
      for (const name of list.split(',').map((each) => each.trim())) {
        if (names.has(name)) continue;
        names.add(name);
        imports.add(`import { ${name} } from ${from};`);
      }
      return '';
    })
    .replace(/^import .*\n/gm, (line) => {
      imports.add(line.trim());
      return '';
    });
  const pair = names.has('createSessionPair')
    ? ''
    : "import { createSessionPair } from 'sidecall/testing';";
  return `${[...imports].join('\n')}\n${pair}
const { near: session, far: server, close } = createSessionPair();
${body}
await close();
`;
}

/** What the comments promise, in order. */
function promised(program: readonly string[]): string {
  return [...program.join('\n').matchAll(/\/\/ prints (.*)$/gm)]
    .map(([, words]) => `${words}\n`)
    .join('');
}

function run(snippets: Snippets): { stdout: string; stderr: string; status: number | null } {
  const folder = mkdtempSync(join(tmpdir(), 'guide-'));
  try {
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const built = (code: string): string =>
      code
        .replaceAll("'sidecall'", JSON.stringify(join(root, 'dist', 'index.js')))
        .replace(/'sidecall\/(\w+)'/g, (_whole, name: string) =>
          JSON.stringify(join(root, 'dist', `${name}.js`)),
        );
    for (const [name, code] of snippets.files) writeFileSync(join(folder, name), built(code));
    writeFileSync(join(folder, 'page.mjs'), built(moduleOf(snippets.program)));
    return spawnSync(process.execPath, ['page.mjs'], { cwd: folder, encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('guides', () => {
  it.each(guides)('%s does what it shows', (path) => {
    const snippets = snippetsOf(readFileSync(join(root, path), 'utf8'));
    const { stdout, stderr, status } = run(snippets);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toBe(promised(snippets.program));
    expect(stdout.length).toBeGreaterThan(0);
  });

  it('the README shows each kind of call in at most ten lines', () => {
    const text = readFileSync(join(root, 'README.md'), 'utf8');
    const section = /## Each kind of call\n([\s\S]*?)\n## /.exec(text)?.[1] ?? '';
    const snippets = snippetsOf(section);
    expect(snippets.program).toHaveLength(6);
    for (const snippet of snippets.program) {
      expect(snippet.trim().split('\n').length, snippet).toBeLessThanOrEqual(10);
    }
    const { stdout, stderr, status } = run(snippets);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toBe(promised(snippets.program));
    for (const kind of [
      'unary(',
      'notification(',
      'serverStream(',
      'clientStream(',
      'bidi(',
      'openDuplex(',
    ]) {
      expect(section).toContain(kind);
    }
  });
});
