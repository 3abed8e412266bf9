// SPDX-License-Identifier: MIT
// A saved copy: the recording of a helper that has ended, or the memory of a ring.
import { useRef, useState } from 'preact/hooks';
import type { RecordedEvent, Recording } from '../../../wire/recording.ts';
import type { OutboxReport, RingReport } from '../../../wire/ring-report.ts';
import { Bar } from './bar.tsx';
import { Faults } from './faults.tsx';
import { useFile } from './live-data.ts';
import { Scroll } from './scroll.tsx';
import { useShortcut } from './shortcut.ts';
import { bytesText, countText, durationText } from './texts.ts';

/** A file that was named on the command line. */
export function FilePage({ index }: { readonly index: number }) {
  const { file, problem } = useFile(index);
  if (problem !== undefined) {
    return (
      <p class="problem" role="alert">
        {problem}
      </p>
    );
  }
  if (file === undefined) return <p role="status">Reading …</p>;
  if ('ring' in file) return <Ring report={file.ring} />;
  return <Recorded index={index} recording={file.recording} />;
}

function FoundFaults({ faults }: { readonly faults: readonly string[] }) {
  if (faults.length === 0) return <p class="muted">No fault was found in it.</p>;
  return <Faults faults={faults} />;
}

/** Events that are drawn: the last that match. */
const eventsShown = 500;

interface RecordedProps {
  readonly index: number;
  readonly recording: Recording;
}

function Recorded({ index, recording }: RecordedProps) {
  const { pid, endText, copiedAtMs, running, runningCount, events, faults } = recording;
  const [wanted, setWanted] = useState('');
  const filter = useRef<HTMLInputElement>(null);
  useShortcut('/', () => filter.current?.focus());
  const matching = events.filter(
    ({ event, type, method }) =>
      wanted === '' ||
      [event, type, method].some((text) => text?.toLowerCase().includes(wanted.toLowerCase())),
  );
  const longest = running[0]?.runningMs ?? 0;
  return (
    <>
      <section aria-label="Recording">
        <h2>Recording of process {pid}</h2>
        <p>
          {endText || 'Copied while it ran'} ({new Date(copiedAtMs).toISOString()})
        </p>
        <p>
          <a href={`file/${index}/recording.jsonl`} download="">
            Export as JSON lines
          </a>{' '}
          <a href={`file/${index}/recording.pcapng`} download="">
            Export for Wireshark
          </a>
        </p>
        <FoundFaults faults={faults} />
        <h3>
          {runningCount === 0
            ? 'No handler was running'
            : `Handlers that ran at the end: ${countText(runningCount)}`}
        </h3>
        {running.map(({ session, id, method, kind, runningMs }) => (
          <Bar
            key={`${session} ${id}`}
            label={method ?? 'an unnamed method'}
            value={runningMs}
            max={longest}
            text={`${kind}, session ${session}, call ${id}, for ${durationText(runningMs)}`}
          />
        ))}
      </section>
      <section aria-label="Frames">
        <div class="line">
          <h2>Last frames, the newest first</h2>
          <label>
            Filter{' '}
            <input
              ref={filter}
              type="search"
              placeholder="method or type"
              value={wanted}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
          </label>
        </div>
        {events.length === 0 && (
          <p class="muted">
            No frame was recorded: spawnHelper() records frames with recorder: 'frames'.
          </p>
        )}
        {events.length > 0 && <Events events={matching.slice(-eventsShown).toReversed()} />}
        {matching.length > eventsShown && (
          <p class="muted">
            The last {eventsShown} of {countText(matching.length)}.
          </p>
        )}
      </section>
    </>
  );
}

function Events({ events }: { readonly events: readonly RecordedEvent[] }) {
  return (
    <Scroll label="Table of frames" hasWords>
      <table>
        <thead>
          <tr>
            <th scope="col">before the end</th>
            <th scope="col">event</th>
            <th scope="col">frame</th>
            <th scope="col">session</th>
            <th scope="col">call</th>
            <th scope="col">method</th>
            <th scope="col">payload</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.sequence}>
              <th scope="row">{durationText(event.beforeMs)}</th>
              <td>{event.event}</td>
              <td>{event.type ?? '–'}</td>
              <td>{event.session}</td>
              <td>{event.generation === 0 ? '–' : `${event.slot}.${event.generation}`}</td>
              <td>{event.method ?? '–'}</td>
              <td>{bytesText(event.payloadBytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Ring({ report }: { readonly report: RingReport }) {
  return (
    <section aria-label="Ring">
      <h2>Saved ring</h2>
      <FoundFaults faults={report.faults} />
      <Outbox title="Sent by the side that saved the copy" outbox={report.sent} />
      <Outbox title="Sent by its peer" outbox={report.received} />
    </section>
  );
}

interface OutboxProps {
  readonly title: string;
  readonly outbox: OutboxReport | undefined;
}

function Outbox({ title, outbox }: OutboxProps) {
  if (outbox === undefined) return <p>{title}: not in the copy, or unreadable.</p>;
  const { unreadBytes, capacityBytes, publishedBytes, records, moreRecords } = outbox;
  return (
    <>
      <h3>{title}</h3>
      <Bar
        label="unread"
        value={unreadBytes ?? 0}
        max={capacityBytes}
        text={`${bytesText(unreadBytes)} of ${bytesText(capacityBytes)}; ${bytesText(publishedBytes)} published, ever`}
      />
      {records.length > 0 && (
        <ol class="records">
          {records.map(({ position, kind, bytes, frame }) => (
            <li key={position}>
              {kind}, {bytesText(bytes)}
              {frame === undefined ? '' : `: ${frame}`}
            </li>
          ))}
        </ol>
      )}
      {moreRecords > 0 && <p class="muted">and {countText(moreRecords)} more records</p>}
    </>
  );
}
