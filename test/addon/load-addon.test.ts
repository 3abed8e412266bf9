// The choice of the addon that is loaded, and the error where there is none.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { describe, expect, it } from 'vitest';
import { nativeState } from '../../src/addon/load-addon.ts';
import { scratchDirectory } from '../support/programs.ts';

const root = resolve(import.meta.dirname, '../..');
const built = join(root, 'build', 'Release', 'sidecall.node');

interface Told {
  readonly addon: boolean;
  readonly addonFile?: string;
  readonly addonReason?: string;
}

/** The result of `capabilities()` in a process of its own; `before` is run before the import. */
function ask(
  options: { native?: string; before?: string; package?: string; flags?: string[] } = {},
): Told {
  const index = join(options.package ?? root, 'dist', 'index.js');
  const code = `${options.before ?? ''};
    const { capabilities } = await import(${JSON.stringify(index)});
    console.log(JSON.stringify(capabilities()));`;
  const env = { ...process.env, SIDECALL_NATIVE: options.native ?? '' };
  const flags = [...(options.flags ?? []), '--input-type=module', '-e', code];
  const { stdout, stderr } = spawnSync(process.execPath, flags, { encoding: 'utf8', env });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

/** The package without a build of its own, and with the prebuilds that are given. */
function installed(folder: string, prebuilds: Record<string, string>): string {
  cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true });
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  for (const [platform, file] of Object.entries(prebuilds)) {
    mkdirSync(join(folder, 'prebuilds', platform), { recursive: true });
    cpSync(file, join(folder, 'prebuilds', platform, 'sidecall.node'));
  }
  return folder;
}

describe('the loader', () => {
  it('takes the build of a checkout before the prebuilds', () => {
    expect(ask()).toMatchObject({ addon: true, addonFile: built });
  });

  it('takes the prebuild of this platform where the package was installed', () => {
    using scratch = scratchDirectory();
    const name = `${process.platform}-${process.arch}`;
    const told = ask({ package: installed(scratch.path, { [name]: built }) });
    expect(told).toMatchObject({
      addon: true,
      addonFile: join(scratch.path, 'prebuilds', name, 'sidecall.node'),
    });
  });

  it('names what it tried where nothing fits', () => {
    using scratch = scratchDirectory();
    const told = ask({ package: installed(scratch.path, {}) });
    expect(told).toEqual(expect.objectContaining({ addon: false }));
    expect(told.addonReason).toBe(
      `${join(scratch.path, 'prebuilds', `${process.platform}-${process.arch}`, 'sidecall.node')}: there is no such file`,
    );
  });

  it('names every file that it tried', () => {
    using scratch = scratchDirectory();
    const home = installed(scratch.path, {});
    const stale = join(home, 'build', 'Release', 'sidecall.node');
    mkdirSync(join(home, 'build', 'Release'), { recursive: true });
    writeFileSync(stale, 'no addon');
    const { addonReason } = ask({ package: home });
    expect(addonReason).toContain(`${stale}: `);
    expect(addonReason).toContain(`; ${join(home, 'prebuilds')}`);
  });

  it('takes a musl file on musl only', () => {
    using scratch = scratchDirectory();
    const home = installed(scratch.path, { [`linux-${process.arch}`]: built });
    const before = 'process.report.getReport = () => ({ header: {} })';
    const { addon, addonReason } = ask({ package: home, before });
    expect(addon).toBe(false);
    expect(addonReason).toContain(`prebuilds/linux-${process.arch}-musl/sidecall.node: there is`);
  });

  it('says which platforms there are, on another one', () => {
    using scratch = scratchDirectory();
    const before = "Object.defineProperty(process, 'platform', { value: 'win32' })";
    const { addon, addonReason } = ask({ package: installed(scratch.path, {}), before });
    expect(addon).toBe(false);
    expect(addonReason).toContain(`the package carries none for win32-${process.arch}, only for`);
    expect(addonReason).toContain('darwin-arm64');
  });

  it('refuses a Node that is too old, as an Electron app may have', () => {
    const before = "Object.defineProperty(process.versions, 'node', { value: '20.18.3' })";
    const { addon, addonReason } = ask({ before });
    expect(addon).toBe(false);
    expect(addonReason).toBe('this is Node 20.18.3, at least 20.19 is needed');
  });

  it('does without addons where Node was told so', () => {
    const { addon, addonReason } = ask({ flags: ['--no-addons'] });
    expect(addon).toBe(false);
    expect(addonReason).toContain('--allow-addons');
  });
});

describe('SIDECALL_NATIVE', () => {
  it('names another file, and nothing else is tried', () => {
    using scratch = scratchDirectory();
    const mine = scratch.file('mine.node');
    cpSync(built, mine);
    expect(ask({ native: mine })).toMatchObject({ addon: true, addonFile: mine });
    const absent = scratch.file('absent.node');
    const { addon, addonReason } = ask({ native: absent });
    expect(addon).toBe(false);
    expect(addonReason).toBe(`${absent}: there is no such file`);
  });

  it('of another version is refused with both versions', () => {
    using scratch = scratchDirectory();
    const other = scratch.file('other.cjs');
    const parts = 'exports.peerCredentials = exports.openRing = () => {}';
    writeFileSync(other, `${parts}; exports.version = '9.8.7';`);
    expect(ask({ native: other }).addonReason).toMatch(
      /of version 9\.8\.7, this package is \d+\.\d+\.\d+$/,
    );
  });

  it('that names something else is refused', () => {
    const file = join(root, 'package.json');
    expect(ask({ native: file }).addonReason).toBe(`${file}: it is no addon of sidecall`);
  });

  it('off is off', () => {
    expect(ask({ native: 'off' })).toMatchObject({
      addon: false,
      addonReason: 'SIDECALL_NATIVE=off switches it off',
    });
  });
});

it('the functions of the addon are in an object that optimized code looks into', () => {
  setFlagsFromString('--allow-natives-syntax');
  const isFast = new Function('object', 'return %HasFastProperties(object)');
  expect(isFast(nativeState().addon)).toBe(true);
});
