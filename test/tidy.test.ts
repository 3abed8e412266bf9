// Style as a test: layers, sizes of files, unfinished code. The layers are the folders of src/.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { version } from '../src/base/version.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The folders of `src/` from the ground up, which are its layers: a file imports from its own
 * folder and from those named before it. Files at the root are the public names and import from
 * all.
 */
const layers = [
  'base',
  'loop',
  'wire',
  'addon',
  'rpc',
  'uds',
  'shm',
  'open',
  'lasting',
  'rendezvous',
  'helper',
  'pool',
  'shared',
  'shmipc',
  'adapters',
  'testing',
  'cli',
];

/** Folders that know nothing of each other, though one is named before the other. */
const strangers: Record<string, readonly string[]> = {
  rpc: ['addon'],
  uds: ['rpc'],
  shm: ['rpc'],
  shmipc: ['rpc', 'shm'],
  adapters: ['addon', 'uds', 'shm'],
  testing: ['adapters'],
  cli: ['uds', 'shm', 'testing'],
};

/** The rooms of `src/rpc/`, in the same order; '' for files beside them. */
const rooms = [
  '',
  'contract',
  'counting',
  'sending',
  'streams',
  'calling',
  'serving',
  'channels',
  'session',
];

function filesBelow(folder: string, ending: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name))
    .map((name) => name.replaceAll('\\', '/'))
    .sort();
}

/** The text of a source without its comments. */
function codeOf(path: string): string {
  const text = readFileSync(join(root, 'src', path), 'utf8');
  return text.replace(/^\s*(\/\/|\/?\*).*$/gm, '');
}

/** The folder of `src/` that a file lies in; '' for the root. */
function layerOf(path: string): string {
  const [folder, ...rest] = path.split('/');
  return rest.length === 0 ? '' : (folder as string);
}

function importsOf(path: string): string[] {
  const text = readFileSync(join(root, 'src', path), 'utf8');
  return [...text.matchAll(/^(?:import|export)\b[^;]*? from '(\.[^']+)';/gms)].map(([, target]) =>
    relative(join(root, 'src'), join(root, 'src', dirname(path), target as string)),
  );
}

const sources = filesBelow('src', /\.ts$/);
const nativeSources = filesBelow('native', /\.(h|cc)$/).filter(
  (path) => !path.startsWith('third_party'),
);

