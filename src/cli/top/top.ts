// SPDX-License-Identifier: MIT
// `sidecall top`: looks into a process at an interval, and shows it on the terminal, as text, or as
// lines of JSON.
import { systemClock } from '../../base/clock.ts';
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { pause } from '../../base/pause.ts';
import { printableJson } from '../../base/printable.ts';
import { type ProcessSnapshot, ProcessWatch } from '../live/process-watch.ts';
import { type Key, pressed } from './keys.ts';
import { firstView, plainScreen, screenLines } from './screen.ts';
import type { Terminal } from './terminal.ts';

/** Options of the command. */
export interface TopSettings {
  readonly pid: number;
  readonly intervalMs: number;
  /** The longest wait for an answer. */
  readonly timeoutMs: number;
  /** Looks until it ends; undefined: it ends with the process, or when it is told to. */
  readonly count: number | undefined;
  readonly format: 'terminal' | 'text' | 'json';
  readonly hasColor: boolean;
}

/** Runs until it is told to end, or has looked often enough. @throws as `inspectProcess()`. */
export async function top(settings: TopSettings): Promise<void> {
  if (settings.format === 'terminal') return topOnTerminal(settings);
  const print = settings.format === 'json' ? printJson : printText;
  const watch = new ProcessWatch(settings.pid, settings.timeoutMs);
  const { signal } = new AbortController();
  for (let look = 1; ; look += 1) {
    print(await watch.look());
    if (look === settings.count) return;
    await pause(systemClock, settings.intervalMs, signal);
  }
}

function printJson({ pid, threads, rows }: ProcessSnapshot): void {
  const processes = threads.map(({ threadId, thread, error }) => ({ threadId, thread, error }));
  const sessions = rows.map(({ sums: _, ...row }) => row);
  console.log(printableJson(JSON.stringify({ pid, threads: processes, sessions })));
}

function printText(snapshot: ProcessSnapshot): void {
  console.log(`${screenLines(snapshot, firstView, plainScreen).join('\n')}\n`);
}

async function topOnTerminal(settings: TopSettings): Promise<void> {
  const watch = new ProcessWatch(settings.pid, settings.timeoutMs);
  let snapshot = await watch.look(); // a failure is printed on the screen that the shell has
  const { Terminal } = await import('./terminal.ts');
  const ended = new AbortController();
  let woken = new AbortController();
  let view = firstView;
  const draw = (): void => terminal.draw(screenLines(snapshot, view, terminal.screen));
  const onKey = (key: Key): void => {
    const next = pressed(key, view, snapshot);
    if (next === undefined) ended.abort();
    // A session that is looked into has to be asked for.
    if (next === undefined || (next.isInside && !view.isInside)) woken.abort();
    view = next ?? view;
    if (next !== undefined) draw();
  };
  const terminal: Terminal = new Terminal(settings.hasColor, onKey, () => draw());
  const onSignal = (): void => {
    ended.abort();
    woken.abort();
  };
  process.once('SIGTERM', onSignal);
  process.once('SIGHUP', onSignal);
  try {
    draw();
    for (let look = 1; look !== settings.count; ) {
      await pause(systemClock, settings.intervalMs, woken.signal);
      const isAsked = woken.signal.aborted;
      woken = new AbortController();
      if (ended.signal.aborted) return;
      if (view.isPaused && !isAsked) continue;
      snapshot = await lookAgain();
      look += 1;
      draw();
    }
  } finally {
    process.off('SIGTERM', onSignal);
    process.off('SIGHUP', onSignal);
    terminal.close();
  }

  /** A process that does not answer is shown as it was, until it answers or ends. */
  async function lookAgain(): Promise<ProcessSnapshot> {
    try {
      const inside = snapshot.rows.filter(({ key }) => view.isInside && key === view.chosen);
      return await watch.look(inside.map(({ id }) => id));
    } catch (error) {
      if (!SidecallError.is(error) || error.code !== 'ERR_SIDECALL_PEER_UNRESPONSIVE') throw error;
      return { ...snapshot, problem: errorText(error) };
    }
  }
}
