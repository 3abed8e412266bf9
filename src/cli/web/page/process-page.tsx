// SPDX-License-Identifier: MIT
// A living process: its numbers now, charts, sessions, one session in full, and its calls.
import { useState } from 'preact/hooks';
import type { Sample } from '../samples.ts';
import type { ProcessView } from '../watched-process.ts';
import { CallsPart } from './calls-part.tsx';
import { Chart, type Line } from './chart.tsx';
import { type LiveProcess, useProcess } from './live-data.ts';
import { SessionPart } from './session-part.tsx';
import { SessionTable } from './session-table.tsx';
import { useShortcut } from './shortcut.ts';
import { bytesText, countText, durationText, rateText } from './texts.ts';

const callLines: Line[] = [
  { label: 'calls/s', color: '--first', value: ({ calls }) => calls },
  { label: 'waiting', color: '--second', value: ({ waiting }) => waiting },
];
const latencyLines: Line[] = [
  { label: 'mean', color: '--first', value: ({ meanMs }) => meanMs },
  { label: 'p99', color: '--second', value: ({ p99Ms }) => p99Ms },
];
const byteLines: Line[] = [
  { label: 'sent/s', color: '--first', value: ({ sentBytes }) => sentBytes },
  { label: 'received/s', color: '--second', value: ({ receivedBytes }) => receivedBytes },
];

interface ProcessPageProps {
  readonly pid: number;
  readonly colors: string;
}

/** A process once a second. */
export function ProcessPage({ pid, colors }: ProcessPageProps) {
  const [isPaused, setPaused] = useState(false);
  const [key, setKey] = useState<string>();
  const live = useProcess(pid, key, isPaused);
  const { view, samples, problem } = live;
  useShortcut('p', () => setPaused(!isPaused));
  if (view === undefined) {
    return problem === undefined ? (
      <p role="status">Looking into process {pid} …</p>
    ) : (
      <p class="problem" role="alert">
        {problem}
      </p>
    );
  }
  const last = samples.at(-1);
  const row = view.rows.find((each) => each.key === key);
  const chart = { samples, colors };
  return (
    <>
      <section aria-label="Process">
        <div class="line">
          <h2>Process {pid}</h2>
          <span class={`state ${stateOf(view, problem)}`} role="status">
            {stateText(view, live, last)}
          </span>
          <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
            {isPaused ? 'Go on' : 'Pause'}
          </button>
        </div>
        {problem !== undefined && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {view.threads.map((thread) => (
          <p key={thread.threadId} class="muted">
            {thread.threadId === 0 ? 'Main thread' : `Worker thread ${thread.threadId}`}:{' '}
            {thread.error ??
              `Node ${thread.node}, sidecall ${thread.sidecall}, up ${durationText(thread.uptimeMs)}, ${bytesText(thread.residentBytes)} resident`}
          </p>
        ))}
        {last !== undefined && !view.hasEnded && (
          <>
            <dl class="tiles">
              <Tile name="sessions" value={countText(last.sessions)} />
              <Tile name="calls/s" value={rateText(last.calls)} />
              <Tile name="mean" value={durationText(last.meanMs)} />
              <Tile name="p99 since opened" value={durationText(last.p99Ms)} />
              <Tile name="waiting" value={countText(last.waiting)} />
            </dl>
            <div class="charts">
              <Chart title="Calls" lines={callLines} text={rateText} {...chart} />
              <Chart title="Latency" lines={latencyLines} text={durationText} {...chart} />
              <Chart title="Bytes" lines={byteLines} text={bytesText} {...chart} />
            </div>
          </>
        )}
      </section>
      {last !== undefined && <SessionTable rows={view.rows} chosen={key} onChoose={setKey} />}
      {key !== undefined && (
        <SessionPart
          sessionKey={key}
          session={view.session}
          isOver={row === undefined}
          onClose={() => setKey(undefined)}
        />
      )}
      <CallsPart pid={pid} live={live} hasEnded={view.hasEnded} />
    </>
  );
}

function stateOf({ hasEnded }: ProcessView, problem: string | undefined): string {
  if (hasEnded) return 'ended';
  return problem === undefined ? 'well' : 'late';
}

function stateText(
  { hasEnded }: ProcessView,
  { problem, isLost }: LiveProcess,
  last: Sample | undefined,
): string {
  if (isLost) return 'not known';
  if (hasEnded) return 'has ended';
  if (problem !== undefined) return 'does not answer';
  return last === undefined ? 'answers' : `answers in ${durationText(last.answerMs)}`;
}

function Tile({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
