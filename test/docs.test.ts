// Documents that repeat facts of the code, compared with the code.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../src/addon/load-addon.ts';
import { systemClock } from '../src/base/clock.ts';
import { errorTable } from '../src/base/error-codes.ts';
import { tuning } from '../src/base/limits/internal-limits.ts';
import { ranges, sessionRanges } from '../src/base/limits/option-limits.ts';
import { wireLimits } from '../src/base/limits/wire-limits.ts';
import { pause } from '../src/base/pause.ts';
import { establishOverDescriptor } from '../src/open/open-session.ts';
import { json } from '../src/rpc/contract/json.ts';
import { FrameType } from '../src/wire/frame-header.ts';
import { Demo, demoHandlers } from './support/contract.ts';
import { settingsOf } from './support/pairs.ts';

const root = resolve(import.meta.dirname, '..');

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Cells of all table rows whose first cell matches. */
function rowsOf(text: string, first: RegExp): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .filter(([cell]) => first.test(cell ?? ''));
}

describe('docs/errors.md', () => {
  it('has a section for every code, and says of it what the code says', () => {
    const section =
      /^## (\w+)\n\n`ERR_SIDECALL_\1` · `retryable`: (\w+) · `delivered`: (\w+) · `status`: `(\w+)`\n\n.+\n\n\*\*What to do:\*\* ./gm;
    const told = Object.fromEntries(
      [...read('docs/errors.md').matchAll(section)].map(
        ([, code, retryable, delivered, status]) => [
          `ERR_SIDECALL_${code}`,
          { retryable: retryable === 'yes', delivered, status },
        ],
      ),
    );
    const known = Object.fromEntries(
      Object.entries(errorTable).map(([code, { retryable, delivered, status }]) => [
        code,
        { retryable, delivered, status },
      ]),
    );
    expect(told).toEqual(known);
  });

  it('every code that the sources throw is tested by its name', () => {
    const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => read(join('test', name)))
      .join('\n');
    const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && name !== 'base/error-codes.ts')
      .map((name) => read(join('src', name)))
      .join('\n');
    for (const code of Object.keys(errorTable)) {
      expect(sources, `${code} is never thrown`).toContain(code);
      expect(tests, code).toContain(code);
    }
  });
});

describe('docs/security.md', () => {
  const text = read('docs/security.md');
  const number = (cell: string | undefined): number => Number((cell ?? '').replaceAll(',', ''));

  it('has the limits that the code has', () => {
    const all = {
      ...Object.fromEntries(
        Object.entries(sessionRanges).map(([name, range]) => [`limits.${name}`, range]),
      ),
      ...ranges,
    };
    const told = rowsOf(text, /^`[\w.]+`$/).filter((cells) => cells.length === 4);
    const named = told.map(([name, standard, min, max]) => [
      (name ?? '').replaceAll('`', ''),
      { standard: standard === 'none' ? 0 : number(standard), min: number(min), max: number(max) },
    ]);
    expect(Object.fromEntries(named)).toEqual(all);
  });

  it('has the fixed values that the code has', () => {
    const told = rowsOf(text, /^`\w+`$/).filter((cells) => cells.length === 2);
    const named = told.map(([name, value]) => [(name ?? '').replaceAll('`', ''), number(value)]);
    expect(Object.fromEntries(named)).toEqual({ ...wireLimits, ...tuning });
  });
});

describe('docs/protocol.md', () => {
  it('shows what a value with bytes in it looks like', () => {
    const [, shown = ''] = /is\n\n```text\n([0-9a-f \n]+)```/.exec(read('docs/protocol.md')) ?? [];
    const encoded = json().encode({ name: 'x', data: new Uint8Array([1, 2, 3]) });
    expect(Buffer.from(encoded as Uint8Array).toString('hex')).toBe(shown.replace(/\s/g, ''));
  });

  it('replays its session against a real one, byte for byte', async () => {
    const steps = sessionInHex(read('docs/protocol.md'));
    expect(steps.length).toBeGreaterThan(8);
    const native = requireNative('the test');
    const { near, far } = native.socketPair();
    const peer = { origin: 'loopback', capturedAt: 'connect' } as const;
    const ids = { pid: 1, pidIsHint: false, uid: 0, gid: 0, groups: [] };
    const { signal } = new AbortController();
    const role = { side: 'accepting' } as const;
    const establishing = establishOverDescriptor(
      native,
      near,
      { ...peer, ...ids },
      role,
      settingsOf(undefined, undefined),
      signal,
    ).then((session) => {
      session.serve(Demo, demoHandlers());
      return session;
    });
    for (const { from, bytes } of steps) {
      if (from === 'C→A') {
        expect(native.send(far, bytes, 0, -1)).toBe(bytes.byteLength);
        continue;
      }
      const heard = Buffer.alloc(bytes.byteLength);
      for (let at = 0; at < heard.byteLength; ) {
        const got = native.receive(far, heard, at, false, false, 0);
        if (got === undefined) await pause(systemClock, 1, signal);
        else at += got.bytes;
      }
      const isHello = heard.byteLength === 72;
      if (isHello) bytes.copy(heard, 32, 32, 48); // the nonce is random
      if (bytes[4] === FrameType.clock) bytes.copy(heard, 16, 16, 20); // and so is the time
      expect(heard.toString('hex')).toBe(bytes.toString('hex'));
    }
    native.closeDescriptor(far);
    const session = await establishing;
    expect(await session.closed).toBeUndefined();
  });
});

