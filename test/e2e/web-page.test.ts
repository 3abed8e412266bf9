// The page of `sidecall inspect --web` in Chromium, as users with a mouse, with keys alone, with a
// reader of screens and with a phone have it.
import { resolve } from 'node:path';
import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ProcessView } from '../../src/cli/web/watched-process.ts';
import { until } from '../support/contract.ts';
import { type RunningProgram, scratchDirectory, startProgram } from '../support/programs.ts';
import { sampled } from '../support/reported.ts';
import { rounds } from '../support/rounds.ts';

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');
/** Polls of the tab whose memory is measured: 86,400 are a day of it. */
const looks = rounds(86_400, 6_000);
const screens = [
  { viewport: { width: 1440, height: 900 }, colorScheme: 'light' },
  { viewport: { width: 1440, height: 900 }, colorScheme: 'dark' },
  { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
  { viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
] as const;

let browser: Browser;
beforeAll(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'], // root has no sandbox; the page is ours
  });
});
afterAll(() => browser?.close()); // without a browser the test has failed already

interface Shown extends AsyncDisposable {
  readonly program: RunningProgram;
  readonly url: string;
  /** Ends the command as Ctrl+C does. */
  readonly stop: () => Promise<void>;
}

/** A program that is looked into, and the command that shows it. `argument` is made of its path. */
async function show(
  name = 'watched.mjs',
  argument = (path: string): string => path,
): Promise<Shown> {
  const scratch = scratchDirectory();
  const env = { SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: scratch.path };
  const program = startProgram(name, [argument(scratch.file('s'))], { env });
  await program.next();
  const args = [main, 'inspect', '--web', '--json'];
  const command = startProgram('sidecall', args, { command: 'node', env });
  const { url } = (await command.next()) as { url: string };
  const stop = async (): Promise<void> => {
    command.child.kill('SIGINT');
    expect(await command.exited).toEqual({ code: 0, signal: null });
  };
  return {
    program,
    url,
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop();
      await program[Symbol.asyncDispose]();
      scratch[Symbol.dispose]();
    },
  };
}

