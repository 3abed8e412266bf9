// SPDX-License-Identifier: MIT
// A recording for people.
import { doingText, durationText, type RecordedEvent, type Recording } from '../wire/recording.ts';

/** Frames that are shown; `--jsonl` has all of them. */
const shownMax = 20;

/** The process, its end, the handlers that ran, and its last frames. */
export function recordingLines(recording: Recording): string[] {
  const { pid, endText, copiedAtMs, running, runningCount, events, faults } = recording;
  const at = new Date(copiedAtMs).toISOString();
  const unlisted = runningCount - running.length;
  return [
    `recording of process ${pid}: ${endText || 'copied while it ran'} (${at})`,
    `  ${doingText(recording)}`,
    ...running.map(
      ({ session, id, method, kind, runningMs }) =>
        `  running   session ${session}, ${id} ${method ?? 'an unnamed method'}: ${kind}, for ${durationText(runningMs)}`,
    ),
    ...(unlisted > 0 ? [`  and ${unlisted} more handlers`] : []),
    '',
    ...eventLines(events),
    ...faults.map((fault) => `FAULT  ${fault}`),
  ];
}

function eventLines(events: readonly RecordedEvent[]): string[] {
  if (events.length === 0) {
    return ["No frame was recorded: frames are with spawnHelper(…, { recorder: 'frames' })."];
  }
  return [
    `The last ${Math.min(events.length, shownMax)} of ${events.length} events, and when they were before the end:`,
    ...events.slice(-shownMax).map(eventLine),
  ];
}

function eventLine(recorded: RecordedEvent): string {
  const { event, session, beforeMs, type, slot, generation, method, payloadBytes } = recorded;
  const time = durationText(beforeMs).padStart(10);
  if (event === 'sessionBegan') return `${time}  session ${session} began, with process ${slot}`;
  if (event === 'sessionEnded') return `${time}  session ${session} ended`;
  const stream = generation === 0 ? '' : ` ${slot}.${generation}`;
  const name = method === undefined ? '' : ` ${method}`;
  return `${time}  ${event} ${type}${stream}${name}, payload ${payloadBytes}; session ${session}`;
}
