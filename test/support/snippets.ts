// The code in documents as programs: blocks that begin with a file name are files; all others are
// one program, in order, with a pair of sessions under the names that the documents use.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

export interface Snippets {
  readonly files: Map<string, string>;
  readonly program: string[];
}

export function snippetsOf(text: string): Snippets {
  const files = new Map<string, string>();
  const program: string[] = [];
  for (const [, code] of text.matchAll(/```js\n([\s\S]*?)```/g)) {
    const name = /^\/\/ ([\w.-]+\.c?m?js)\n/.exec(code as string)?.[1];
    if (name === undefined) program.push(code as string);
    else files.set(name, code as string);
  }
  return { files, program };
}

/** One module: imports first, then the rest. */
export function moduleOf(program: readonly string[]): string {
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
  // A page that shows server() has no other `server`.
  const far = names.has('server') ? '' : ', far: server';
  return `${[...imports].join('\n')}\n${pair}
const { near: session${far}, close } = createSessionPair();
${body}
await close();
`;
}

/** The output that the comments promise, in order. */
export function promised(program: readonly string[]): string {
  return [...program.join('\n').matchAll(/\/\/ prints (.*)$/gm)]
    .map(([, words]) => `${words}\n`)
    .join('');
}

/** A project in which this package and the packages of its tests are installed. */
export function project(): Disposable & {
  path: string;
  write: (name: string, code: string) => void;
} {
  const path = mkdtempSync(join(tmpdir(), 'project-'));
  const modules = join(path, 'node_modules');
  mkdirSync(modules);
  for (const name of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  symlinkSync(root, join(modules, 'sidecall'));
  writeFileSync(join(path, 'package.json'), '{"type":"module"}');
  return {
    path,
    write: (name, code) => writeFileSync(join(path, name), code),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
