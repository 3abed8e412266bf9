// The documents in docs/ as a site, with a search that needs no service. `npm run docs` copies them to pages/, since what they
// are built with is beside it, and builds site/dist.
import { readdirSync } from 'node:fs';
import { defineConfig } from 'vitepress';

const docs = new URL('../pages/', import.meta.url);
const decisions = readdirSync(new URL('adr/', docs)).sort();

function titleOf(file) {
  const [number, ...words] = file.replace('.md', '').split('-');
  return `${number} ${words.join(' ')}`;
}

export default defineConfig({
  title: 'sidecall',
  description: 'Typed, authenticated calls between two processes on one machine, from Node.js',
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: 'cache',
  rewrites: { 'guide/README.md': 'guide/index.md' },
  // Files of the project that are no pages.
  ignoreDeadLinks: [
    /^(\.\/)?(\.\.\/)+(native|src|bench|examples|model|test|README|SECURITY|CONTRIBUTING|CHANGELOG)/,
  ],
  markdown: { languages: [{ name: 'hex', scopeName: 'source.hex', patterns: [], repository: {} }] },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Guides', link: '/guide/' },
      { text: 'Electron', link: '/electron' },
      { text: 'Performance', link: '/performance' },
      { text: 'Security', link: '/security' },
    ],
    sidebar: [
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
          { text: 'JSON-RPC, language servers', link: '/guide/jsonrpc' },
          { text: 'gRPC', link: '/guide/grpc' },
          { text: 'Bundlers, Bun, Deno, Jest', link: '/guide/bundlers' },
        ],
      },
      {
        text: 'Reference',
        items: [
          { text: 'Errors', link: '/errors' },
          { text: 'Security and limits', link: '/security' },
          { text: 'Performance', link: '/performance' },
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
});
