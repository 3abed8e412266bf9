// The example for Electron: its main code under a stub of Electron, its page in a real Chromium.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startElectronExample } from '../support/chromium.mjs';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

describe('examples/electron', () => {
  it('shows a live list, a progress bar, and who its helpers are; cancels, and lives through their death', async () => {
    using scratch = scratchDirectory();
    const folder = scratch.file('folder');
    const file = scratch.file('large.bin');
    mkdirSync(folder);
    writeFileSync(scratch.file('folder/first.txt'), 'one');
    writeFileSync(file, 'x'.repeat(1_000_000));
    truncateSync(file, 40_000_000);
    const { page, running, errors, stop } = await startElectronExample({ folder, file });
    try {
      const text = async (id: string): Promise<string> => (await page.textContent(`#${id}`)) ?? '';
      const open = (): number => running.helpers.library.session.stats().calls.open;

      expect(running.window.webPreferences).toMatchObject({
        ...{ contextIsolation: true, sandbox: true, nodeIntegration: false },
      });

      // Their identity: main's word, by the spawn handle.
      await page.waitForSelector('#helper-library[data-state="running"]');
      await page.waitForSelector('#helper-probe[data-state="running"]');
      const library = await text('helper-library');
      const { pid } = running.helpers.library;
      expect(library).toContain(`libraryrunningturning${pid}${process.geteuid?.()}spawnedring0`);
      expect(await text('helper-probe')).toContain('spawnedsocket0'); // not Node: no shared memory
      await until(async () => (await text('probe')).includes('A helper in C'));

      // The list follows the folder.
      await until(async () => (await text('list')).includes('first.txt · 3 bytes'));
      writeFileSync(scratch.file('folder/second.txt'), '22');
      await until(async () => (await text('list')).includes('second.txt · 2 bytes'));
      rmSync(scratch.file('folder/first.txt'));
      await until(async () => !(await text('list')).includes('first.txt'));
      expect(await text('count')).toBe('1');

      // The progress bar reaches its end, and the hash is that of the file.
      await page.click('#hash');
      await until(async () => (await text('outcome')) !== '');
      expect(await text('outcome')).toBe(
        createHash('sha256').update(readFileSync(file)).digest('hex'),
      );
      expect(await text('percent')).toBe('100 %');
      expect(await page.getAttribute('#cancel', 'disabled')).toBe('');

      // Cancel ends the work in the helper.
      truncateSync(file, 40_000_000_000); // sparse: minutes of hashing
      await page.click('#hash');
      await until(() => open() === 2);
      await page.click('#cancel');
      await until(async () => (await text('outcome')) === 'cancelled');
      await until(() => open() === 1);

      // A helper that is killed comes back, and the page goes on.
      await page.click('#helper-library button');
      await until(async () => /running\D*\d.*ring1/.test(await text('helper-library')));
      writeFileSync(scratch.file('folder/third.txt'), '333');
      await until(async () => (await text('list')).includes('third.txt'));
      expect(running.helpers.library.pid).not.toBe(pid);

      // A new document has a port of its own; what the old one had under way is cancelled.
      expect(open()).toBe(1);
      await page.reload();
      await until(async () => (await text('list')).includes('third.txt'));
      await until(() => open() === 1);
      expect(errors).toEqual([]);
    } finally {
      await stop();
    }
  });
});
