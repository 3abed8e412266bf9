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

bundle(join('cli', 'top', 'terminal.ts'), { platform: 'node', target: 'node20' });

const page = join('cli', 'web', 'page');
const browsers = ['chrome111', 'firefox115', 'safari16.4'];
bundle(join(page, 'page.tsx'), {
  platform: 'browser',
  target: browsers,
  minify: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
});
bundle(join(page, 'page.css'), { target: browsers, minify: true });
copyFileSync(join(root, 'src', page, 'index.html'), join(root, 'dist', page, 'index.html'));

/** Bundles a module with the packages that it imports, and writes their licenses beside it. */
function bundle(module, options) {
  const outfile = join(root, 'dist', module.replace(/\.tsx?$/, '.js'));
  const { metafile } = buildSync({
    ...options,
    entryPoints: [join(root, 'src', module)],
    outfile,
    absWorkingDir: root,
    allowOverwrite: true,
    metafile: true,
    bundle: true,
    format: 'esm',
  });
  const folders = Object.keys(metafile.inputs).flatMap((path) => {
    const [, folder] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    return folder === undefined ? [] : [folder];
  });
  const texts = [...new Set(folders)].sort().map(licenseOf);
  writeFileSync(outfile.replace(/\.(js|css)$/, '.$1.licenses.txt'), texts.join('\n'));
}

/** @throws where a package has no license file: it could not be given on. */
function licenseOf(folder) {
  const path = join(root, folder);
  const { name, version } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const file = readdirSync(path).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) throw new Error(`${name}: no license file`);
  return `${name} ${version}\n\n${readFileSync(join(path, file), 'utf8').trim()}\n`;
}
