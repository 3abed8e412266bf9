// SPDX-License-Identifier: MIT
// The only file that loads the addon: on first use, never at import, and without throwing. Without
// the addon helpers still work; functions that need the peer's credentials fail closed.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SidecallError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import type { NativeAddon } from './addon-api.ts';
import {
  carriedFile,
  carriedPlatforms,
  checkoutFile,
  fileBesideBundle,
  installedFile,
  isBundled,
  openAddon,
} from './addon-files.ts';

/** One file that was tried. */
export interface NativeAttempt {
  /**
   * The source that named it: the variable, a build in a checkout of this project, the file that
   * the package carries, a folder `prebuilds` beside a bundle, or the package that is installed for
   * a bundle.
   */
  readonly source: 'SIDECALL_NATIVE' | 'checkout' | 'package' | 'beside-bundle' | 'installed';
  readonly file: string;
  /** Why it is not used; undefined: it is. */
  readonly failure: string | undefined;
}

/** The addon, or why there is none. */
export type NativeState =
  | {
      readonly addon: NativeAddon;
      readonly file: string;
      readonly reason: undefined;
      readonly attempts: readonly NativeAttempt[];
    }
  | {
      readonly addon: undefined;
      readonly file: undefined;
      readonly reason: string;
      readonly attempts: readonly NativeAttempt[];
    };

let state: NativeState | undefined;

/** Loads the addon once per environment. */
export function nativeState(): NativeState {
  state ??= loadFirst();
  return state;
}

/**
 * @throws {SidecallError} `ERR_SIDECALL_ADDON_UNAVAILABLE`, saying what was wanted and why it
 * cannot be had.
 */
export function requireNative(wanted: string): NativeAddon {
  const { addon, reason } = nativeState();
  if (addon !== undefined) return addon;
  throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', `${wanted} needs the addon: ${reason}`);
}

interface Candidate {
  readonly source: NativeAttempt['source'];
  readonly file: string;
}

/** The reason where the program wants no addon. */
export const switchedOff = 'SIDECALL_NATIVE=off switches it off';

/** The oldest Node that the package runs on. Electron does not look at `engines` of a package. */
const nodeMin = [20, 19] as const;

function loadFirst(): NativeState {
  const override = process.env.SIDECALL_NATIVE || undefined;
  if (override === 'off') return missing(switchedOff, []);
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < nodeMin[0] || (major === nodeMin[0] && minor < nodeMin[1])) {
    return missing(
      `this is Node ${process.versions.node}, at least ${nodeMin.join('.')} is needed`,
      [],
    );
  }
  const platform = platformName();
  if (override === undefined && !carriedPlatforms.includes(platform)) {
    const text = `the package carries none for ${platform}, only for ${carriedPlatforms.join(', ')}`;
    if (checkoutFile() === undefined) return missing(text, []);
  }
  const attempts: NativeAttempt[] = [];
  for (const { source, file } of candidates(override, platform)) {
    const { addon, failure } = tryOpen(file);
    attempts.push({ source, file, failure });
    if (addon !== undefined) return { addon, file, reason: undefined, attempts };
  }
  const reasons = attempts.map(({ file, failure }) => `${file}: ${failure}`);
  if (override === undefined && isBundled()) reasons.push(bundleHint);
  return missing(reasons.join('; '), attempts);
}

const bundleHint =
  'in a bundle, copy "prebuilds" of the package beside it, or leave sidecall out of it (docs/guide/bundlers.md)';

/** The files to try, in this order, each once. */
function candidates(override: string | undefined, platform: string): readonly Candidate[] {
  if (override !== undefined) return [{ source: 'SIDECALL_NATIVE', file: resolve(override) }];
  const places = [
    ['checkout', checkoutFile()],
    ['package', carriedFile(platform)],
    ['beside-bundle', isBundled() ? fileBesideBundle(platform) : undefined],
    ['installed', isBundled() ? installedFile(platform) : undefined],
  ] as const;
  return places.flatMap(([source, file]) => (file === undefined ? [] : [{ source, file }]));
}

// The functions are copied: V8 keeps the properties of an addon's exports in a dictionary, in which
// it looks for each call (docs/adr/0040-getters-and-dictionaries.md).
function tryOpen(file: string): {
  addon: NativeAddon | undefined;
  failure: string | undefined;
} {
  if (!existsSync(file)) return { addon: undefined, failure: 'there is no such file' };
  try {
    const addon = openAddon(file) as NativeAddon;
    if (typeof addon?.peerCredentials !== 'function' || typeof addon.openRing !== 'function') {
      return { addon: undefined, failure: 'it is no addon of sidecall' };
    }
    if (addon.version === version) return { addon: { ...addon }, failure: undefined };
    return {
      addon: undefined,
      failure: `it is of version ${addon.version}, this package is ${version}`,
    };
  } catch (error) {
    return { addon: undefined, failure: whyNot(error) };
  }
}

function missing(reason: string, attempts: readonly NativeAttempt[]): NativeState {
  return { addon: undefined, file: undefined, reason, attempts };
}

function whyNot(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  if (code === 'ERR_DLOPEN_DISABLED')
    return 'Node was told to load no addons: by --no-addons, or by --permission without --allow-addons';
  return message.split('\n')[0] as string;
}

/** Platform, architecture and C library. A glibc file loaded on musl fails late and strangely. */
export function platformName(): string {
  const libc = process.platform === 'linux' && !hasGlibc() ? '-musl' : '';
  return `${process.platform}-${process.arch}${libc}`;
}

/** The diagnostic report of Node; undefined on hosts that have none. */
export function processReport(): { readonly [part: string]: unknown } | undefined {
  const report = process.report as
    | (typeof process.report & { excludeNetwork?: boolean })
    | undefined;
  if (report === undefined) return undefined;
  // Without this it may wait for DNS.
  const before = report.excludeNetwork ?? false;
  report.excludeNetwork = true;
  const told = report.getReport() as { readonly [part: string]: unknown };
  report.excludeNetwork = before;
  return told;
}

function hasGlibc(): boolean {
  const report = processReport() as { header: { glibcVersionRuntime?: string } } | undefined;
  return report === undefined || report.header.glibcVersionRuntime !== undefined;
}
