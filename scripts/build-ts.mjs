// Builds dist/, emptied before, so that no output of a renamed file remains: the modules of each
// entry of the package in few files, since Node takes half a millisecond for each file that it
// loads, and the declarations file by file. Packages that draw on the terminal and in the page are
// bundled, since the package has no dependencies.
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { rolldown } from 'rolldown';
import { root, run } from './lib.mjs';

const source = (module) => join(root, 'src', module);
const { exports, bin, peerDependencies } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
);
/** Modules that pages import: these and their imports need no Node. */
const ofPages = ['browser.ts', 'adapters/electron/renderer.ts'];
/** Adapters for which the contracts and the errors of the package are enough. */
const ofAdapters = ['protobuf', 'protobuf-es', 'ts-proto', 'jsonrpc', 'otel', 'electron/main'].map(
  (name) => `adapters/${name}.ts`,
);
/** Modules that are started, or imported where they are first needed. */
const others = ['commands.ts', 'self-test-helper.ts', 'top/terminal.ts', 'web/web.ts'].map(
  (name) => `cli/${name}`,
);
/** Modules that our benchmarks and the programs of tests look into: not part of the package. */
const internals = [
  ...[
    'addon/load-addon',
    'loop/event-loop',
    'open/configure',
    'open/thread-recorder',
    'rpc/contract/json',
  ],
  ...['rpc/sending/credit', 'shm/poll-budget', 'shm/ring'],
  ...['wire/frame-decoder', 'wire/frame-header', 'wire/recorder-layout'],
].map((name) => `${name}.ts`);

rmSync(join(root, 'dist'), { recursive: true, force: true });
run(process.execPath, [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '-p',
  'tsconfig.build.json',
]);
const output = await bundlePackage();
// Programs that measure the ring from outside find the addon by the name of its source.
const ofSource = "export * from '../internal/addon/load-addon.js';\n";
writeFileSync(join(root, 'dist', 'addon', 'load-addon.js'), ofSource);
const preload = join('adapters', 'electron', 'preload.cjs');
copyFileSync(join(root, 'src', preload), join(root, 'dist', preload));

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
checkPaths(output);

/** The entries of package.json, and what they share: for pages, for adapters, and the rest. */
async function bundlePackage() {
  const files = Object.values(exports).flatMap(({ browser, default: file }) => [browser, file]);
  const entries = [...files, bin.sidecall]
    .filter(Boolean)
    .map((file) => file.replace('./dist/', '').replace(/js$/, 'ts'));
  const modules = [...new Set([...entries, ...others, ...internals])];
  const making = await rolldown({
    cwd: root,
    input: Object.fromEntries(modules.map((name) => [outputOf(name), source(name)])),
    platform: 'node',
    external: Object.keys(peerDependencies).map((name) => new RegExp(`^${name}(/|$)`)),
    transform: { target: 'node20' },
    preserveEntrySignatures: 'allow-extension',
  });
  const isEntry = new Set(modules.filter((name) => !internals.includes(name)).map(source));
  const shared = [];
  /** The name of the file that a module is put into; undefined: where it is needed. */
  const fileOf = (id, context) => {
    if (shared.length === 0) {
      for (const [name, from] of [
        ['page', ofPages],
        ['contract', [...ofPages, ...ofAdapters]],
        ['core', ['index.ts']],
      ]) {
        shared.push({ name, modules: reachedFrom(from.map(source), context) });
      }
    }
    if (isEntry.has(id)) return undefined;
    const [page, contract, core] = shared;
    if (page.modules.has(id)) return page.name;
    if (!core.modules.has(id)) return undefined;
    return contract.modules.has(id) ? contract.name : core.name;
  };
  const { output } = await making.write({
    dir: join(root, 'dist'),
    format: 'esm',
    comments: { legal: false, annotation: true, jsdoc: false },
    // As deep as addon/ is in src/: the addon is found from there.
    chunkFileNames: 'chunks/[name].js',
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ name: fileOf, debugName: 'shared' }],
    },
  });
  await making.close();
  for (const { fileName, moduleIds = [] } of output) writeLicenses(fileName, moduleIds);
  return output;
}

/** @throws where a file of the package that a module names is not there: it was put elsewhere. */
function checkPaths(output) {
  for (const { fileName, code } of output) {
    for (const [, path] of code.matchAll(/new URL\("([^"]+)", import\.meta\.url\)/g)) {
      const target = join(root, 'dist', fileName, '..', path);
      // Addons are built by another command.
      if (existsSync(target) || target.startsWith(join(root, 'prebuilds'))) continue;
      throw new Error(`dist/${fileName} names ${path}, which is not there`);
    }
  }
}

/** The file of an entry in dist/, without its ending. */
function outputOf(module) {
  const name = module.replace(/\.ts$/, '');
  return internals.includes(module) ? `internal/${name}` : name;
}

/** These modules and their imports. */
function reachedFrom(ids, context, seen = new Set()) {
  for (const id of ids) {
    if (seen.has(id)) continue;
    seen.add(id);
    reachedFrom(context.getModuleInfo(id)?.importedIds ?? [], context, seen);
  }
  return seen;
}

/** Bundles a module of the page, with the packages that it imports. */
function bundle(module, options) {
  const output = module.replace(/\.tsx?$/, '.js');
  const { metafile } = buildSync({
    ...options,
    entryPoints: [source(module)],
    outfile: join(root, 'dist', output),
    absWorkingDir: root,
    allowOverwrite: true,
    metafile: true,
    bundle: true,
    format: 'esm',
  });
  writeLicenses(output, Object.keys(metafile.inputs), true);
}

/** Writes the licenses of the packages whose modules a file has, beside it. */
function writeLicenses(file, modules, isAlways = false) {
  const folders = modules.flatMap((path) => {
    const [, folder] = /(node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    return folder === undefined ? [] : [folder];
  });
  const texts = [...new Set(folders)].sort().map(licenseOf);
  if (texts.length === 0 && !isAlways) return;
  const path = join(root, 'dist', file.replace(/\.(js|css)$/, '.$1.licenses.txt'));
  writeFileSync(path, texts.join('\n'));
}

/** @throws where a package has no license file: it could not be given on. */
function licenseOf(folder) {
  const path = join(root, folder);
  const { name, version } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const file = readdirSync(path).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) throw new Error(`${name}: no license file`);
  return `${name} ${version}\n\n${readFileSync(join(path, file), 'utf8').trim()}\n`;
}
