// npm run check:site: opens each page of site/dist in Chromium, on a desk and on a phone. Fails
// where axe-core finds a serious fault, where a page is wider than the screen, where code is cut
// off on a desk, where an error is thrown, or where the search does not find an option first.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { fail, root } from './lib.mjs';
import { readResults, suites } from './suites.mjs';

const usage = `usage: npm run check:site -- [--pictures FOLDER] [--only TEXT]

  --pictures FOLDER  writes a picture of each page and kind of screen there
  --only TEXT        looks only at pages whose path contains this
  --few              the documents that have changed since the long run has passed, and of the
                     pages of the reference, which look alike, every twelfth
  --all              both sizes in both colours, instead of a light desk and a dark phone`;

const { values } = parse();
if (values.help === true) {
  console.log(usage);
  process.exit();
}

const dist = join(root, 'site', 'dist');
const axe = readFileSync(join(root, 'site', 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');
const types = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
};
const desk = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };
const screens = [
  { name: 'desk-light', viewport: desk, colorScheme: 'light' },
  { name: 'desk-dark', viewport: desk, colorScheme: 'dark' },
  { name: 'phone-light', viewport: phone, colorScheme: 'light' },
  { name: 'phone-dark', viewport: phone, colorScheme: 'dark' },
];
/** Names of options, and of what the search must find for them first. */
const searched = [
  'startTimeoutMs',
  'authorize',
  'sessionsPerUidMax',
  'killGraceMs',
  'blockAreaBytes',
];
const workers = 2;

const pages = readdirSync(dist, { recursive: true })
  .filter((path) => path.endsWith('.html') && path.includes(values.only ?? ''))
  .sort()
  .filter(values.few === true ? ofFew() : () => true);
const faults = [];
const server = createServer(answer);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  await checkPages();
  if (values.only === undefined) await checkSearch();
} finally {
  await browser.close();
  server.close();
}
for (const fault of faults) console.error(`site: ${fault}`);
if (faults.length > 0) fail(`site: ${faults.length} faults`);
console.log(`site: ${pages.length} pages without faults`);

function parse() {
  const options = {
    pictures: { type: 'string' },
    only: { type: 'string' },
    all: { type: 'boolean' },
    few: { type: 'boolean' },
    help: { type: 'boolean' },
  };
  try {
    return parseArgs({ options });
  } catch (error) {
    return fail(`check:site: ${error.message}\n\n${usage}`);
  }
}

/**
 * Says which pages are looked at with --few: all documents where more has changed than documents
 * alone, or the last long run is not known here.
 */
