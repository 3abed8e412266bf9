// The simulated programs as one file: TypeScript of a checkout, or of a copy with a planted bug,
// made ready for each Node.
import { join } from 'node:path';
import { build } from 'esbuild';
import { root } from './lib.mjs';

/**
 * Bundles `test/simulation/main.ts` of the checkout `from` into `folder`. Returns the file, which
 * finds the addon of `addonFrom`.
 */
export async function bundleSimulation(from, folder, addonFrom = root) {
  const outfile = join(folder, 'simulation.mjs');
  const addon = join(addonFrom, 'build', 'Release', 'sidecall.node');
  await build({
    entryPoints: [join(from, 'test', 'simulation', 'main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    sourcemap: 'inline',
    logLevel: 'error',
    // The addon lies elsewhere than the bundle.
    banner: { js: `process.env.SIDECALL_NATIVE ??= ${JSON.stringify(addon)};` },
  });
  return outfile;
}
