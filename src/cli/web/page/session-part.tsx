// SPDX-License-Identifier: MIT
// A session in full: windows and rings as bars, reasons of waits, open calls, leases and methods.
import { useRef } from 'preact/hooks';
import type { ReportedSession } from '../../../rendezvous/inspection-service.ts';
import type { MethodStats } from '../../../rpc/counting/method-counters.ts';
import type { InspectedStream } from '../../../rpc/session/inspection.ts';
import type { OutboxReport } from '../../../wire/ring-report.ts';
import { stateText } from '../../live/state-text.ts';
import { Bar } from './bar.tsx';
import { Faults } from './faults.tsx';
import { Scroll } from './scroll.tsx';
import { bytesText, countText, durationText } from './texts.ts';

interface SessionPartProps {
  readonly sessionKey: string;
  /** undefined: it was not looked at yet, or is over. */
  readonly session: ReportedSession | undefined;
  readonly isOver: boolean;
  readonly onClose: () => void;
}

/** A session in full. */
export function SessionPart({ sessionKey, session, isOver, onClose }: SessionPartProps) {
  return (
    <section aria-label={`Session ${sessionKey}`}>
      <div class="line">
        <h2>Session {sessionKey}</h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {session === undefined ? (
        <p role="status">{isOver ? 'The session is over.' : 'Looking …'}</p>
      ) : (
        <Inside key={sessionKey} session={session} />
      )}
    </section>
  );
}

function Inside({ session }: { readonly session: ReportedSession }) {
  const { state, lane, laneReason, peer, stats, streams, moreStreams, leases, ring } = session;
  const waits = Object.entries(stats.waits).filter(([, number]) => number > 0);
  return (
    <>
      <p class="muted">
        {state}; lane {lane} ({laneReason}); peer: process {peer.pid ?? '?'}, uid {peer.uid ?? '?'},
        identity: {peer.origin}
      </p>
      <p>
        <b>Waits:</b>{' '}
        {waits.length === 0
          ? 'nothing waits.'
          : waits.map(([why, number]) => `${why} ${countText(number)}`).join(', ')}
      </p>
      {ring !== undefined && <Faults faults={ring.faults} />}
      <div class="columns">
        <Windows windows={stats.windows} />
        <div>
          <h3>Ring</h3>
          {ring === undefined ? (
            <p class="muted">
              {lane === 'ring' ? 'It was not looked at.' : `The lane ${lane} has no ring.`}
            </p>
          ) : (
            <>
              <Outbox label="we send" outbox={ring.sent} />
              <Outbox label="the peer sends" outbox={ring.received} />
            </>
          )}
          <p class="muted">
            {countText(stats.blocks.inUse)} blocks in use; leases: {countText(stats.leases.held)}{' '}
            held, {countText(stats.leases.inPlace)} given out in place and{' '}
            {countText(stats.leases.copied)} as copies, ever; {bytesText(stats.queuedBytes)} wait
            for the lane
          </p>
        </div>
      </div>
      <OpenCalls streams={streams} more={moreStreams} />
      <Leases leases={leases} />
      <Methods title="Methods that we call" methods={stats.methods.called} />
      <Methods title="Methods that the peer calls" methods={stats.methods.served} />
    </>
  );
}

/**
 * The part of each window that is used, as the rings show theirs: a full bar means that a sender
 * waits. The whole of a window is the most that was left while the page was open.
 */
function Windows({ windows }: { readonly windows: ReportedSession['stats']['windows'] }) {
  const most = useRef<Record<string, number>>({});
  return (
    <div>
      <h3>Windows: used by what we sent</h3>
      {Object.entries(windows).map(([name, { left, held }]) => {
        const max = Math.max(1, most.current[name] ?? 0, left);
        most.current[name] = max;
        const text = `${bytesText(left)} left; ${bytesText(held)} of the peer's held`;
        const bar = { label: name, value: max - left, max, text, isBad: left <= 0 };
        return <Bar key={name} {...bar} />;
      })}
    </div>
  );
}

interface OutboxProps {
  readonly label: string;
  readonly outbox: OutboxReport | undefined;
}

function Outbox({ label, outbox }: OutboxProps) {
  if (outbox === undefined) return <p class="muted">{label}: unreadable</p>;
  const { unreadBytes, capacityBytes, sleepsForRecords, sleepsForRoom } = outbox;
  const sleeps = [
    ...(sleepsForRecords ? ['its owner sleeps until records come'] : []),
    ...(sleepsForRoom ? ['its owner sleeps until there is room'] : []),
  ];
  const text = `${bytesText(unreadBytes)} of ${bytesText(capacityBytes)} unread${sleeps.map((each) => `; ${each}`).join('')}`;
  return <Bar label={label} value={unreadBytes ?? 0} max={capacityBytes} text={text} />;
}

