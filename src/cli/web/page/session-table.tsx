// SPDX-License-Identifier: MIT
// The sessions of a process in a table, which can be sorted and filtered.
import { useState } from 'preact/hooks';
import type { SessionRow } from '../../live/session-row.ts';
import { Scroll } from './scroll.tsx';
import { bytesText, countText, durationText, rateText } from './texts.ts';

type Row = Omit<SessionRow, 'sums'>;

interface Column {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly weight: (row: Row) => number | string;
}

const columns: readonly Column[] = [
  {
    title: 'peer',
    text: ({ peerPid }) => `${peerPid ?? '?'}`,
    weight: ({ peerPid }) => peerPid ?? 0,
  },
  { title: 'lane', text: ({ lane }) => lane, weight: ({ lane }) => lane },
  {
    title: 'calls/s',
    text: ({ callsPerSecond }) => rateText(callsPerSecond),
    weight: ({ callsPerSecond = 0 }) => callsPerSecond,
  },
  { title: 'open', text: ({ open }) => countText(open), weight: ({ open }) => open },
  { title: 'running', text: ({ running }) => countText(running), weight: ({ running }) => running },
  { title: 'waiting', text: ({ waiting }) => countText(waiting), weight: ({ waiting }) => waiting },
  { title: 'mean', text: ({ meanMs }) => durationText(meanMs), weight: ({ meanMs = 0 }) => meanMs },
  { title: 'p99', text: ({ p99Ms }) => durationText(p99Ms), weight: ({ p99Ms = 0 }) => p99Ms },
  {
    title: 'sent/s',
    text: ({ sentBytesPerSecond }) => bytesText(sentBytesPerSecond),
    weight: ({ sentBytesPerSecond = 0 }) => sentBytesPerSecond,
  },
  {
    title: 'received/s',
    text: ({ receivedBytesPerSecond }) => bytesText(receivedBytesPerSecond),
    weight: ({ receivedBytesPerSecond = 0 }) => receivedBytesPerSecond,
  },
  {
    title: 'quiet for',
    text: quietText,
    weight: ({ quietMs }) => quietMs,
  },
];

/** Behind `>` where it was quiet at the first look already. */
function quietText({ quietMs, isQuietFromStart }: Row): string {
  if (quietMs === 0) return '–';
  return `${isQuietFromStart ? '> ' : ''}${durationText(quietMs)}`;
}

/** Rows that are drawn: a browser is slow with thousands. */
const shownMax = 100;

interface SessionTableProps {
  readonly rows: readonly Row[];
  readonly chosen: string | undefined;
  readonly onChoose: (key: string | undefined) => void;
}

/** The largest first by the chosen column; without one, in the order in which they were opened. */
export function SessionTable({ rows, chosen, onChoose }: SessionTableProps) {
  const [sort, setSort] = useState<string>();
  const [wanted, setWanted] = useState('');
  const column = columns.find(({ title }) => title === sort);
  const found = rows.filter(
    ({ key, peerPid, lane, state }) =>
      wanted === '' || [key, `${peerPid}`, lane, state].some((text) => text.includes(wanted)),
  );
  const sorted = column === undefined ? found : found.toSorted((a, b) => order(column, a, b));
  return (
    <section aria-label="Sessions">
      <div class="line">
        <h2>Sessions</h2>
        <label>
          Filter{' '}
          <input
            type="search"
            placeholder="number, pid, lane"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </label>
      </div>
      <Scroll label="Table of sessions">
        <table>
          <thead>
            <tr>
              <th scope="col">session</th>
              {columns.map(({ title }) => (
                <th key={title} scope="col" aria-sort={title === sort ? 'descending' : 'none'}>
                  <button type="button" onClick={() => setSort(title === sort ? undefined : title)}>
                    {title}
                    {title === sort ? ' ▾' : ''}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, shownMax).map((row) => (
              <tr key={row.key} class={row.key === chosen ? 'chosen' : ''}>
                <th scope="row">
                  <button
                    type="button"
                    aria-expanded={row.key === chosen}
                    onClick={() => onChoose(row.key === chosen ? undefined : row.key)}
                  >
                    {row.key}
                    {row.state === 'open' ? '' : ` (${row.state})`}
                  </button>
                </th>
                {columns.map(({ title, text }) => (
                  <td key={title}>{text(row)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {sorted.length === 0 && (
        <p class="muted">{rows.length === 0 ? 'No session is open.' : 'No session matches.'}</p>
      )}
      {sorted.length > shownMax && (
        <p class="muted">
          The first {shownMax} of {countText(sorted.length)}: sort or filter for others.
        </p>
      )}
    </section>
  );
}

function order({ weight }: Column, a: Row, b: Row): number {
  const [x, y] = [weight(a), weight(b)];
  if (typeof x === 'number' && typeof y === 'number') return y - x;
  return String(y).localeCompare(String(x));
}