describe('layers', () => {
  it('are the folders of src/', () => {
    const folders = new Set(sources.map(layerOf).filter((folder) => folder !== ''));
    expect([...folders].sort()).toEqual([...layers].sort());
    expect(sources.filter((path) => layerOf(path) === '')).toEqual(['browser.ts', 'index.ts']);
  });

  it.each(sources.filter((path) => layerOf(path) !== ''))('layers: imports of src/%s', (path) => {
    const layer = layerOf(path);
    const below = layers.slice(0, layers.indexOf(layer) + 1);
    for (const target of importsOf(path)) {
      expect(below, `${path} imports ${target}`).toContain(layerOf(target));
      expect(strangers[layer] ?? [], `${path} imports ${target}`).not.toContain(layerOf(target));
    }
  });

  it.each(sources.filter((path) => path.startsWith('rpc/')))('rooms: imports of src/%s', (path) => {
    const room = layerOf(path.slice('rpc/'.length));
    const before = rooms.slice(0, rooms.indexOf(room) + 1);
    for (const target of importsOf(path)) {
      if (!target.startsWith('rpc/')) continue;
      expect(before, `${path} imports ${target}`).toContain(layerOf(target.slice('rpc/'.length)));
    }
  });

  it('no imports run in a circle, those of types included', () => {
    const visiting = new Set<string>();
    const done = new Set<string>();
    const visit = (path: string, trail: readonly string[]): void => {
      expect(visiting.has(path), `circle: ${[...trail, path].join(' → ')}`).toBe(false);
      if (done.has(path)) return;
      visiting.add(path);
      for (const target of importsOf(path)) visit(target, [...trail, path]);
      visiting.delete(path);
      done.add(path);
    };
    for (const path of sources) visit(path, []);
  });

  it('Node-API stays in binding/, system headers in os/, and native code calls no JavaScript', () => {
    for (const path of nativeSources) {
      const text = readFileSync(join(root, 'native', path), 'utf8');
      if (!path.startsWith('binding/')) expect(text, path).not.toMatch(/<(napi|node_api|uv)\.h>/);
      if (!/^(os|test)\//.test(path)) expect(text, path).not.toContain('<sys/');
      // Electron refuses external buffers: only leases use them, and they do without where they
      // have to.
      const isOfLeases = path === 'binding/ring_blocks.cc';
      if (path.startsWith('binding/') && !isOfLeases) {
        expect(text, path).not.toMatch(/create_external|external_(array)?buffer/);
      }
      if (path.startsWith('ring/')) {
        expect(text, path).not.toMatch(/#include "(os|binding)\/|<(unistd|fcntl|errno)\.h>/);
        // Shared words are touched in one place only; layout.h declares them.
        if (!/words\.h$/.test(path))
          expect(text, path).not.toMatch(/\.(load|store|exchange)\(|memcpy\((?!at,)/);
      }
      if (!path.startsWith('test/')) expect(text, path).not.toMatch(/\.Call\(|MakeCallback|uv_/);
      if (!path.startsWith('test/')) expect(text, path).not.toMatch(/^static [^_(]*;/m);
    }
  });

  it('nothing that a peer can make last is called on the event loop', () => {
    // Calls that can wait for a lock of the object, or for whoever is behind it.
    const slow =
      /::(close|fallocate|fstat|fstatfs|ftruncate|lseek|madvise|mmap|munmap|posix_fallocate)\(/;
    const callers: Record<string, string> = {
      'base/unique_fd.h': 'closes what it owns; of strangers on a thread, see below',
      'os/descriptor.cc': 'looks at the descriptor that a helper inherited',
      'os/files.cc': 'directories and lock files of ours',
      'os/shared_memory.cc': 'our own memory; of a peer on a thread, see below',
      'os/writable_memory.cc': 'made, mapped and named on a thread; looked at without a lock',
    };
    for (const path of nativeSources) {
      if (path.startsWith('test/')) continue;
      const text = readFileSync(join(root, 'native', path), 'utf8');
      expect(slow.test(text), path).toBe(path in callers);
      // A peer's memory is accepted, and its descriptors are closed, inside a task only.
      for (const { index } of text.matchAll(/\bAcceptOutbox\(/g)) {
        if (path.startsWith('os/')) continue;
        expect(text.slice(index - 400, index), path).toContain('MakeOnThread<PeerOutbox>');
      }
      for (const { index } of text.matchAll(/\breceived\.(extract|erase)\(/g)) {
        expect(text.slice(index, index + 1_000), path).toMatch(/CloseReceived|MakeOnThread/);
      }
    }
  });
});

describe('style', () => {
  it('every source says its licence, and leaves no unfinished business', () => {
    const all = [
      ...sources.map((path) => join('src', path)),
      ...nativeSources.map((path) => join('native', path)),
    ];
    for (const path of all) {
      const text = readFileSync(join(root, path), 'utf8');
      const [first] = text.replace(/^#!.*\n/, '').split('\n');
      expect(first, path).toBe('// SPDX-License-Identifier: MIT');
      expect(text, path).not.toMatch(/\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))/);
    }
  });

  it('every file of src/ says in its first comment why it exists', () => {
    for (const path of sources) {
      const text = readFileSync(join(root, 'src', path), 'utf8').replace(/^#!.*\n/, '');
      expect(text, path).toMatch(/^\/\/ SPDX[^\n]*\n\/\/ \S/);
    }
  });

  it('comments begin with their subject', () => {
    const isRiddle = (line: string): boolean =>
      /^\s*(\/\/|\/\*\*|\*) (@internal )?(Who|What|Nobody|Nothing|Whoever|Whose|Somebody)\b/.test(
        line,
      );
    for (const folder of ['src', 'native', 'test', 'bench', 'examples', 'scripts', 'demo']) {
      for (const path of filesBelow(folder, /\.(ts|mjs|cjs|cc|h)$/)) {
        if (/node_modules|third_party|proto\//.test(path)) continue;
        const lines = readFileSync(join(root, folder, path), 'utf8').split('\n');
        expect(lines.filter(isRiddle), `${folder}/${path}`).toEqual([]);
      }
    }
  });

  it('comments have at most 100 columns', () => {
    const isLong = (line: string): boolean =>
      /^\s*(\/\/(?! biome-ignore)|\/?\*)/.test(line) && [...line].length > 100;
    for (const folder of ['src', 'native', 'test', 'bench', 'scripts', 'examples', 'demo']) {
      for (const path of filesBelow(
        folder,
        /^(?!.*(node_modules|third_party|proto\/)).*\.(m?ts|[cm]js|h|cc)$/,
      )) {
        const lines = readFileSync(join(root, folder, path), 'utf8').split('\n');
        expect(lines.filter(isLong), `${folder}/${path}`).toEqual([]);
      }
    }
  });

  it('every module of dist/ that a program beside src/ imports has a source', () => {
    for (const folder of ['bench', 'scripts', 'examples', 'demo', 'test']) {
      for (const path of filesBelow(folder, /^(?!.*node_modules).*\.m?[jt]s$/)) {
        const text = readFileSync(join(root, folder, path), 'utf8');
        for (const [, target] of text.matchAll(/(?:from |import\()'\.[./]*\/dist\/([^']+)\.js'/g)) {
          const source = target?.replace(/^internal\//, '');
          expect(sources, `${folder}/${path}`).toContain(`${source}.ts`);
        }
      }
    }
  });

  it('tests are neither skipped nor focused nor retried', () => {
    for (const path of filesBelow('test', /\.ts$/)) {
      const text = readFileSync(join(root, 'test', path), 'utf8');
      expect(text, path).not.toMatch(/\b(it|test|describe)\.(skip|only|todo)\b/);
      expect(text, path).not.toMatch(/retry: [1-9]/);
    }
  });

  it('time, turns and chance are those of a clock and a source of chance', () => {
    // Pages have no Node, and a simulated process is a clock.
    const others =
      /^(base\/(clock|random)\.ts|cli\/.*|adapters\/electron\/(renderer|page-call)\.ts|testing\/simulation\/process\.ts)$/;
    for (const path of sources.filter((name) => !others.test(name))) {
      const text = codeOf(path);
      expect(text, path).not.toMatch(/performance\.now|Math\.random|Date\.now\(\);/);
      const taken = [
        ...text.matchAll(/([\w.]*)\b(setTimeout|setInterval|setImmediate|nextTick)\(/g),
      ];
      for (const [call, from] of taken) {
        // A stream has a method of the name that sockets have.
        const isMethod = path === 'rpc/channels/socket-like.ts' && call === 'setTimeout(';
        if (!isMethod) expect(from, `${path}: ${call}`).toMatch(/[cC]lock\.$/);
      }
    }
  });

  it('sessions and transports are given them, and name those of the system as defaults alone', () => {
    const below = /^(rpc|wire|loop|shm)\/|^uds\/socket-transport\.ts$/;
    const namers = sources
      .filter((path) => below.test(path) && /\bsystem(Clock|Random|Loop)\b/.test(codeOf(path)))
      .sort();
    expect(namers).toEqual([
      'loop/event-loop.ts',
      'rpc/calling/call-site.ts', // counts the stacks that one turn of the thread has made
      'rpc/sending/session-shared.ts',
      'shm/ring-transport.ts',
      'uds/socket-transport.ts',
      'wire/loopback-transport.ts',
    ]);
  });

  it('only deadline.ts sets timers in rpc/', () => {
    for (const path of sources.filter((name) => name.startsWith('rpc/'))) {
      if (path === 'rpc/deadline.ts' || path === 'rpc/channels/socket-like.ts') continue;
      const text = readFileSync(join(root, 'src', path), 'utf8');
      expect(text, path).not.toMatch(/\bset(Timeout|Interval)\(/);
    }
  });

  it('the length of bytes is read by `length`: `byteLength` is slow in Node 20', () => {
    // Array buffers, data views, blocks and leases have no `length`.
    const others = /(buffer|memory|ours|peers|data|block|this|source|message)\??\.byteLength$/i;
    for (const path of sources) {
      const reads = codeOf(path).match(/[\w\])]+\??\.byteLength\b(?!\()/g) ?? [];
      expect(
        reads.filter((read) => !others.test(read)),
        path,
      ).toEqual([]);
    }
  });

  it('`Buffer` is imported: the global one is a getter, which every use would call', () => {
    for (const path of sources) {
      const code = codeOf(path);
      if (!/\bBuffer\.\w|instanceof Buffer\b/.test(code)) continue;
      expect(code, path).toMatch(/import (type )?\{ [^}]*\bBuffer\b[^}]*\} from 'node:buffer'/);
    }
  });

  it('no file of src/ has more than 350 lines, or 500 where it is one class', () => {
    const long = sources.filter((path) => {
      const lines = readFileSync(join(root, 'src', path), 'utf8').split('\n');
      const classes = lines.filter((line) => /^(export )?(abstract )?class /.test(line)).length;
      return lines.length > (classes === 1 ? 501 : 351);
    });
    expect(long).toEqual([]);
  });

  it('shows the ten longest files (a reader asks: which second thing is in here?)', () => {
    const lengths = [
      ...sources.map((path) => join('src', path)),
      ...nativeSources.map((path) => join('native', path)),
    ]
      .map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n').length }))
      .sort((a, b) => b.lines - a.lines);
    console.log(
      lengths
        .slice(0, 10)
        .map(({ path, lines }) => `${lines} ${path}`)
        .join('\n'),
    );
    expect(lengths.length).toBeGreaterThan(50);
  });
});

describe('tests', () => {
  const tests = filesBelow('test', /\.test\.ts$/);
  // Folders of tests that span rooms, and tests of the repository itself.
  const spanning =
    /^(bench|session|simulation|e2e|interop|honest|hostile)\/|^(docs|guides|requirements|suites|tidy)\.test\.ts$/;

  it.each(tests.filter((path) => !spanning.test(path)))(
    'test/%s stands where its source does',
    (path) => {
      const parts = path.replace('.test.ts', '').split('-');
      // `grpc-listener.test.ts` is one of several of `grpc.ts`.
      const stems = parts.map((_, at) => parts.slice(0, at + 1).join('-'));
      const found = stems.filter((stem) =>
        [`src/${stem}.ts`, `src/${stem}`].some((file) => existsSync(join(root, file))),
      );
      expect(found.length, `src/ has no file for test/${path}`).toBeGreaterThan(0);
    },
  );

  it('have at most 400 lines a file', () => {
    const long = tests.filter(
      (path) => readFileSync(join(root, 'test', path), 'utf8').split('\n').length > 401,
    );
    expect(long).toEqual([]);
  });

  it('have names without ids of documents', () => {
    for (const path of tests) {
      const text = readFileSync(join(root, 'test', path), 'utf8');
      expect(text, path).not.toMatch(/\b(it|describe)[^\n]*\(\s*['"`](rows? \d|[A-EG-Z]\d+ )/);
    }
  });
});

describe('package.json', () => {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

  it('has no runtime dependency and no install script', () => {
    expect(manifest.dependencies).toBeUndefined();
    for (const script of ['preinstall', 'install', 'postinstall']) {
      expect(manifest.scripts).not.toHaveProperty(script);
    }
    expect(readdirSync(root)).not.toContain('binding.gyp');
  });

  it('names the Node-API version that the addon is built for', () => {
    const cmake = readFileSync(join(root, 'native', 'CMakeLists.txt'), 'utf8');
    expect(manifest.binary.napi_versions).toEqual([Number(/NAPI_VERSION=(\d+)/.exec(cmake)?.[1])]);
  });

  it('has the version that the sources have', () => {
    expect(version).toBe(manifest.version);
  });
});
