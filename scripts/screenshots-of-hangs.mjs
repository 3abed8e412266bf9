// The pictures of docs/guide/operations.md: the faults of examples/it-hangs on the page of
// `sidecall inspect --web`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { root } from './lib.mjs';

/** The process and the part of the page that are shown, and the words that it has then. */
const pictures = {
  unanswered: { of: 'helper', part: 'Session 1', words: 'Index.find' },
  unread: { of: 'helper', part: 'Session 1', words: 'wait for stream-window' },
  window: { of: 'main', part: 'Session 1', words: 'notification-window' },
  blocked: { of: 'helper', part: 'Process', words: 'it is busy' },
  leases: { of: 'main', part: 'Session 1', words: 'Index.thumbnail, for' },
};

/** Writes `hang-FAULT.png` for each of them to a folder. */
export async function hangs(images) {
  const runtime = mkdtempSync(join(tmpdir(), 'hangs-'));
  const env = { ...process.env, SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: runtime };
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  const web = start([join(root, 'dist/cli/main.js'), 'inspect', '--web', '--json'], env);
  try {
    const { url } = JSON.parse(await firstLine(web));
    for (const [fault, picture] of Object.entries(pictures)) {
      const file = join(images, `hang-${fault}.png`);
      await hang(fault, picture, { env, url, browser, file });
    }
  } finally {
    web.kill();
    await browser.close();
    rmSync(runtime, { recursive: true });
  }
}

async function hang(fault, { of, part, words }, { env, url, browser, file }) {
  const program = start(['main.mjs', fault], env);
  const page = await browser.newPage({ viewport: { width: 1100, height: 700 } });
  let [main, helper] = [];
  try {
    [, main, helper] = /process (\d+), its helper (\d+)/.exec(await firstLine(program));
    const pid = of === 'main' ? main : helper;
    if (fault === 'blocked') await new Promise((resolve) => setTimeout(resolve, 1_000));
    await page.goto(`${url}#process/${pid}`);
    if (part.startsWith('Session')) await page.locator('tbody th button').first().click();
    await page.getByText(words).first().waitFor();
    await page.waitForTimeout(2_500);
    await page.getByRole('region', { name: part, exact: true }).screenshot({ path: file });
  } finally {
    program.kill();
    await once(program, 'exit');
    if (helper !== undefined) endProcess(Number(helper)); // it may be busy for a minute
    await page.close();
  }
}

function endProcess(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // it has ended with its parent
  }
}

function start(args, env) {
  const cwd = join(root, 'examples', 'it-hangs');
  return spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
}

async function firstLine(child) {
  const [chunk] = await once(child.stdout, 'data');
  return String(chunk);
}
