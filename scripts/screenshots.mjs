// npm run screenshots: renders the images in docs/images/ anew, from the running examples, and the
// card of the site. With `-- hangs`, only those of docs/guide/operations.md.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { startElectronExample } from '../test/support/chromium.mjs';
import { root } from './lib.mjs';
import { hangs } from './screenshots-of-hangs.mjs';

const images = join(root, 'docs', 'images');
const folder = mkdtempSync(join(tmpdir(), 'screenshots-'));
mkdirSync(images, { recursive: true });
try {
  if (process.argv[2] !== 'hangs') {
    await electronPage();
    await extensionHost();
    await socialCard();
  }
  await hangs(images);
} finally {
  rmSync(folder, { recursive: true });
}
process.exit();

/** The Electron example while it hashes a file, after one restart of a helper. */
async function electronPage() {
  const files = join(folder, 'documents');
  mkdirSync(files);
  for (const [name, bytes] of [
    ['budget.ods', 48_213],
    ['holiday.jpg', 3_482_110],
    ['letter.txt', 1_204],
    ['notes.md', 9_377],
    ['thesis.pdf', 1_048_576],
    ['video.mkv', 52_428_800],
  ]) {
    writeFileSync(join(files, name), '');
    truncateSync(join(files, name), bytes);
  }
  const file = join(folder, 'disk-image.iso');
  writeFileSync(file, '');
  truncateSync(file, 4_000_000_000);
  const viewport = { width: 900, height: 620 };
  const { page, running, errors, stop } = await startElectronExample({
    folder: files,
    file,
    viewport,
  });
  process.kill(running.helpers.probe.pid, 'SIGKILL');
  await page.waitForFunction(() =>
    /spawnedsocket1/.test(document.querySelector('#helper-probe')?.textContent),
  );
  await page.waitForFunction(() => document.querySelectorAll('#list li').length === 6);
  // Paths of this machine are replaced, since they are private.
  await page.evaluate(() => {
    document.getElementById('file').textContent = '/home/you/disk-image.iso';
    document.getElementById('folder').textContent = '/home/you/Documents';
  });
  await page.click('#hash');
  await page.waitForFunction(() => document.getElementById('progress').value > 0.35);
  await page.screenshot({ path: join(images, 'electron-page.png') });
  if (errors.length > 0) throw new Error(errors.join('\n'));
  await stop();
}

/** The picture that other sites show beside a link: the name, the promise and three figures. */
async function socialCard() {
  const [, beside] = /ring lane: (.*), in the same run/.exec(
    readFileSync(join(root, 'docs', 'performance.md'), 'utf8'),
  );
  const icon = readFileSync(join(root, 'site', 'public', 'favicon.svg'), 'utf8');
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  const page = await browser.newPage({ viewport: { width: 1200, height: 630 } });
  await page.setContent(`<style>
    body { margin: 0; padding: 80px; box-sizing: border-box; height: 630px; background: #0d1b2a; color: #fff;
      font: 40px/1.4 sans-serif; display: flex; flex-direction: column; justify-content: space-between; }
    h1 { margin: 0; font-size: 84px; display: flex; gap: 32px; align-items: center; }
    svg { width: 120px; height: 120px; } p { margin: 0; } small { color: #a5d0ff; font-size: 30px; }
  </style><h1>${icon}sidecall</h1><p>Two processes on one machine call each other, from Node.js. The kernel says who is at the other end.</p>
  <small>Calls a second: ${beside}.</small>`);
  await page.screenshot({ path: join(root, 'site', 'public', 'social-card.png') });
  await browser.close();
}

/** The extension host in a pseudo-terminal, rendered by xterm in Chromium. */
async function extensionHost() {
  const [columns, rows] = [116, 16];
  const main = join(root, 'examples', 'extension-host', 'main.mjs');
  const commands =
    'hello.greet,notes.add,indexer.build,busy.compute,flood.start,hang.wait,crasher.crash';
  const program = `stty cols ${columns} rows ${rows}; exec ${process.execPath} ${main} --seconds 60 --run ${commands}`;
  const terminal = spawn('script', ['-qefc', program, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let said = '';
  terminal.stdout.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await pause(1_200);
  for (let crash = 0; crash < 20 && !said.includes('disabled     '); crash += 1) {
    terminal.stdin.write('j'); // loop.start: a crash loop
    await pause(300);
  }
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  const page = await browser.newPage({ viewport: { width: 1000, height: 320 } });
  const xterm = join(root, 'node_modules', '@xterm', 'xterm');
  await page.setContent(
    '<body style="margin:8px;background:#1e1e1e"><div id="terminal"></div></body>',
  );
  await page.addStyleTag({ path: join(xterm, 'css', 'xterm.css') });
  await page.addScriptTag({ path: join(xterm, 'lib', 'xterm.js') });
  await page.evaluate(
    ([text, cols, lines]) => {
      const screen = new window.Terminal({
        cols,
        rows: lines,
        fontSize: 14,
        theme: { background: '#1e1e1e' },
      });
      screen.open(document.getElementById('terminal'));
      return new Promise((resolve) => screen.write(text, () => setTimeout(resolve, 300)));
    },
    [said, columns, rows],
  );
  await page.screenshot({ path: join(images, 'extension-host.png') });
  await browser.close();
  terminal.stdin.write('Q');
  await new Promise((resolve) => terminal.once('exit', resolve));
}
