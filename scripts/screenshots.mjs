// npm run screenshots: takes the pictures in docs/images/ anew, of the examples as they run.
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startElectronExample } from '../test/support/chromium.mjs';
import { root } from './lib.mjs';

const images = join(root, 'docs', 'images');
const folder = mkdtempSync(join(tmpdir(), 'screenshots-'));
mkdirSync(images, { recursive: true });
try {
  await electronPage();
} finally {
  rmSync(folder, { recursive: true });
}
process.exit();

/** In the middle of hashing a file, with a helper that was killed once. */
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
  // Paths of this machine are nobody's business.
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