function ofFew() {
  const { commit } = readResults()['check:site'] ?? {};
  const inputs = suites['check:site'].inputs;
  const args = ['diff', '--name-only', `${commit}`, '--', ...inputs];
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  const changed = stdout.split('\n').filter((path) => path !== '');
  const isKnown =
    status === 0 && changed.every((path) => /^(docs\/.*|README|CHANGELOG)\.md$/.test(path));
  const documents = changed.map((path) =>
    path.replace(/^docs\//, '').replace(/README\.md$/, 'index.md'),
  );
  return (path, at) =>
    isAlike(path)
      ? at % 12 === 0
      : !isKnown || path === 'index.html' || documents.includes(path.replace(/html$/, 'md'));
}

function answer({ url }, response) {
  const path = decodeURIComponent(new URL(url, 'http://site').pathname);
  try {
    const bytes = readFileSync(join(dist, path.endsWith('/') ? `${path}index.html` : path));
    response.setHeader(
      'content-type',
      types[extname(path) || '.html'] ?? 'application/octet-stream',
    );
    response.end(bytes);
  } catch {
    response.statusCode = 404;
    response.end();
  }
}

/**
 * Each page on two screens, which differ in size and colour; with --all on four. The pages of the
 * reference, which look alike, are opened on the first alone, without their frame.
 */
async function checkPages() {
  const used = values.all === true ? screens : [screens[0], screens[3]];
  const left = used.flatMap((screen, at) =>
    pages.filter((path) => at === 0 || !isAlike(path)).map((path) => ({ path, screen })),
  );
  let done = 0;
  const total = left.length;
  const work = async () => {
    const tabs = new Map();
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const { path, screen } = next;
      if (!tabs.has(screen.name)) tabs.set(screen.name, await openTab(screen));
      await checkPage(tabs.get(screen.name), path, screen.name);
      done += 1;
      if (process.stdout.isTTY) process.stdout.write(`\rsite: ${done} of ${total}`);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  if (process.stdout.isTTY) process.stdout.write('\n');
}

function isAlike(path) {
  return path.startsWith('api/') && path !== 'api/index.html' && values.pictures === undefined;
}

/** A tab that notes errors of the page that it shows. */
async function openTab(screen) {
  const context = await browser.newContext(screen);
  const tab = { page: await context.newPage(), complain: () => undefined, hasScripts: true };
  tab.page.on('pageerror', (error) => tab.complain(error.message));
  tab.page.on('response', (response) => {
    if (response.status() >= 400) tab.complain(`${response.url()}: ${response.status()}`);
  });
  await tab.page.route(/\.js$/, (route) => (tab.hasScripts ? route.continue() : route.abort()));
  return tab;
}

async function checkPage(tab, path, screen) {
  const { page } = tab;
  tab.complain = (text) => faults.push(`${path} (${screen}): ${text}`);
  tab.hasScripts = !isAlike(path);
  await page.goto(`${address}/${path}`, { waitUntil: 'load' });
  if (values.pictures !== undefined) {
    const file = `${path.replaceAll('/', '-').replace('.html', '')}-${screen}.png`;
    await page.screenshot({ path: join(values.pictures, file), fullPage: true });
  }
  const extra = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  if (extra > 0) tab.complain(`wider than the screen by ${extra} px`);
  if (screen.startsWith('desk') && !path.startsWith('api/')) {
    const cut = await page.$$eval('.vp-doc pre', (blocks) =>
      blocks
        .filter((block) => block.scrollWidth > block.clientWidth)
        .map(
          (block) =>
            `${block.scrollWidth} of ${block.clientWidth}: ${block.textContent.trim().split('\n')[0]}`,
        ),
    );
    for (const line of cut) tab.complain(`a code block is cut off: ${line}`);
  }
  await page.evaluate(axe);
  const { violations } = await page.evaluate(
    (context) => globalThis.axe.run(context, { resultTypes: ['violations'] }),
    { include: isAlike(path) ? '.vp-doc' : 'html' },
  );
  for (const { id, impact, help, nodes } of violations) {
    if (impact !== 'serious' && impact !== 'critical') continue;
    const [{ html }] = nodes;
    tab.complain(`${id} (${impact}): ${help}: ${html.slice(0, 200)}, ${nodes.length} times`);
  }
}

async function checkSearch() {
  const page = await browser.newPage({ viewport: desk });
  await page.goto(`${address}/`);
  // The page hears no key before its application is mounted.
  await page.waitForFunction(() => document.querySelector('#app').__vue_app__ !== undefined);
  for (const name of searched) {
    await page.keyboard.press('/');
    await page.fill('#localsearch-input', name);
    // The list follows the input after a pause, and marks what was asked for.
    await page.waitForFunction(
      (asked) => document.querySelector('#localsearch-list')?.textContent.includes(asked),
      name,
    );
    const [first = ''] = await page.$$eval('#localsearch-list li', (items) =>
      items.map((item) => item.textContent.trim()),
    );
    if (!first.includes(name))
      faults.push(`the search for ${name} finds first: ${first.slice(0, 120)}`);
    await page.keyboard.press('Escape');
    await page.waitForSelector('#localsearch-input', { state: 'detached' });
  }
}
