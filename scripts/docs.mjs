// npm run docs: builds docs/ into site/dist, as a site with a search.
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './lib.mjs';

const site = join(root, 'site');
const vitepress = join(site, 'node_modules', 'vitepress', 'bin', 'vitepress.js');
if (!existsSync(vitepress)) {
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: site,
  });
}
rmSync(join(site, 'pages'), { recursive: true, force: true });
cpSync(join(root, 'docs'), join(site, 'pages'), { recursive: true });
const command = process.argv.includes('--serve') ? 'dev' : 'build';
run(process.execPath, [vitepress, command, '.'], { cwd: site });
if (command === 'build') console.log('docs: built site/dist');
