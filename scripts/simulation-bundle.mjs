// The simulated programs as one file: TypeScript of the checkout, or with the text of some sources
// changed, made ready for each Node.
import { join } from 'node:path';
import { build } from 'esbuild';
import { root } from './lib.mjs';

/**
 * Bundles `test/simulation/main.ts` of the checkout `from` into `folder`, with the addon of the
 * checkout `addonFrom`. `sources`: texts in place of files, by their paths. Returns the file.
 */
export async function bundleSimulation(
  from,
  folder,
  { addonFrom = root, sources = new Map() } = {},
) {
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
    plugins: [{ name: 'changed sources', setup: (making) => replaceSources(making, sources) }],
  });
  return outfile;
}

function replaceSources(making, sources) {
  making.onLoad({ filter: /[.]ts$/ }, ({ path }) => {
    const contents = sources.get(path);
    return contents === undefined ? undefined : { contents, loader: 'ts' };
  });
}