async function opened(
  url: string,
  screen: (typeof screens)[number] = screens[0],
): Promise<{ page: Page; faults: string[] } & AsyncDisposable> {
  const context = await browser.newContext(screen);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('pageerror', ({ message }) => faults.push(message));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) {
      faults.push(`a request to ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, faults, [Symbol.asyncDispose]: () => context.close() };
}

const recorded = '.waterfall li button';

describe('the page of inspect --web', () => {
  it('shows sessions, charts, one session in full and recorded calls, and asks nothing of others', async () => {
    await using shown = await show();
    await using view = await opened(shown.url);
    const { page, faults } = view;
    await page.getByRole('heading', { name: `Process ${shown.program.pid}` }).waitFor();
    const rows = page.locator('[aria-label="Table of sessions"] tbody tr');
    await until(async () => (await rows.count()) === 6);
    expect(await page.locator('.chart canvas').count()).toBe(3);

    const socket = rows.filter({ hasText: 'socket' }).first();
    await socket.getByRole('button').click();
    const open = page.getByRole('region', { name: 'Table of open calls' });
    await open.getByText('Desk.forget').waitFor();
    expect(await page.getByRole('meter').count()).toBe(4); // its windows
    await socket.getByRole('button').click();

    await page.getByRole('button', { name: 'Record', exact: true }).click();
    await page.getByPlaceholder('method').fill('REFUSE');
    await page.locator(recorded).first().click();
    const details = page.locator('.chosen-call');
    expect(await details.textContent()).toContain('permission_denied');
    expect(await page.locator(recorded).filter({ hasNotText: 'Desk.refuse' }).count()).toBe(0);
    await page.getByPlaceholder('method').fill('');
    await page.getByLabel('Show').nth(1).selectOption('failed');
    await until(async () => (await page.locator(recorded).count()) > 1);
    const saved = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Export as JSON lines' }).click();
    expect((await saved).suggestedFilename()).toBe(`calls-${shown.program.pid}.jsonl`);
    await page.getByRole('button', { name: 'Stop recording' }).click();
    await page.getByRole('button', { name: 'Record', exact: true }).waitFor();
    expect(await page.content()).not.toMatch(/secret/);

    shown.program.child.kill('SIGKILL');
    await page.getByText('has ended', { exact: true }).waitFor();
    await page.getByRole('alert').first().waitFor();
    expect(await rows.count()).toBe(6);
    expect(faults).toEqual([]);
  });

  it('is used by keys alone', async () => {
    await using shown = await show();
    await using view = await opened(shown.url);
    const { page } = view;
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await page.keyboard.press('p');
    await page.getByRole('button', { name: 'Go on' }).waitFor();
    await page.keyboard.press('p');
    await page.keyboard.press('r');
    await page.locator(recorded).first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('search r'); // letters in a field are no keys of the page
    expect(await page.getByPlaceholder('method').inputValue()).toBe('search r');
    await page.getByRole('button', { name: 'Stop recording' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Record', exact: true }).waitFor();
    const colors = (): Promise<unknown> => page.evaluate('document.documentElement.dataset.colors');
    expect(await colors()).toBe('light'); // of the system
    await page.emulateMedia({ colorScheme: 'dark' });
    await until(async () => (await colors()) === 'dark');
    await page.keyboard.press('t');
    await until(async () => (await colors()) === 'light');
    await page.keyboard.press('t');
    await until(async () => (await colors()) === 'dark');
    await page.locator('[aria-label="Table of sessions"] tbody button').first().focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Session 1' }).waitFor();
  });

  it('draws 100 of 1,000 sessions, and finds each other one', async () => {
    await using shown = await show('inspected.mjs', (path) =>
      JSON.stringify({ path, sessions: 500 }),
    );
    await using view = await opened(shown.url);
    const { page, faults } = view;
    const rows = page.locator('[aria-label="Table of sessions"] tbody tr');
    // The filter looks at the number of the process, too, which is the peer of all of them.
    const wanted =
      ['987', '654', '321'].find((each) => !`${shown.program.pid}`.includes(each)) ?? '';
    const text = 'The first 100 of 1,000: sort or filter for others.';
    await page.getByText(text).waitFor({ timeout: 120_000 });
    expect(await rows.count()).toBe(100);
    await page.getByPlaceholder('number, pid, lane').fill(wanted);
    await until(async () => (await rows.count()) === 1);
    await rows.getByRole('button').click();
    await page.getByRole('heading', { name: `Session ${wanted}` }).waitFor();
    await page.getByPlaceholder('number, pid, lane').fill('');
    await page.getByRole('button', { name: 'open', exact: true }).click();
    await until(async () => Number(await rows.first().getByRole('cell').nth(3).textContent()) > 0);
    expect(faults).toEqual([]);
  });

  it('shows calls that wait to begin beside thousands that are open', async () => {
    await using shown = await show('inspected.mjs', (path) => JSON.stringify({ path }));
    shown.program.tell('crowd');
    await shown.program.next();
    await using view = await opened(shown.url);
    const { page, faults } = view;
    const rows = page.locator('[aria-label="Table of sessions"] tbody tr');
    await page.getByRole('button', { name: 'open', exact: true }).click();
    await rows.first().filter({ hasText: '6,002' }).getByRole('button').click();
    const calls = page.locator('[aria-label="Table of open calls"] tbody tr');
    await calls.first().waitFor({ timeout: 120_000 });
    expect(await calls.count()).toBe(100);
    expect(await calls.filter({ hasText: 'unary, waiting for slot' }).count()).toBe(20);
    expect(faults).toEqual([]);
  });

  it.each(screens)(
    'has no fault of accessibility, and fits $viewport.width pixels, $colorScheme',
    async (screen) => {
      await using shown = await show();
      await using view = await opened(shown.url, screen);
      const { page, faults } = view;
      await page.locator('[aria-label="Table of sessions"] tbody button').first().click();
      await page.getByRole('button', { name: 'Record', exact: true }).click();
      await page.locator(recorded).first().click();
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.evaluate(axe.source);
      const { violations } = (await page.evaluate('axe.run()')) as {
        violations: { id: string; nodes: { html: string }[] }[];
      };
      const found = violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
      expect(found).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      expect(faults).toEqual([]);
    },
  );

  it('holds no more memory after thousands of looks, and says when the command has ended', async () => {
    await using shown = await show();
    await using view = await opened(shown.url);
    const { page } = view;
    await page.getByRole('heading', { name: `Process ${shown.program.pid}` }).waitFor();
    const base = (await (
      await fetch(`${shown.url}process/${shown.program.pid}`)
    ).json()) as ProcessView;
    await page.getByPlaceholder('method').fill('none of this name'); // only the charts are drawn
    // The page asks as fast as it draws, and gets a new sample and ten new calls each time.
    await page.evaluate(soak, { base, call: sampled(1) as never });
    const asked = (): Promise<number> => page.evaluate<number>('asked');
    const session = await page.context().newCDPSession(page);
    const used = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Runtime.getHeapUsage')).usedSize;
    };
    await until(async () => (await asked()) >= 1_500);

    const before = await used();
    await until(async () => (await asked()) >= looks);
    expect((await used()) - before).toBeLessThan(2 * 1024 * 1024);
    await page.reload();
    await page.getByRole('heading', { name: `Process ${shown.program.pid}` }).waitFor();
    await shown.stop();
    await page.getByText('Start it again: it prints a new link.').first().waitFor();
  });
});

/** Runs in the page: time passes a thousand times as fast, and the server answers at once. */
function soak({ base, call }: { base: ProcessView; call: Record<string, unknown> }): void {
  const world = globalThis as never as Record<string, unknown> & { asked: number };
  world.asked = 0;
  const wait = setTimeout;
  world.setTimeout = (action: () => void, ms = 0) => wait(action, ms / 1_000);
  world.fetch = async (path: string) => {
    if (!path.startsWith('process/')) return new Response('{"processes":[],"files":[]}');
    world.asked += 1;
    const number = world.asked;
    const sample = { ...base.samples[0], number: 1_000_000 + number, atMs: number * 1_000 };
    const calls = Array.from({ length: 10 }, (_, at) => {
      const sequence = number * 10 + at;
      const changed = { change: sequence, sequence, threadId: 0, beganAtMs: sequence };
      return { ...call, ...changed, beganMs: sequence, endedMs: sequence + 5 };
    });
    const recording = { isOn: true, missed: 0, calls };
    return new Response(JSON.stringify({ ...base, samples: [sample], recording }));
  };
}