describe('documents', () => {
  const documents = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md'].concat(
    readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => join('docs', name)),
  );

  it.each(documents)('%s links to files that exist', (path) => {
    for (const [, target] of read(path).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      expect(existsSync(join(root, dirname(path), target as string)), target).toBe(true);
    }
  });

  it('names commands that run, with the options that they have', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const benches = new Set<string>();
    for (const document of documents) {
      for (const [, name = '', args] of read(document).matchAll(
        /npm run ([a-z][a-z:-]*)(?: -- ([^`#\n]*))?/g,
      )) {
        expect(scripts[name], `${document}: npm run ${name}`).toBeDefined();
        if (name === 'bench') benches.add(args?.trim() ?? '');
      }
    }
    expect(benches.size).toBeGreaterThan(10);
    for (const args of benches) {
      const command = `node bench/run.mjs ${args.replace(/ [A-Z]+$/, ' file')} --dry-run`;
      const { status, stderr } = spawnSync('sh', ['-c', command], { cwd: root, encoding: 'utf8' });
      expect({ command, status, stderr }).toEqual({ command, status: 0, stderr: '' });
    }
  });

  it('docs/design.md says what is in every folder of src/', () => {
    const design = read('docs/design.md');
    const folders = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(join(root, 'src').length + 1));
    const named = folders.filter((folder) => !folder.startsWith(join('adapters', '')));
    for (const folder of named) expect(design).toMatch(new RegExp(`^\\|.*${folder}/\``, 'm'));
  });

  it('no document names a source file that does not exist', () => {
    const exists = new Set(
      ['src', 'native', 'test', 'scripts', 'bench', 'examples', 'model']
        .flatMap((folder) =>
          readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
            join(folder, name),
          ),
        )
        .filter((name) => !name.includes('node_modules')),
    );
    const isThere = (name: string): boolean =>
      exists.has(name) || ['src', 'native'].some((folder) => exists.has(join(folder, name)));
    const documents = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md'].concat(
      readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md'))
        .map((name) => join('docs', name)),
    );
    const paths =
      /`((?:src|native|test|scripts|bench|model|base|wire|addon|rpc|uds|shm|open|rendezvous|helper|adapters|testing|cli|os|ring|binding)\/[\w./-]+\.(?:ts|mjs|cjs|cc|h|py|pml))`/g;
    for (const document of documents) {
      for (const [, path] of read(document).matchAll(paths)) {
        expect(isThere(path as string), `${document} names ${path}`).toBe(true);
      }
    }
  });

  it('every rule of docs/design.md for honest programs has a test that carries its number', () => {
    const rules = [...read('docs/design.md').matchAll(/^- \*\*(F\d)\. /gm)].map(([, rule]) => rule);
    const tests = readdirSync(join(root, 'test/honest')).map((name) => read(`test/honest/${name}`));
    expect(rules).toHaveLength(9);
    for (const rule of rules) expect(tests.join('\n'), rule).toMatch(new RegExp(`['"]${rule} `));
  });

  it('each picture has a text that says what it shows', () => {
    for (const document of documents) {
      const text = read(document);
      const pictures = [
        ...text.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g),
        ...[...text.matchAll(/<img [^>]*>/g)].map(([tag]) => [
          tag,
          / alt="([^"]*)"/.exec(tag)?.[1],
          / src="([^"]*)"/.exec(tag)?.[1],
        ]),
      ];
      for (const [, alt = '', path] of pictures) {
        expect(alt.split(' ').length, `${document}: ${path}`).toBeGreaterThan(4);
        // The text of a chart holds its result.
        if (path?.endsWith('.svg')) expect(alt, `${document}: ${path}`).toMatch(/\d/);
      }
    }
  });

  it('figures in prose are those of the published run', () => {
    const [, file] = /results\/([\w.-]+\.json)/.exec(read('docs/performance.md')) ?? [];
    const { rows } = JSON.parse(read(join('bench', 'results', file as string))) as {
      rows: {
        scenario: string;
        peer: string;
        size: number;
        inFlight: number;
        callsPerSecond: number;
      }[];
    };
    const best = (name: string): number =>
      Math.max(
        ...rows
          .filter(
            ({ scenario, size, inFlight }) =>
              scenario === 'echo' && size === 1024 && inFlight === 16,
          )
          .filter(({ peer }) => peer.startsWith(name))
          .map(({ callsPerSecond }) => callsPerSecond),
      );
    const cells = /^\| Calls per second +\|(.*)\|$/m.exec(read('docs/why.md'))?.[1]?.split('|');
    const peers = ['sidecall', 'child_process', undefined, 'vscode-jsonrpc', 'grpc-js', 'zeromq'];
    for (const [at, peer] of peers.entries()) {
      if (peer === undefined) continue;
      expect(cells?.[at]?.trim(), peer).toBe(Math.round(best(peer)).toLocaleString('en'));
    }
    const ratio = (peer: string): string => {
      const times = best('sidecall') / best(peer);
      return `**${times < 10 ? times.toFixed(1) : Math.round(times)} times**`;
    };
    const row = /^\| [\d,]+ .*$/m.exec(read('README.md'))?.[0] ?? '';
    for (const peer of ['sidecall', 'child_process', 'zeromq', 'vscode-jsonrpc', 'grpc-js']) {
      expect(row, peer).toContain(Math.round(best(peer)).toLocaleString('en'));
    }
    for (const peer of ['grpc-js', 'zeromq', 'child_process']) {
      expect(read('docs/index.md')).toContain(ratio(peer));
    }
  });

  it('a figure in the tables of performance comes from a result that is in the project', () => {
    const text = read('docs/performance/tables.md');
    const results = [...text.matchAll(/results\/([\w.-]+\.json)/g)].map(
      ([, name]) => name as string,
    );
    expect(results.length).toBeGreaterThan(0);
    for (const name of results) {
      const { schema, rows } = JSON.parse(read(join('bench', 'results', name)));
      expect(schema).toBe(1);
      const figures = rows.map((row: { callsPerSecond: number }) =>
        Math.round(row.callsPerSecond).toLocaleString('en'),
      );
      // Rows that a later commit has measured again are left out.
      const told = figures.filter((figure: string) => text.includes(figure));
      expect(told.length, name).toBeGreaterThan(figures.length / 4);
    }
    const published = results.flatMap(
      (name) =>
        JSON.parse(read(join('bench', 'results', name))).rows as { callsPerSecond: number }[],
    );
    const known = new Set(
      published.map((row) => Math.round(row.callsPerSecond).toLocaleString('en')),
    );
    const cells = rowsOf(text, /^[a-z][\w-]+$/).filter((row) => row.length > 10);
    expect(cells.length).toBeGreaterThan(100);
    for (const row of cells.filter(([peer]) => peer !== 'peer')) expect(known).toContain(row[5]);
  });

  it('the example of the README is a program that runs', async () => {
    const { spawnSync } = await import('node:child_process');
    const { mkdtempSync, rmSync, writeFileSync } = await import('node:fs');
    const { tmpdir } = await import('node:os');
    const folder = mkdtempSync(join(tmpdir(), 'readme-'));
    const dist = JSON.stringify(join(root, 'dist', 'index.js'));
    const blocks = [...read('README.md').matchAll(/```js\n\/\/ (\w+\.mjs)\n([^`]+)```/g)];
    expect(blocks.map(([, name]) => name)).toEqual(['main.mjs']);
    for (const [, name, code] of blocks) {
      writeFileSync(join(folder, name as string), (code as string).replaceAll("'sidecall'", dist));
    }
    const { stdout, stderr, status } = spawnSync(process.execPath, ['main.mjs'], {
      cwd: folder,
      encoding: 'utf8',
    });
    rmSync(folder, { recursive: true });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    const promised = /prints:\n\n```\n([^`]+)```/.exec(read('README.md'))?.[1];
    expect(stdout).toBe(promised);
  });
});

function sessionInHex(text: string): { from: string; bytes: Buffer }[] {
  const steps: { from: string; bytes: Buffer }[] = [];
  for (const [, block] of text.matchAll(/```hex\n([^`]+)```/g)) {
    for (const part of (block as string).split(/(?=[CA]→[CA])/)) {
      const [from, hex] = [part.slice(0, 3), part.slice(3).replace(/\s/g, '')];
      steps.push({ from, bytes: Buffer.from(hex, 'hex') });
    }
  }
  return steps;
}
