// The suites of tests: `npm test` needs no tool but those that CONTRIBUTING.md names, no test falls
// out of all of them, and a page says when each has run.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

interface Suite {
  readonly finds: string;
  readonly needs: readonly string[];
  readonly files?: readonly string[];
  readonly inputs?: readonly string[];
}

const suites: Record<string, Suite> = JSON.parse(read('scripts/suites.json'));
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => `test/${name}`)
  .filter((name) => name.endsWith('.test.ts'));

function filesOf({ files: globs = [] }: Suite): string[] {
  const patterns = globs.map((glob) => {
    const parts = glob.split('**/').map((part) => part.replaceAll('*', '[^/]*'));
    return new RegExp(`^${parts.join('(.*/)?')}$`);
  });
  return files.filter((name) => patterns.some((pattern) => pattern.test(name)));
}

describe('the suites', () => {
  it.each(Object.entries(suites))('%s is a command, and is in the gate or the long run', (name) => {
    expect(scripts).toHaveProperty(name);
  });

  it('are all commands that test', () => {
    const names = Object.keys(scripts).filter((name) => /^(test|sim|check)/.test(name));
    // Parts of `npm test`.
    const parts = ['test:js', 'test:native', 'test:watch'];
    expect(Object.keys(suites)).toEqual(
      expect.arrayContaining(names.filter((name) => !parts.includes(name))),
    );
  });

  it('have each test once', () => {
    const taken = Object.values(suites).flatMap(filesOf);
    expect(new Set(taken).size).toBe(taken.length);
    for (const suite of Object.values(suites)) {
      for (const glob of suite.files ?? []) {
        expect(filesOf({ ...suite, files: [glob] }).length, glob).toBeGreaterThan(0);
      }
    }
  });

  it('say what is missing, and what to do, in one line', () => {
    const args = [join(root, 'scripts', 'test-suite.mjs'), 'test:wireshark'];
    const env = { PATH: '' };
    const { stderr, status } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
    expect(stderr).toBe('test:wireshark needs tshark: apt-get install tshark\n');
    expect(status).toBe(1);
  });

  it('are on the page of the long run', () => {
    const args = [join(root, 'scripts', 'long-run.mjs'), '--print'];
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(read('docs/testing/long-run.md')).toBe(stdout);
    for (const name of Object.keys(suites)) expect(stdout).toContain(`\`npm run ${name}\``);
  });
});

describe('npm test', () => {
  const elsewhere = new Set(Object.values(suites).flatMap(filesOf));

  it.each(files.filter((name) => !elsewhere.has(name) && name !== 'test/suites.test.ts'))(
    'needs no other tool, and no other user, for %s',
    (name) => {
      const text = read(name);
      expect(text).not.toMatch(
        /'(chromium|clang|mount|openssl|prlimit|redis-cli|redis-server|script|strace|tshark|unshare)'[,\])]/,
      );
      expect(text).not.toMatch(/support\/(users|chromium)\.|requireRoot\(/);
    },
  );
});

describe('the gate', () => {
  it('calls the two commands of the README', () => {
    for (const command of ['npm ci && npm run demo', 'npm test']) {
      expect(read('README.md')).toContain(command);
      expect(read('scripts/test-newcomer.mjs')).toContain(command);
    }
    expect(read('.ci/run')).toContain('npm run test:newcomer');
  });
});
