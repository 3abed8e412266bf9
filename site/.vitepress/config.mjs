// The documents in docs/ as a site, with a search that needs no service. `npm run docs` copies them to pages/, since what they
// are built with is beside it, and builds site/dist.
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { defineConfig } from 'vitepress';

const docs = new URL('../pages/', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const reference = JSON.parse(readFileSync(new URL('api/typedoc-sidebar.json', docs), 'utf8'));
const repository = manifest.repository.url.replace(/^git\+|\.git$/g, '');
const description = 'Typed, authenticated calls between two processes on one machine, from Node.js';
const decisions = readdirSync(new URL('adr/', docs)).sort();

/** The heading of a decision: links to it say what it decides. */
function titleOf(file) {
  const [heading] = readFileSync(new URL(`adr/${file}`, docs), 'utf8').split('\n');
  return heading.replace(/^# /, '');
}

/** A paragraph that is a chart can be moved sideways on a phone, by the keyboard, too. */
function markCharts({ tokens }) {
  for (const [at, { type, children }] of tokens.entries()) {
    const isChart = children?.length === 1 && /\.svg$/.test(children[0].attrGet('src') ?? '');
    if (type !== 'inline' || !isChart) continue;
    tokens[at - 1].attrSet('class', 'chart');
    tokens[at - 1].attrSet('tabindex', '0');
  }
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

/** SITE_URL, such as https://docs.example/, makes the address of the card absolute. */
function headOf() {
  const card = `${process.env.SITE_URL ?? '/'}social-card.png`;
  return [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: '/favicon.svg' }],
    ['meta', { property: 'og:type', content: 'website' }],
    ['meta', { property: 'og:title', content: 'sidecall' }],
    ['meta', { property: 'og:description', content: description }],
    ['meta', { property: 'og:image', content: card }],
    ['meta', { name: 'twitter:card', content: 'summary_large_image' }],
  ];
}

export default defineConfig({
  title: 'sidecall',
  description,
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: 'cache',
  rewrites: { 'guide/README.md': 'guide/index.md' },
  head: headOf(),
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    languages: [{ name: 'hex', scopeName: 'source.hex', patterns: [], repository: {} }],
    config: (markdown) => {
      markdown.core.ruler.push('outside', linkOutside);
      markdown.core.ruler.push('charts', markCharts);
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    outline: [2, 3],
    notFound: {
      title: 'Page not found',
      quote: 'There is no page at this address. The search at the top looks through all pages.',
      linkLabel: 'To the home page',
      linkText: 'To the home page',
    },
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
            { text: 'Each kind of call', link: '/guide/overview' },
            { text: 'Calls', link: '/guide/calls' },
            { text: 'Streams', link: '/guide/streams' },
            { text: 'Helpers', link: '/guide/helpers' },
            { text: 'Connect again', link: '/guide/reconnect' },
            { text: 'Pools', link: '/guide/pools' },
            { text: 'Shared helpers', link: '/guide/shared-helpers' },
            { text: 'Hand-over', link: '/guide/hand-over' },
            { text: 'Operations', link: '/guide/operations' },
            { text: 'Errors and deadlines', link: '/guide/errors-and-deadlines' },
            { text: 'Simulated faults', link: '/guide/simulation' },
            { text: 'Who may call', link: '/guide/security' },
            { text: 'One server, many ways in', link: '/guide/servers' },
            { text: 'Protobuf', link: '/guide/protobuf' },
            { text: 'Large messages', link: '/guide/large-messages' },
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
            { text: 'From one machine to many', link: '/guide/many-machines' },
            { text: 'Go programs with golib', link: '/guide/golib' },
            { text: 'Go programs with shmipc-go', link: '/guide/shmipc' },
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
                { text: 'Published benchmarks', link: '/performance/published' },
              ],
            },
            { text: 'Protocol', link: '/protocol' },
            { text: 'Design', link: '/design' },
            { text: 'Requirements', link: '/requirements' },
            { text: 'Tests', link: '/testing' },
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
