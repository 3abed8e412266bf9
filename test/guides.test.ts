// Programs in the guides and the README run, and print what their comments say.
import { execSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { localhostCertificate } from './support/certificates.ts';
import { moduleOf, project, promised, type Snippets, snippetsOf } from './support/snippets.ts';

const root = resolve(import.meta.dirname, '..');
const guides = readdirSync(join(root, 'docs', 'guide'))
  .filter((name) => name !== 'README.md' && name !== 'many-machines.md') // programs of its own
  .map((name) => join('docs', 'guide', name))
  .concat(join('docs', 'index.md'));

function run(snippets: Snippets): { stdout: string; stderr: string; status: number | null } {
  using folder = project();
  for (const [name, code] of snippets.files) folder.write(name, code);
  folder.write('page.mjs', moduleOf(snippets.program));
  // A page that shows a fault prints it, too; a helper on a busy machine starts slowly.
  const quiet = ['SIDECALL_HANDLER_FAILED', 'SIDECALL_HELPER_SILENT'];
  const args = [...quiet.map((code) => `--disable-warning=${code}`), 'page.mjs'];
  return spawnSync(process.execPath, args, { cwd: folder.path, encoding: 'utf8' });
}

describe('guides', () => {
  it.each(guides)('%s does what it shows', (path) => {
    const snippets = snippetsOf(readFileSync(join(root, path), 'utf8'));
    const { stdout, stderr, status } = run(snippets);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toBe(promised(snippets.program));
    expect(stdout.length).toBeGreaterThan(0);
  });

  it('the overview shows each kind of call in at most ten lines', () => {
    const text = readFileSync(join(root, 'docs/guide/overview.md'), 'utf8');
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

describe('docs/electron.md', () => {
  const text = readFileSync(join(root, 'docs', 'electron.md'), 'utf8');

  function electronProject(): ReturnType<typeof project> {
    const folder = project();
    const stub = join(root, 'test', 'support', 'electron-app');
    rmSync(join(folder.path, 'node_modules', 'electron'), { recursive: true, force: true });
    symlinkSync(stub, join(folder.path, 'node_modules', 'electron'));
    return folder;
  }

  function electron(cwd: string, ...args: string[]): { stdout: string; stderr: string } {
    // As `electron .` does, with the stub: the entry is evaluated before `app` is ready.
    const run = join(cwd, 'node_modules', 'electron', 'run.mjs');
    const options = { cwd, encoding: 'utf8', timeout: 280_000 } as const;
    const { stdout, stderr } = spawnSync(process.execPath, [run, ...args], options);
    return { stdout, stderr };
  }

  it('an app from an empty folder, by the commands of the page, makes its calls', () => {
    using folder = electronProject();
    rmSync(join(folder.path, 'package.json'));
    const commands = [...text.matchAll(/```sh\n([\s\S]*?)```/g)]
      .flatMap(([, lines]) => (lines as string).trim().split('\n'))
      // The folder, the packages and the binary are what the test brings with it.
      .filter((line) => !/^mkdir |^npm install |^npx electron /.test(line));
    expect(commands.map((line) => line.split(' ').slice(0, 2).join(' '))).toEqual([
      'npm init',
      'npm pkg',
      'npx esbuild',
    ]);
    for (const [name, code] of snippetsOf(text).files) folder.write(name, code);
    folder.write('index.html', /```html\n<!-- index.html -->\n([\s\S]*?)```/.exec(text)?.[1] ?? '');
    for (const line of commands) execSync(line, { cwd: folder.path, stdio: 'pipe' });
    expect(electron(folder.path)).toEqual({
      stdout: '{ hits: 4 }\nline 1\nline 2\nline 3\n',
      stderr: '',
    });
  });

  it('starts a utility process when app is ready, not before', async () => {
    using folder = electronProject();
    for (const [name, code] of snippetsOf(text).files) folder.write(name, code);
    folder.write('package.json', '{ "type": "module", "main": "utility.mjs" }');
    const run = join(folder.path, 'node_modules', 'electron', 'run.mjs');
    // The listener's directory goes with the project, since the program is killed.
    const env = { ...process.env, XDG_RUNTIME_DIR: folder.path };
    const main = spawn(process.execPath, [run], { cwd: folder.path, env });
    const ended = once(main, 'close');
    try {
      let printed = '';
      main.stdout.setEncoding('utf8');
      for await (const piece of main.stdout) {
        printed += piece;
        if (/^ring$/m.test(printed) && /^\d+$/m.test(printed)) break;
      }
      expect(printed.trim().split('\n')).toHaveLength(2); // the lane, and the pid
    } finally {
      main.kill('SIGKILL');
      await ended;
    }
  });

  it('and the example open their windows when app is ready, not before', () => {
    using folder = electronProject();
    const example = join(folder.path, 'example');
    cpSync(join(root, 'examples', 'electron'), example, { recursive: true });
    symlinkSync(join(folder.path, 'node_modules'), join(example, 'node_modules'));
    expect(electron(example, '--no-pages')).toEqual({
      stdout: `opened ${join(example, 'page', 'index.html')}\n`,
      stderr: '',
    });
  });

  it('shows the preload script that the package has', () => {
    const own = snippetsOf(text).files.get('preload.cjs');
    const shipped = readFileSync(join(root, 'src/adapters/electron/preload.cjs'), 'utf8');
    const bare = (code: string): string =>
      code
        .replaceAll(/\/\/.*|'use strict';/g, '')
        .replaceAll(/\s+/g, ' ')
        .trim();
    expect(bare(own ?? '')).toBe(bare(shipped));
  });

  it('and the example have the same configurations of the packagers', () => {
    const forge = readFileSync(join(root, 'examples/electron/forge.config.cjs'), 'utf8');
    expect(forge).toContain(
      snippetsOf(text).files.get('forge.config.cjs')?.split('\n').slice(1).join('\n').trim(),
    );
    const json = /```json\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
    const { appId: _, ...builder } = JSON.parse(
      readFileSync(join(root, 'examples/electron/electron-builder.json'), 'utf8'),
    );
    expect(JSON.parse(json)).toEqual(builder);
  });
});

describe('docs/guide/many-machines.md', () => {
  it('moves its service to a server with TLS, by one line on each side', async () => {
    const text = readFileSync(join(root, 'docs/guide/many-machines.md'), 'utf8');
    const { files, program } = snippetsOf(text);
    expect(program).toEqual([]);
    using folder = project();
    for (const [name, code] of files) folder.write(name, code);
    folder.write('key.pem', localhostCertificate.key);
    folder.write('cert.pem', localhostCertificate.cert);
    const cwd = folder.path;
    const local = printed([files.get('main.mjs') as string], 'main.mjs', cwd);
    const remoteServer = spawn(process.execPath, ['remote-server.mjs'], {
      cwd,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(remoteServer, 'close');
    const [port] = await once(remoteServer.stdout, 'data');
    const remote = printed(
      [files.get('remote-main.mjs') as string],
      'remote-main.mjs',
      cwd,
      String(port),
    );
    remoteServer.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(remote).toBe(local);
  });

  /** Runs a program, which prints what its comments say. */
  function printed(code: string[], name: string, cwd: string, ...args: string[]): string {
    const command = [name, ...args.map((each) => each.trim())];
    const { stdout, stderr } = spawnSync(process.execPath, command, { cwd, encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(stdout).toBe(promised(code));
    return stdout;
  }
});

/** The files that the tools in the text on protobuf make. */
function writeGenerated(home: string): void {
  const proto = join(root, 'test', 'support', 'proto');
  for (const file of ['demo.js', 'demo.d.ts']) cpSync(join(proto, file), join(home, file));
  const contract = `export { demo as root } from './demo.js';
export const Indexer: import('sidecall').Service;
`;
  writeFileSync(join(home, 'demo_sidecall.d.ts'), contract);
  writeFileSync(join(home, 'demo_sidecall.js'), '');
  mkdirSync(join(home, 'gen'), { recursive: true });
  for (const file of ['store_pb.js', 'store_pb.d.ts', 'store.ts']) {
    cpSync(join(proto, file), join(home, 'gen', file));
  }
}

describe('types', () => {
  const documents = [
    'README.md',
    ...guides,
    ...readdirSync(join(root, 'docs')).map((name) => join('docs', name)),
  ].filter((name) => name.endsWith('.md'));

  it('every block of code in README and docs, and every example of a doc comment, compiles', () => {
    using folder = project();
    let blocks = 0;
    let examples = 0;
    for (const [at, document] of documents.entries()) {
      const text = readFileSync(join(root, document), 'utf8');
      const { files, program } = snippetsOf(text);
      blocks += files.size + program.length;
      const home = join(folder.path, `${at}`);
      mkdirSync(home);
      for (const [name, code] of files) {
        writeFileSync(join(home, name.replace(/\.(c?m?)js$/, '.$1ts')), asTyped(code));
      }
      if (program.length > 0) writeFileSync(join(home, 'page.mts'), asTyped(moduleOf(program)));
      for (const [number, block] of [...text.matchAll(/```ts\n([\s\S]*?)```/g)].entries()) {
        writeFileSync(join(home, `block-${number}.mts`), block[1] as string);
        blocks += 1;
      }
      writeGenerated(home);
    }
    writeGenerated(folder.path);
    for (const source of filesOf('src')) {
      const text = readFileSync(join(root, source), 'utf8');
      for (const [number, [, lines]] of [...text.matchAll(exampleBlock)].entries()) {
        const code = (lines as string).replace(/^ *\* ?/gm, '');
        folder.write(`${source.replaceAll('/', '-')}-${number}.mts`, code);
        examples += 1;
      }
    }
    // Modules that are not installed here; a stub of Cap'n Web has no methods without a type.
    const foreign = [
      'capnweb',
      'electron',
      'vscode-languageserver/node',
      'vscode-json-languageserver/out/jsonServer',
    ];
    folder.write('foreign.d.ts', foreign.map((name) => `declare module '${name}';\n`).join(''));
    const compilerOptions = {
      ...{ module: 'nodenext', target: 'es2022', lib: ['es2023', 'esnext.disposable', 'dom'] },
      ...{ strict: false, noEmit: true, skipLibCheck: true, types: ['node'] },
    };
    folder.write('tsconfig.json', JSON.stringify({ compilerOptions, include: ['**/*'] }));
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', '.', '--pretty', 'false'], {
      cwd: folder.path,
      encoding: 'utf8',
    });
    const named = stdout.replaceAll(
      /^(\d+)\//gm,
      (_whole, at: string) => `${documents[Number(at)]}: `,
    );
    expect(named).toBe('');
    expect(status).toBe(0);
    expect(blocks).toBeGreaterThan(40);
    expect(examples).toBeGreaterThanOrEqual(20);
  });
});

/** An `@example` in a doc comment: a module of its own. */
const exampleBlock = /@example\n *\* ```ts\n([\s\S]*?)\n *\* ```/g;

function filesOf(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

/** Contracts without types are of any: in JavaScript nobody says more. */
function asTyped(code: string): string {
  return code
    .replaceAll(/\b(unary|serverStream|clientStream|bidi)\((?!\))/g, '$1<any, any, any, any>(')
    .replaceAll(/\b(unary|serverStream|clientStream|bidi)\(\)/g, '$1<any, any>()')
    .replaceAll(/\bnotification\(/g, 'notification<any>(')
    .replaceAll(/\bnew Promise\(/g, 'new Promise<any>(');
}
