// The documents in docs/ as a site, with a search that needs no service. `npm run docs` copies them to pages/, since what they
// are built with is beside it, and builds site/dist.
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { defineConfig } from 'vitepress';

const docs = new URL('../pages/', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const reference = JSON.parse(readFileSync(new URL('api/typedoc-sidebar.json', docs), 'utf8'));
const repository = manifest.repository.url.replace(/^git\+|\.git$/g, '');
const decisions = readdirSync(new URL('adr/', docs)).sort();

function titleOf(file) {
  const [number, ...words] = file.replace('.md', '').split('-');
  return `${number} ${words.join(' ')}`;
}

/** Links to files of the project that are no pages lead to the repository. */
function linkOutside({ tokens, env }) {
  // GitHub shows README.md of a folder, the site index.md.
  const links = tokens
    .flatMap(({ children }) => children ?? [])
    .filter(({ type }) => type === 'link_open');
  for (const link of links) {
    const href = link.attrGet('href');
    if (/^([a-z]+:|#|\/)/i.test(href)) continue;
    if (/(^|\/)README\.md/.test(href) && !href.startsWith('..')) {
      link.attrSet('href', href.replace('README.md', 'index.md'));
      continue;
    }
    const path = posix.join('docs', posix.dirname(env.relativePath), href);
    if (path.startsWith('docs/')) continue;
    link.attrSet('href', `${repository}/blob/main/${path}`);
  }
}

export default defineConfig({
  title: 'sidecall',
  description: 'Typed, authenticated calls between two processes on one machine, from Node.js',
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: 'cache',
  rewrites: { 'guide/README.md': 'guide/index.md' },
  markdown: {
    languages: [{ name: 'hex', scopeName: 'source.hex', patterns: [], repository: {} }],
    config: (markdown) => markdown.core.ruler.push('outside', linkOutside),
  },
  themeConfig: {
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    outline: [2, 3],
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Guides', link: '/guide/' },
      { text: 'API', link: '/api/' },
      { text: 'Electron', link: '/electron' },
      { text: 'Performance', link: '/performance' },
      { text: 'Security', link: '/security' },
      { text: manifest.version, link: `${repository}/blob/main/CHANGELOG.md` },
    ],
    sidebar: {
      '/api/': [{ text: 'API reference', link: '/api/', items: reference }],
      '/': [
        {
          text: 'Introduction',
          items: [
            { text: 'Getting started', link: '/getting-started' },
            { text: 'Why not …?', link: '/why' },
          ],
        },
        {
          text: 'Guides',
          items: [
            { text: 'Calls', link: '/guide/calls' },
            { text: 'Streams', link: '/guide/streams' },
            { text: 'Helpers', link: '/guide/helpers' },
            { text: 'Errors and deadlines', link: '/guide/errors-and-deadlines' },
            { text: 'Who may call', link: '/guide/security' },
            { text: 'Protobuf', link: '/guide/protobuf' },
            { text: 'Leases', link: '/guide/leases' },
          ],
        },
        {
          text: 'Where users live',
          items: [
            { text: 'Electron', link: '/electron' },
            { text: 'Extension hosts', link: '/guide/extension-host' },
            { text: 'Write an extension', link: '/guide/write-an-extension' },
            { text: 'JSON-RPC, language servers', link: '/guide/jsonrpc' },
            { text: 'Model Context Protocol', link: '/guide/mcp' },
            { text: "Cap'n Web", link: '/guide/capnweb' },
            { text: 'gRPC', link: '/guide/grpc' },
            { text: 'Bundlers, Bun, Deno, Jest', link: '/guide/bundlers' },
          ],
        },
        {
          text: 'Reference',
          items: [
            { text: 'API', link: '/api/' },
            { text: 'Errors', link: '/errors' },
            { text: 'Security and limits', link: '/security' },
            {
              text: 'Performance',
              link: '/performance',
              collapsed: true,
              items: [
                { text: 'Goals', link: '/performance/goals' },
                { text: 'Tables', link: '/performance/tables' },
                { text: 'The figures explained', link: '/performance/explained' },
              ],
            },
            { text: 'Protocol', link: '/protocol' },
            { text: 'Design', link: '/design' },
            { text: 'Requirements', link: '/requirements' },
          ],
        },
        {
          text: 'Decisions',
          collapsed: true,
          items: decisions.map((file) => ({
            text: titleOf(file),
            link: `/adr/${file.replace('.md', '')}`,
          })),
        },
      ],
    },
  },
});
