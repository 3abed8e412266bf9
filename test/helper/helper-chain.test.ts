// Programs that start themselves as helpers, again and again, and honest ones that look like it.
import { spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { refuseChain } from '../../src/helper/helper-chain.ts';
import { scratchDirectory } from '../support/programs.ts';

const built = JSON.stringify(new URL('../../dist/index.js', import.meta.url).href);

/** Runs main.mjs of these modules. Each of them writes a line into `started`. */
function run(modules: Record<string, string>): { started: number; stderr: string; stdout: string } {
  using scratch = scratchDirectory();
  const started = scratch.file('started');
  writeFileSync(started, '');
  for (const [name, code] of Object.entries(modules)) {
    writeFileSync(
      scratch.file(name),
      `import { appendFileSync } from 'node:fs';
      import { parent, spawnHelper } from ${built};
      appendFileSync(${JSON.stringify(started)}, '.');
      const url = (name) => new URL(name, import.meta.url);
      ${code}`,
    );
  }
  symlinkSync(scratch.file('main.mjs'), scratch.file('link.mjs'));
  // A helper that waits for the start of another one is silent for a while.
  const main = ['--disable-warning=SIDECALL_HELPER_SILENT', scratch.file('main.mjs')];
  const { stderr, stdout } = spawnSync(process.execPath, main, { encoding: 'utf8' });
  return { started: readFileSync(started, 'latin1').length, stderr, stdout };
}

describe('a program that starts itself as its helper', () => {
  it.each([
    ['by its URL', 'await spawnHelper(new URL(import.meta.url));'],
    ['by its path', 'await spawnHelper(process.execPath, [process.argv[1]]);'],
    ['with arguments', "await spawnHelper(url('main.mjs'), ['more'], { restart: true });"],
    ['by a link', "await spawnHelper(url('link.mjs'));"],
    [
      'in a folder',
      "await spawnHelper(process.execPath, ['main.mjs'], { cwd: url('.').pathname });",
    ],
  ])('%s is refused at its second level, and says what to do', (_, code) => {
    const { started, stderr } = run({ 'main.mjs': code });
    expect(started).toBe(2);
    expect(stderr).toContain('this helper would start its own program');
    expect(stderr).toContain('looks at process.env.SIDECALL_FD');
  });

  it('over another program is refused after a few', () => {
    const { started, stderr } = run({
      'main.mjs': "await spawnHelper(url('other.mjs'));",
      'other.mjs': "await spawnHelper(url('main.mjs'));",
    });
    expect(started).toBe(5);
    expect(stderr).toContain('4 helpers have started one another');
  });
});

describe('an honest helper', () => {
  it('starts helpers before its parent(), and its own program after it', () => {
    const { started, stderr, stdout } = run({
      'main.mjs': `if (process.env.SIDECALL_FD === undefined) {
          const helper = await spawnHelper(new URL(import.meta.url));
          console.log('main has', helper.session.state);
          await helper.exited;
        } else {
          const other = await spawnHelper(url('other.mjs'));
          console.log('helper has', other.session.state);
          const session = await parent();
          if (process.argv[2] !== 'last') {
            const again = await spawnHelper(new URL(import.meta.url), ['last']);
            console.log('its own program is', again.session.state);
            await again.stop();
          }
          await other.stop();
          await session.close();
        }`,
      'other.mjs': 'await parent();',
    });
    expect(stderr).toBe('');
    expect(stdout.match(/helper has open/g)).toHaveLength(2);
    expect(stdout).toContain('main has open');
    expect(stdout).toContain('its own program is open');
    expect(started).toBe(5);
  });
});

describe('an Electron app without its fuse runAsNode', () => {
  it('that was started in place of a helper starts none', () => {
    vi.stubEnv('SIDECALL_FD', '3');
    vi.stubEnv('ELECTRON_RUN_AS_NODE', '1');
    Object.assign(process, { type: 'browser' });
    try {
      const started = { command: '/app', args: [], cwd: undefined, env: {} };
      expect(() => refuseChain(started)).toThrow(/its fuse runAsNode forbids/);
      vi.stubEnv('SIDECALL_FD', undefined);
      expect(() => refuseChain(started)).not.toThrow();
    } finally {
      Reflect.deleteProperty(process, 'type');
      vi.unstubAllEnvs();
    }
  });
});
