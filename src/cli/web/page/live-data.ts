// SPDX-License-Identifier: MIT
// The data of the server: asked for once a second, with bounded memory however long the page stays.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { InspectedFile } from '../../inspect.ts';
import { dropOldest, type FedCall } from '../../live/fed-calls.ts';
import type { Choices } from '../page-data.ts';
import { keptSamples, type Sample } from '../samples.ts';
import type { ProcessView } from '../watched-process.ts';

const intervalMs = 1_000;
const choicesMs = 5_000;
const ended =
  'The command that serves this page has ended, or cannot be reached. Start it again: it prints a new link.';

async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal });
  const value: unknown = await response.json();
  if (!response.ok) throw new Error((value as { problem: string }).problem);
  return value as T;
}

function textOf(error: unknown): string {
  return error instanceof TypeError ? ended : String((error as Error).message);
}

/** Calls `step` again and again, until the component goes; never two at once. */
function useEvery(ms: number, step: (signal: AbortSignal) => Promise<void>, key: unknown): void {
  const latest = useRef(step);
  latest.current = step;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      await latest.current(signal);
      if (!signal.aborted) timer = setTimeout(run, ms);
    };
    void run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [ms, key]);
}

/** The processes and files that there are. */
export function useChoices(): {
  readonly choices: Choices | undefined;
  readonly problem: string | undefined;
} {
  const [choices, setChoices] = useState<Choices>();
  const [problem, setProblem] = useState<string>();
  const step = async (signal: AbortSignal): Promise<void> => {
    try {
      setChoices(await ask<Choices>('choices', signal));
      setProblem(undefined);
    } catch (error) {
      if (!signal.aborted) setProblem(textOf(error));
    }
  };
  useEvery(choicesMs, step, undefined);
  return { choices, problem };
}

/** A process, with the samples and calls that have come so far. */
export interface LiveProcess {
  readonly view: ProcessView | undefined;
  readonly samples: readonly Sample[];
  /** In the order of their begin. */
  readonly calls: readonly FedCall[];
  /** Milliseconds since 1970 of the answer. */
  readonly nowMs: number;
  readonly problem: string | undefined;
  /** The server does not answer: nothing is known of the process. */
  readonly isLost: boolean;
}

const nothing: LiveProcess = {
  view: undefined,
  samples: [],
  calls: [],
  nowMs: 0,
  problem: undefined,
  isLost: false,
};

/** A process once a second. `key`: the session that is shown. */
export function useProcess(pid: number, key: string | undefined, isPaused: boolean): LiveProcess {
  const [live, setLive] = useState<LiveProcess>(nothing);
  const calls = useRef(new Map<string, FedCall>());
  const lastChange = useRef(0);
  const recording = useRef(0);
  const samples = useRef<Sample[]>([]);
  const step = async (signal: AbortSignal): Promise<void> => {
    if (isPaused) return;
    const sample = samples.current.at(-1)?.number ?? 0;
    const query = new URLSearchParams({ sample: `${sample}`, change: `${lastChange.current}` });
    if (key !== undefined) query.set('key', key);
    try {
      const view = await ask<ProcessView>(`process/${pid}?${query}`, signal);
      samples.current = [...samples.current, ...view.samples].slice(-keptSamples);
      if (view.recording.number !== recording.current) calls.current.clear();
      recording.current = view.recording.number;
      merge(calls.current, view.recording.calls);
      for (const { change } of view.recording.calls) {
        lastChange.current = Math.max(lastChange.current, change);
      }
      const sorted = [...calls.current.values()].sort((a, b) => a.beganAtMs - b.beganAtMs);
      const nowMs = Date.now();
      const { problem } = view;
      setLive({ view, samples: samples.current, calls: sorted, nowMs, problem, isLost: false });
    } catch (error) {
      if (!signal.aborted)
        setLive((before) => ({ ...before, problem: textOf(error), isLost: true }));
    }
  };
  useEvery(intervalMs, step, `${key} ${isPaused}`);
  return live;
}

function merge(calls: Map<string, FedCall>, changed: readonly FedCall[]): void {
  for (const call of changed) calls.set(call.key, call);
  dropOldest(calls);
}

/** Begins or ends the recording of calls. @throws where the server cannot be reached. */
export async function setRecording(pid: number, isOn: boolean): Promise<void> {
  await fetch(`process/${pid}/recording?on=${isOn ? 1 : 0}`, { method: 'POST' });
}

/** A saved copy: it does not change. */
export function useFile(index: number): {
  readonly file: InspectedFile | undefined;
  readonly problem: string | undefined;
} {
  const [file, setFile] = useState<InspectedFile>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const controller = new AbortController();
    ask<InspectedFile>(`file/${index}`, controller.signal).then(setFile, (error) => {
      if (!controller.signal.aborted) setProblem(textOf(error));
    });
    return () => controller.abort();
  }, [index]);
  return { file, problem };
}
