// The entry that Electron starts: npm start
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { app, BrowserWindow, MessageChannelMain } from 'electron';
import { start } from './app.mjs';

async function main() {
  // `app` is ready only after this module has been evaluated, so nothing above waits for it.
  await app.whenReady();
  const preload = createRequire(import.meta.url).resolve('sidecall/electron/preload');
  const temporary = mkdtempSync(join(tmpdir(), 'sidecall-example-'));
  const file = join(temporary, 'large.bin');
  writeFileSync(file, Buffer.alloc(512 * 1024 * 1024, 'sidecall'));
  const running = await start(
    { BrowserWindow, MessageChannelMain },
    { folder: homedir(), file, preload },
  );
  app.on('window-all-closed', async () => {
    await running.stop();
    rmSync(temporary, { recursive: true });
    app.quit();
  });
}

main().catch((error) => {
  console.error(error);
  app.exit(1);
});
