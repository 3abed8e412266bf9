// A main process bundled by each of the common bundlers, with the default build of each (Vite and
// tsup leave packages out unless they are told to take them in); run where the package is not
// installed, with the addon beside it.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail } from './lib.mjs';

const packages = [
  ...['esbuild', 'rollup', '@rollup/plugin-node-resolve', '@rollup/plugin-commonjs'],
  ...['tsup', 'typescript@5.9', 'vite', 'webpack', 'webpack-cli'],
];
const app = 'bundlers/app.mjs';
const rollup = ['rollup', app, '-p', 'node-resolve', '-p', 'commonjs', '--silent'];
/** The command of each build, and the bundle that it makes in `out/<name>`. */
const builds = {
  'esbuild-esm': {
    command: ['esbuild', app, '--bundle', '--platform=node', '--format=esm', '--log-level=warning'],
    outfile: '--outfile=',
    file: 'app.mjs',
  },
  'esbuild-cjs': {
    command: ['esbuild', app, '--bundle', '--platform=node', '--log-level=warning'],
    outfile: '--outfile=',
    file: 'app.cjs',
  },
  'rollup-esm': { command: [...rollup, '-f', 'es'], outfile: '--file=', file: 'app.mjs' },
  'rollup-cjs': { command: [...rollup, '-f', 'cjs'], outfile: '--file=', file: 'app.cjs' },
  vite: {
    command: ['vite', 'build', '--ssr', app, '--config', 'bundlers/vite.config.mjs'],
    file: 'app.mjs',
  },
  tsup: {
    command: ['tsup', app, '--config', 'bundlers/tsup.config.mjs'],
    file: 'app.mjs',
  },
  webpack: {
    command: ['webpack', '--config', 'bundlers/webpack.config.cjs'],
    file: 'app.cjs',
    // It copies the addon itself.
    copiesAddon: true,
  },
};

/** Makes each bundle once, and runs it on each Node. */
export function testBundles({ folder, check, npm }, nodes) {
  const tools = join(folder, 'node_modules', '.bin');
  npm(['install', '--no-save', '--ignore-scripts', ...packages], folder);
  for (const [name, build] of Object.entries(builds)) {
    const [tool, ...args] = build.command;
    const file = join('out', name, build.file);
    if (build.outfile !== undefined) args.push(`${build.outfile}${file}`);
    check(`default build by ${name}`, join(tools, tool), args);
    runAlone({ folder, check }, name, build, nodes);
  }
  testLoss({ folder, check }, nodes[0][1]);
  testPage({ folder, check, tools });
}

/** Outside of node_modules, so that only the bundle is loaded. */
function runAlone({ folder, check }, name, { file, copiesAddon }, nodes) {
  const alone = mkdtempSync(join(tmpdir(), 'bundle-'));
  cpSync(join(folder, 'out', name), alone, { recursive: true });
  if (copiesAddon !== true) copyAddon(folder, alone);
  for (const [major, node] of nodes) {
    const what = `bundle by ${name} on Node ${major}`;
    check(what, node, [join(alone, file)], { cwd: alone, says: alone });
  }
  rmSync(alone, { recursive: true });
}

function copyAddon(folder, target) {
  const prebuilds = join(folder, 'node_modules', 'sidecall', 'prebuilds');
  cpSync(prebuilds, join(target, 'prebuilds'), { recursive: true });
}

/** A bundle whose addon was forgotten works over the socket lane, and says so. */
function testLoss({ folder, check }, node) {
  const alone = mkdtempSync(join(tmpdir(), 'bundle-'));
  cpSync(join(folder, 'out', 'esbuild-cjs'), alone, { recursive: true });
  const script = `
    const { spawnSync } = require('node:child_process');
    const { stderr } = spawnSync(process.execPath, [${JSON.stringify(join(alone, 'app.cjs'))}, 'lost'], { encoding: 'utf8' });
    console.log(/SIDECALL_NO_ADDON.*copy "prebuilds"/.test(stderr) ? 'the loss is told' : stderr);`;
  check('a bundle without its addon', node, ['-e', script], { says: 'the loss is told' });
  rmSync(alone, { recursive: true });
}

function testPage({ folder, check, tools }) {
  const page = ['bundlers/page.mjs', '--bundle', '--platform=browser', '--format=esm'];
  check('bundle for a browser', join(tools, 'esbuild'), [...page, '--outfile=out/page.js']);
  const text = readFileSync(join(folder, 'out', 'page.js'), 'utf8');
  const foreign = /\b(process|Buffer|require)\b\s*[.(]/.exec(
    text.replaceAll(/\/\/.*|\/\*[\s\S]*?\*\//g, ''),
  );
  if (foreign !== null) fail(`consumers: the page's bundle uses ${foreign[0]}`);
}
