// npm run docs: builds docs/ into site/dist, as a site with a search, and follows its links.
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { deadLinks } from './crawl-site.mjs';
import { fail, root, run } from './lib.mjs';

const site = join(root, 'site');
const vitepress = join(site, 'node_modules', 'vitepress', 'bin', 'vitepress.js');
if (!existsSync(vitepress)) {
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: site,
  });
}
rmSync(join(site, 'pages'), { recursive: true, force: true });
cpSync(join(root, 'docs'), join(site, 'pages'), { recursive: true });
cpSync(join(site, 'public'), join(site, 'pages', 'public'), { recursive: true });
// The reference of the public names, from their types and doc comments.
run(
  process.execPath,
  [join(site, 'node_modules', 'typedoc', 'bin', 'typedoc'), '--logLevel', 'Warn'],
  { cwd: site },
);
const command = process.argv.includes('--serve') ? 'dev' : 'build';
run(process.execPath, [vitepress, command, '.'], { cwd: site });
if (command === 'build') {
  const dead = deadLinks(join(site, 'dist'));
  if (dead.length > 0) fail(`docs: dead links:\n${dead.join('\n')}`);
  console.log('docs: built site/dist, without dead links');
}
