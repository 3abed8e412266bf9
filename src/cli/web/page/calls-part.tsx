// SPDX-License-Identifier: MIT
// The calls of a process as a waterfall: each one a bar from its begin to its end.
import { useRef, useState } from 'preact/hooks';
import type { FedCall } from '../../live/fed-calls.ts';
import { type LiveProcess, setRecording } from './live-data.ts';
import { useShortcut } from './shortcut.ts';
import { bytesText, clockText, countText, durationText } from './texts.ts';

const kinds = {
  all: () => true,
  running: ({ endedMs }: FedCall) => endedMs === undefined,
  failed: ({ failure }: FedCall) => failure !== undefined,
  ours: ({ openedBy }: FedCall) => openedBy === 'us',
  "the peer's": ({ openedBy }: FedCall) => openedBy === 'peer',
} as const;

/** Calls that are drawn: the newest that match. */
const shownMax = 200;

interface CallsPartProps {
  readonly pid: number;
  readonly live: LiveProcess;
  readonly hasEnded: boolean;
}

/** Start and stop of the recording, a filter, the waterfall, and one call in detail. */
export function CallsPart({ pid, live, hasEnded }: CallsPartProps) {
  const [wanted, setWanted] = useState('');
  const [kind, setKind] = useState<keyof typeof kinds>('all');
  const [chosen, setChosen] = useState<FedCall>();
  const newest = useRef<FedCall | undefined>(undefined);
  const filter = useRef<HTMLInputElement>(null);
  const recording = live.view?.recording;
  const isOn = recording?.isOn === true;
  const untilMs = recording?.endedAtMs ?? live.nowMs;
  const toggle = (): void => void setRecording(pid, !isOn).catch(() => undefined);
  useShortcut('r', toggle);
  useShortcut('/', () => filter.current?.focus());
  const matching = live.calls.filter(
    (call) => kinds[kind](call) && call.method.toLowerCase().includes(wanted.toLowerCase()),
  );
  const shown = matching.slice(-shownMax);
  return (
    <section aria-label="Calls">
      <div class="line">
        <h2>Calls</h2>
        <button type="button" aria-pressed={isOn} disabled={hasEnded} onClick={toggle}>
          {isOn ? 'Stop recording' : 'Record'}
        </button>
        <label>
          Filter{' '}
          <input
            ref={filter}
            type="search"
            placeholder="method"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </label>
        <label>
          Show{' '}
          <select
            value={kind}
            onChange={(event) => setKind(event.currentTarget.value as keyof typeof kinds)}
          >
            {Object.keys(kinds).map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        {live.calls.length > 0 && (
          <a href={`process/${pid}/calls.jsonl`} download="">
            Export as JSON lines
          </a>
        )}
      </div>
      <p class="muted" role="status">
        {statusText(live.calls.length, matching.length, isOn)}
        {recording !== undefined && recording.missed > 0
          ? ` ${countText(recording.missed)} changes were left out.`
          : ''}
      </p>
      {recording?.problem !== undefined && (
        <p class="problem" role="alert">
          {recording.problem}
        </p>
      )}
      {chosen !== undefined && (
        <ChosenCall
          call={newestOf(live.calls, chosen, newest)}
          nowMs={untilMs}
          onClose={() => setChosen(undefined)}
        />
      )}
      {shown.length > 0 && (
        <Waterfall calls={shown} nowMs={untilMs} chosen={chosen} onChoose={setChosen} />
      )}
    </section>
  );
}

/** The call as it was seen last: later calls may have taken its place. */
function newestOf(
  calls: readonly FedCall[],
  chosen: FedCall,
  newest: { current: FedCall | undefined },
): FedCall {
  const known = newest.current?.key === chosen.key ? newest.current : chosen;
  newest.current = calls.find(({ key }) => key === chosen.key) ?? known;
  return newest.current;
}

function statusText(kept: number, matching: number, isOn: boolean): string {
  if (kept === 0 && !isOn) {
    return 'Record shows a sample of the calls from now on: of each thread the first 100 in each 500 ms, without payloads.';
  }
  const shown = Math.min(matching, shownMax);
  const which = matching === kept ? '' : ` that match, of ${countText(kept)}`;
  const isCut = matching > shown ? ` The newest ${shown} are drawn.` : '';
  return `${isOn ? 'Recording a sample: ' : ''}${countText(matching)} calls${which}.${isCut}`;
}

interface WaterfallProps {
  readonly calls: readonly FedCall[];
  readonly nowMs: number;
  readonly chosen: FedCall | undefined;
  readonly onChoose: (call: FedCall) => void;
}

function Waterfall({ calls, nowMs, chosen, onChoose }: WaterfallProps) {
  const begin = calls.reduce((least, { beganAtMs }) => Math.min(least, beganAtMs), Infinity);
  const end = calls.reduce((most, call) => Math.max(most, endOf(call, nowMs)), begin + 1);
  const part = (ms: number): number => ((ms - begin) / (end - begin)) * 100;
  const marks = [0, 0.25, 0.5, 0.75].map((each) => ({ each, ms: (end - begin) * each }));
  return (
    <div class="waterfall">
      <div class="axis" aria-hidden="true">
        <span>{clockText(begin)}</span>
        <div>
          {marks.map(({ each, ms }) => (
            <span key={each} style={{ left: `${each * 100}%` }}>
              +{durationText(ms)}
            </span>
          ))}
        </div>
      </div>
      <ol>
        {calls.map((call) => {
          const from = part(call.beganAtMs);
          const to = part(endOf(call, nowMs));
          return (
            <li key={call.key}>
              <button
                type="button"
                aria-pressed={call.key === chosen?.key}
                onClick={() => onChoose(call)}
              >
                <span class="method">{call.method}</span>
                <span class="number">{timeText(call, nowMs)}</span>
                <span class="track" aria-hidden="true">
                  <span
                    class={`span ${styleOf(call)}`}
                    style={{ left: `${from}%`, width: `max(2px, ${to - from}%)` }}
                  />
                </span>
              </button>
            </li>
          );
        })}
      </ol>
      <p class="muted">
        <span class="key first">our calls</span> <span class="key second">the peer's</span>{' '}
        <span class="key failed">failed</span> <span class="key running">running</span>
      </p>
    </div>
  );
}

function endOf({ beganAtMs, beganMs, endedMs }: FedCall, nowMs: number): number {
  return endedMs === undefined ? Math.max(nowMs, beganAtMs) : beganAtMs + endedMs - beganMs;
}

function timeText(call: FedCall, nowMs: number): string {
  const { endedMs, failure, beganAtMs } = call;
  const text = durationText(endOf(call, nowMs) - beganAtMs);
  if (endedMs === undefined) return `${text} …`;
  return failure === undefined ? text : `${text} ✗`;
}

function styleOf({ endedMs, failure, openedBy }: FedCall): string {
  if (endedMs === undefined) return 'running';
  if (failure !== undefined) return 'failed';
  return openedBy === 'us' ? 'first' : 'second';
}

interface ChosenCallProps {
  readonly call: FedCall;
  readonly nowMs: number;
  readonly onClose: () => void;
}

/** It stays, also where later calls have taken its place in the waterfall. */
function ChosenCall({ call, nowMs, onClose }: ChosenCallProps) {
  const { endedMs, failure, delivered, method, threadId, session } = call;
  const hasEnded = endedMs !== undefined;
  const tookMs = endOf(call, nowMs) - call.beganAtMs;
  const rows: [string, string][] = [
    ['called by', call.openedBy === 'us' ? 'this process' : 'the peer'],
    ['kind', call.kind],
    ['session', threadId === 0 ? `${session}` : `${threadId}.${session}`],
    ['began', clockText(call.beganAtMs)],
    [hasEnded ? 'took' : 'seen running for', durationText(tookMs)],
    ['sent', hasEnded ? bytesText(call.sentBytes) : 'known at the end'],
    ['received', hasEnded ? bytesText(call.receivedBytes) : 'known at the end'],
    ['end', hasEnded ? (failure ?? 'well') : 'none yet'],
    ['delivered', delivered ?? '–'],
  ];
  return (
    <div class="chosen-call">
      <div class="line">
        <h3>{method}</h3>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <dl class="details">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
