// `npm run package` and `npm run release` in a copy of what they read: what they refuse, and what
// they make. `npm pack` and `npm publish` of a checkout are refused, since no addon would be in it.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scratchDirectory } from '../support/programs.ts';

const root = new URL('../../', import.meta.url);
// By its address, since scripts have no types.
const { platforms } = (await import(new URL('scripts/lib.mjs', root).href)) as {
  platforms: readonly string[];
};
const manifestOf = (text: string) => JSON.parse(text) as Record<string, unknown>;
const { version } = manifestOf(readFileSync(new URL('package.json', root), 'utf8')) as {
  version: string;
};

/** A checkout whose files are committed, with built files and addons that are texts. */
function checkout() {
  const folder = scratchDirectory();
  const inRoot = (path: string) => new URL(path, root);
  for (const path of ['package.json', 'package-lock.json', 'README.md', 'LICENSE', 'scripts']) {
    cpSync(inRoot(path), folder.file(path), { recursive: true });
  }
  for (const path of ['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'src/base/version.ts']) {
    cpSync(inRoot(path), folder.file(path));
  }
  for (const path of ['dist/cli', 'docs', 'examples', 'tools/wireshark']) {
    mkdirSync(folder.file(path), { recursive: true });
  }
  writeFileSync(folder.file('dist/cli/main.js'), `console.log('${version}');\n`);
  for (const platform of platforms) {
    mkdirSync(folder.file(`prebuilds/${platform}`), { recursive: true });
    writeFileSync(folder.file(`prebuilds/${platform}/sidecall.node`), `addon ${version}`);
  }
  writeFileSync(folder.file('.gitignore'), 'build\ndist\nprebuilds\n');
  const run = (command: string, ...args: string[]) => {
    const ended = spawnSync(command, args, { cwd: folder.path, encoding: 'utf8' });
    return { status: ended.status, text: `${ended.stdout}${ended.stderr}` };
  };
  for (const args of [
    ['init', '--quiet', '--initial-branch', 'main'],
    ['config', 'user.name', 'A Tester'],
    ['config', 'user.email', 'tester@example.invalid'],
    ['add', '.'],
    ['commit', '--quiet', '--message', 'Begin'],
  ]) {
    expect(run('git', ...args)).toEqual({ status: 0, text: '' });
  }
  const read = (path: string) => readFileSync(folder.file(path), 'utf8');
  const write = (path: string, text: string) => writeFileSync(folder.file(path), text);
  const script = (name: string, ...args: string[]) => run('node', `scripts/${name}.mjs`, ...args);
  return { folder, run, read, write, script, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

/** The version after this one: 1.2.3 is followed by 1.3.0. */
function following(of: string): string {
  const [major = 0, minor = 0] = of.split('.').map(Number);
  return `${major}.${minor + 1}.0`;
}

describe('npm run package', () => {
  it('makes a package that has addons, sources of help, and no scripts', () => {
    using copy = checkout();
    const made = copy.script('package');
    expect(made.text).toContain(`build/sidecall-${version}.tgz`);
    expect(made.status).toBe(0);
    const shipped = manifestOf(copy.read('build/package/package.json'));
    for (const key of ['repository', 'bugs', 'homepage', 'author', 'license']) {
      expect(shipped).toHaveProperty(key);
    }
    for (const key of ['scripts', 'devDependencies', 'dependencies']) {
      expect(shipped).not.toHaveProperty(key);
    }
    const packed = copy.run('tar', 'tzf', `build/sidecall-${version}.tgz`).text;
    for (const platform of platforms) {
      expect(packed).toContain(`package/prebuilds/${platform}/sidecall.node\n`);
    }
  });

  it('refuses without the addon of a platform, and names it', () => {
    using copy = checkout();
    copy.run('rm', '-r', 'prebuilds/linux-arm64', 'prebuilds/darwin-x64');
    const { status, text } = copy.script('package');
    expect(text).toContain('no addon for darwin-x64, linux-arm64: "npm run prebuilds"');
    expect(status).toBe(1);
  });

  it('refuses an addon and a build of another version', () => {
    using copy = checkout();
    copy.write('prebuilds/linux-x64/sidecall.node', 'addon 0.0.1');
    copy.write('dist/cli/main.js', "console.log('0.0.1');\n");
    const { status, text } = copy.script('package');
    expect(text).toContain(`the addon for linux-x64 is not of version ${version}`);
    expect(text).toContain(`dist is not of version ${version}: "npm run build:ts"`);
    expect(status).toBe(1);
  });

  it('refuses a release whose section of the changelog has no date', () => {
    using copy = checkout();
    const section = `## ${version} (unreleased)`;
    copy.write('CHANGELOG.md', `# Changelog\n\n${section}\n\nThe first.\n`);
    expect(copy.script('package', '--check')).toMatchObject({ status: 0 });
    const { status, text } = copy.script('package', '--check', '--release');
    expect(text).toContain('CHANGELOG.md has no section');
    expect(status).toBe(1);
    copy.write('CHANGELOG.md', `# Changelog\n\n## ${version} (2026-01-31)\n\nThe first.\n`);
    expect(copy.script('package', '--check', '--release')).toMatchObject({ status: 0 });
  });

  it.each([['pack'], ['publish', '--dry-run']])(
    'is what npm %s of a checkout asks for',
    (...args) => {
      using copy = checkout();
      const { status, text } = copy.run('npm', ...args);
      expect(text).toContain('"npm run package" makes the package in build/package');
      expect(status).not.toBe(0);
    },
  );
});

describe('npm run release', () => {
  it('sets the version in each place, dates the changelog, commits and tags', () => {
    using copy = checkout();
    const next = following(version);
    copy.write('CHANGELOG.md', '# Changelog\n\n## Next (unreleased)\n\nMore.\n');
    copy.run('git', 'commit', '--quiet', '--all', '--message', 'Tell of more');
    const { status, text } = copy.script('release', next);
    expect(text).toContain(`${version} → ${next}`);
    expect(status).toBe(0);
    expect(manifestOf(copy.read('package.json')).version).toBe(next);
    const lock = manifestOf(copy.read('package-lock.json')) as {
      version: string;
      packages: Record<string, { version: string }>;
    };
    expect([lock.version, lock.packages['']?.version]).toEqual([next, next]);
    expect(copy.read('src/base/version.ts')).toContain(`'${next}'`);
    expect(copy.read('CHANGELOG.md')).toMatch(
      new RegExp(`^## ${next} \\(\\d{4}-\\d\\d-\\d\\d\\)$`, 'm'),
    );
    expect(copy.run('git', 'status', '--porcelain').text).toBe('');
    expect(copy.run('git', 'tag', '--points-at', 'HEAD').text).toBe(`v${next}\n`);
  });

  it('changes nothing in a dry run', () => {
    using copy = checkout();
    const before = copy.run('git', 'log', '--oneline').text;
    expect(copy.script('release', following(version), '--dry-run')).toMatchObject({ status: 0 });
    expect(copy.run('git', 'status', '--porcelain').text).toBe('');
    expect(copy.run('git', 'log', '--oneline').text).toBe(before);
    expect(copy.run('git', 'tag', '--list').text).toBe('');
  });

  it('refuses what is not a version, a lower version, a tag that exists, open changes', () => {
    using copy = checkout();
    const refusal = (...args: string[]) => {
      const { status, text } = copy.script('release', ...args);
      expect(status).toBe(1);
      return text;
    };
    expect(refusal()).toContain('usage: npm run release');
    expect(refusal('next')).toContain('usage: npm run release');
    expect(refusal('1.2.3', '--dry')).toContain("'--dry'");
    expect(refusal('0.0.1')).toContain(`0.0.1 is lower than ${version}`);
    const next = following(version);
    copy.run('git', 'tag', `v${next}`);
    expect(refusal(next)).toContain(`the tag v${next} exists`);
    copy.run('git', 'tag', '--delete', `v${next}`);
    copy.write('README.md', 'changed');
    expect(refusal(next)).toContain('changes that are not committed');
    copy.run('git', 'checkout', '--', 'README.md');
    copy.write('CHANGELOG.md', `# Changelog\n\n## ${version} (2026-01-31)\n`);
    copy.run('git', 'commit', '--quiet', '--all', '--message', 'Date it');
    expect(refusal(next)).toContain('no section "(unreleased)"');
    expect(copy.run('git', 'status', '--porcelain').text).toBe('');
  });
});
