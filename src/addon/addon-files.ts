// SPDX-License-Identifier: MIT
// The places where a file of the addon may lie: in the package, beside a bundle, or in the package
// that is installed for a bundle. The list of files is literal `new URL()`, which webpack and file
// tracers follow, and which other bundlers leave alone: so a default build of each succeeds.

import { existsSync } from 'node:fs';
import nodeModule from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Set in a bundle that is CommonJS; `import.meta.url` is empty there.
declare const __filename: string | undefined;

// Not by its name: webpack evaluates the argument of createRequire() at build time, and warns.
const { createRequire: requireOf } = nodeModule;

/** The files that the package carries, by platform. */
const carried: { readonly [platform: string]: () => URL } = {
  'linux-x64': () => new URL('../../prebuilds/linux-x64/sidecall.node', import.meta.url),
  'linux-arm64': () => new URL('../../prebuilds/linux-arm64/sidecall.node', import.meta.url),
  'linux-x64-musl': () => new URL('../../prebuilds/linux-x64-musl/sidecall.node', import.meta.url),
  'linux-arm64-musl': () =>
    new URL('../../prebuilds/linux-arm64-musl/sidecall.node', import.meta.url),
  'darwin-x64': () => new URL('../../prebuilds/darwin-x64/sidecall.node', import.meta.url),
  'darwin-arm64': () => new URL('../../prebuilds/darwin-arm64/sidecall.node', import.meta.url),
};

/** The platforms that the package carries an addon for. */
export const carriedPlatforms: readonly string[] = Object.keys(carried);

/** The file of this module, or of the bundle that it is in; undefined where neither is known. */
function ownFile(): string | undefined {
  const url = import.meta.url as string | undefined;
  if (url?.startsWith('file:')) return fileURLToPath(url);
  return typeof __filename === 'string' ? __filename : undefined;
}

/**
 * The file that the package carries for `platform`, or the copy that the bundler made of it;
 * undefined in a bundle whose bundler left the path alone: it leads out of the bundle's folder, to
 * where others may put files.
 */
export function carriedFile(platform: string): string | undefined {
  try {
    const file = fileURLToPath((carried[platform] as () => URL)());
    const isLeftAlone = file.endsWith(join('prebuilds', platform, 'sidecall.node'));
    return isLeftAlone && isBundled() ? undefined : file;
  } catch {
    return undefined;
  }
}

/** Is this module part of a bundle? The files of the package then lie elsewhere. */
export function isBundled(): boolean {
  const own = ownFile();
  if (own === undefined) return true;
  // A file of the package that no bundler takes, beside the folder of this module.
  return !existsSync(join(dirname(own), '..', 'cli', `self-test-helper${extname(own)}`));
}

/** The file in a folder `prebuilds` that was copied beside the bundle. */
export function fileBesideBundle(platform: string): string | undefined {
  const own = ownFile();
  return own && join(dirname(own), 'prebuilds', platform, 'sidecall.node');
}

/** The file in the package that the bundle would import, were sidecall not in it. */
export function installedFile(platform: string): string | undefined {
  try {
    const manifest = requireOf(ownFile() as string).resolve('sidecall/package.json');
    return join(dirname(manifest), 'prebuilds', platform, 'sidecall.node');
  } catch {
    return undefined;
  }
}

/** The addon that a checkout of the project builds; undefined where there is none. */
export function checkoutFile(): string | undefined {
  const own = ownFile();
  if (own === undefined || isBundled()) return undefined;
  const file = join(dirname(own), '..', '..', 'build', 'Release', 'sidecall.node');
  return existsSync(file) ? file : undefined;
}

/** Opens a file of the addon. @throws what require() throws. */
export function openAddon(file: string): unknown {
  return requireOf(file)(file);
}