interface OpenCallsProps {
  readonly streams: readonly InspectedStream[];
  readonly more: number;
}

const openShown = 100;
/** Calls among them that wait to begin: these are younger than those that they wait for. */
const waitingShown = 20;

function OpenCalls({ streams, more }: OpenCallsProps) {
  const sorted = streams.toSorted((a, b) => (b.ageMs ?? 0) - (a.ageMs ?? 0));
  const waiting = sorted.filter(({ id }) => id === undefined).slice(0, waitingShown);
  const begun = sorted.filter(({ id }) => id !== undefined).slice(0, openShown - waiting.length);
  const oldest = [...begun, ...waiting];
  const hidden = streams.length - oldest.length + more;
  return (
    <>
      <h3>Open calls, the oldest first</h3>
      {oldest.length === 0 && <p class="muted">No call is open.</p>}
      {oldest.length > 0 && (
        <Scroll label="Table of open calls" hasWords>
          <table>
            <thead>
              <tr>
                <th scope="col">call</th>
                <th scope="col">by</th>
                <th scope="col">method</th>
                <th scope="col">state</th>
                <th scope="col">age</th>
                <th scope="col">deadline in</th>
                <th scope="col">sending</th>
                <th scope="col">not taken</th>
              </tr>
            </thead>
            <tbody>
              {oldest.map((stream, at) => (
                <tr key={stream.id === undefined ? at : `${stream.openedBy} ${stream.id}`}>
                  <th scope="row">{stream.id ?? '–'}</th>
                  <td>{stream.openedBy === 'us' ? 'us' : 'the peer'}</td>
                  <td>{stream.method}</td>
                  <td>
                    {stream.kind}, {stateText(stream)}
                  </td>
                  <td>{durationText(stream.ageMs)}</td>
                  <td>{deadlineText(stream.deadlineInMs)}</td>
                  <td>{sendingText(stream)}</td>
                  <td>{bytesText(stream.untakenBytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {hidden > 0 && <p class="muted">and {countText(hidden)} more</p>}
    </>
  );
}

function deadlineText(ms: number | undefined): string {
  if (ms === undefined) return 'none';
  return ms < 0 ? `passed ${durationText(-ms)} ago` : durationText(ms);
}

function sendingText({ sending }: InspectedStream): string {
  if (sending === undefined) return '–';
  const credit = `may send ${bytesText(sending.creditBytes)}`;
  if (sending.waitsFor === undefined) return credit;
  return `${credit}; ${countText(sending.waiting)} wait for ${sending.waitsFor}`;
}

const leasesShown = 10;

function Leases({ leases }: Pick<ReportedSession, 'leases'>) {
  if (leases.length === 0) return null;
  const oldest = leases.toSorted((a, b) => b.ageMs - a.ageMs).slice(0, leasesShown);
  const hidden = leases.length - oldest.length;
  return (
    <>
      <h3>Leases that were not released, the oldest first</h3>
      <ul>
        {oldest.map(({ id, bytes, owner, ageMs }) => (
          <li key={id}>
            {id}: {bytesText(bytes)} of {owner}, for {durationText(ageMs)}
          </li>
        ))}
        {hidden > 0 && <li>and {countText(hidden)} more</li>}
      </ul>
    </>
  );
}

interface MethodsProps {
  readonly title: string;
  readonly methods: readonly MethodStats[];
}

const percentiles = ['p50', 'p90', 'p99', 'max'] as const;

/** Methods that are drawn: those with the most calls. */
const methodsShown = 100;

function Methods({ title, methods }: MethodsProps) {
  if (methods.length === 0) return null;
  const busiest = methods.toSorted((a, b) => b.started - a.started).slice(0, methodsShown);
  const hidden = methods.length - busiest.length;
  return (
    <>
      <h3>{title}</h3>
      <Scroll label={title}>
        <table>
          <thead>
            <tr>
              <th scope="col">method</th>
              <th scope="col">succeeded</th>
              <th scope="col">failed</th>
              {percentiles.map((each) => (
                <th key={each} scope="col">
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {busiest.map(({ method, kind, succeeded, failed, latencyMs }) => (
              <tr key={`${method} ${kind}`}>
                <th scope="row">{method}</th>
                <td>{countText(succeeded)}</td>
                <td>{countText(failed)}</td>
                {percentiles.map((each) => (
                  <td key={each}>
                    {durationText(latencyMs.count === 0 ? undefined : latencyMs[each])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {hidden > 0 && <p class="muted">and {countText(hidden)} more, with fewer calls</p>}
    </>
  );
}
