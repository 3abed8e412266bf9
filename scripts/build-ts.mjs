// Compiles src/ to an emptied dist/, so that no output of a renamed file remains. The library that
// draws on the terminal is bundled, since the package has no dependencies.
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { root, run } from './lib.mjs';

rmSync(join(root, 'dist'), { recursive: true, force: true });
run(process.execPath, [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '-p',
  'tsconfig.build.json',
]);
const preload = join('adapters', 'electron', 'preload.cjs');
copyFileSync(join(root, 'src', preload), join(root, 'dist', preload));

bundle(join('cli', 'top', 'terminal'));

/** Bundles a module with the packages that it imports, and writes their licenses beside it. */
function bundle(module) {
  const outfile = join(root, 'dist', `${module}.js`);
  const { metafile } = buildSync({
    entryPoints: [join(root, 'src', `${module}.ts`)],
    outfile,
    absWorkingDir: root,
    allowOverwrite: true,
    metafile: true,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
  });
  const folders = Object.keys(metafile.inputs).flatMap((path) => {
    const [, folder] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    return folder === undefined ? [] : [folder];
  });
  const texts = [...new Set(folders)].sort().map(licenseOf);
  writeFileSync(outfile.replace(/\.js$/, '.licenses.txt'), texts.join('\n'));
}

/** @throws where a package has no license file: it could not be given on. */
function licenseOf(folder) {
  const path = join(root, folder);
  const { name, version } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const file = readdirSync(path).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) throw new Error(`${name}: no license file`);
  return `${name} ${version}\n\n${readFileSync(join(path, file), 'utf8').trim()}\n`;
}
