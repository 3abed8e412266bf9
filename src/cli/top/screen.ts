// SPDX-License-Identifier: MIT
// The screen of `sidecall top`: a table of sessions, or one session, as lines of a given width.
import { printable } from '../../base/printable.ts';
import type { ReportedSession } from '../../rendezvous/inspection-service.ts';
import type { MethodStats } from '../../rpc/counting/method-counters.ts';
import type { ProcessSnapshot } from '../live/process-watch.ts';
import { type SessionRow, sorted, type sortings } from '../live/session-row.ts';
import { duration, sessionLines } from '../print-inspection.ts';

/** The choices that keys have made. */
export interface TopView {
  readonly sortedBy: keyof typeof sortings;
  /** The key of the session under the cursor; undefined: the first one. */
  readonly chosen: string | undefined;
  /** The chosen session is shown alone. */
  readonly isInside: boolean;
  /** Lines of one session that are above the screen. */
  readonly scrolled: number;
  readonly isPaused: boolean;
}

/** The view at the start. */
export const firstView: TopView = {
  sortedBy: 'calls',
  chosen: undefined,
  isInside: false,
  scrolled: 0,
  isPaused: false,
};

/** The room that there is, and whether it takes colors. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
  readonly hasColor: boolean;
}

/** A screen for text without an end, as a file has it. */
export const plainScreen: Screen = { columns: Infinity, rows: Infinity, hasColor: false };

interface Column {
  readonly title: string;
  readonly width: number;
  readonly text: (row: SessionRow) => string;
}

const columns: readonly Column[] = [
  { title: 'SESSION', width: 8, text: ({ key }) => key },
  { title: 'PEER', width: 8, text: ({ peerPid }) => String(peerPid ?? '?') },
  { title: 'LANE', width: 7, text: ({ lane }) => lane },
  { title: 'CALLS/S', width: 8, text: ({ callsPerSecond }) => rate(callsPerSecond) },
  { title: 'MEAN', width: 8, text: ({ meanMs }) => latency(meanMs) },
  { title: 'P99', width: 8, text: ({ p99Ms }) => latency(p99Ms) },
  { title: 'SENT/S', width: 9, text: ({ sentBytesPerSecond }) => bytes(sentBytesPerSecond) },
  { title: 'RECV/S', width: 9, text: (row) => bytes(row.receivedBytesPerSecond) },
  { title: 'OPEN', width: 5, text: ({ open }) => String(open) },
  { title: 'RUN', width: 5, text: ({ running }) => String(running) },
  { title: 'QUIET', width: 8, text: quiet },
];

const tableKeys =
  '↑ ↓ choose · enter look inside · sort by c calls, l latency, b bytes, w waits, i id · p pause · q quit';
const insideKeys = '↑ ↓ scroll · esc back · p pause · q quit';

/** Behind `>` where it was quiet at the first look already. */
function quiet({ quietMs, isQuietFromStart }: SessionRow): string {
  if (quietMs === 0) return '-';
  return `${isQuietFromStart ? '>' : ''}${duration(quietMs)}`;
}

/** The lines of the screen. */
export function screenLines(snapshot: ProcessSnapshot, view: TopView, screen: Screen): string[] {
  const inside = view.isInside ? insideLines(snapshot, view) : undefined;
  const head = headLines(snapshot, view);
  const keys = inside === undefined ? tableKeys : insideKeys;
  const foot = screen.rows === Infinity ? [] : ['', keys];
  const room = Math.max(1, screen.rows - head.length - foot.length - 1);
  const body = inside?.slice(clampScroll(view.scrolled, inside.length, room));
  const shown = body?.slice(0, room) ?? tableLines(snapshot, view, { ...screen, rows: room });
  return [...head, ...shown, ...foot].map((line) => cut(line, screen.columns));
}

/** The rows of the table in the order of the screen. */
export function rowsOf(snapshot: ProcessSnapshot, view: TopView): readonly SessionRow[] {
  return sorted(snapshot.rows, view.sortedBy);
}

/** The row under the cursor: where its session is over, the first one. */
export function chosenRow(snapshot: ProcessSnapshot, view: TopView): SessionRow | undefined {
  const rows = rowsOf(snapshot, view);
  return rows.find(({ key }) => key === view.chosen) ?? rows[0];
}

/** The furthest that can be scrolled is the last line at the bottom of the screen. */
function clampScroll(scrolled: number, lines: number, room: number): number {
  return Math.max(0, Math.min(scrolled, lines - room));
}

function headLines(
  { pid, threads, rows, answerMs, problem }: ProcessSnapshot,
  view: TopView,
): string[] {
  const first = threads.find(({ thread }) => thread !== undefined)?.thread;
  const megabytes = Math.round((first?.residentBytes ?? 0) / 1_000_000);
  const isFirst = rows.every(({ callsPerSecond }) => callsPerSecond === undefined);
  const calls = rows.reduce((sum, { callsPerSecond = 0 }) => sum + callsPerSecond, 0);
  const waitingNow = rows.reduce((sum, { waiting }) => sum + waiting, 0);
  const failed = threads.filter(({ error }) => error !== undefined);
  const state = view.isPaused ? ' · PAUSED' : '';
  return [
    printable(
      `process ${pid} · Node ${first?.node} · sidecall ${first?.sidecall} · up ${duration(first?.uptimeMs ?? 0)} · ${megabytes} MB · answered in ${latency(answerMs)}${state}`,
    ),
    `${rows.length} ${rows.length === 1 ? 'session' : 'sessions'} · ${rate(isFirst ? undefined : calls)} calls/s · ${waitingNow} waiting · sorted by ${view.sortedBy}`,
    ...(problem === undefined ? [] : [printable(problem)]),
    ...failed.map(({ threadId, error }) => printable(`thread ${threadId}: ${error}`)),
    '',
  ];
}

function tableLines(snapshot: ProcessSnapshot, view: TopView, screen: Screen): string[] {
  const rows = rowsOf(snapshot, view);
  const chosen = chosenRow(snapshot, view);
  const title = columns.map(({ title: text, width }) => text.padStart(width)).join('');
  if (rows.length === 0) return ['No session is open.'];
  const room = Math.max(1, screen.rows - 1);
  const at = chosen === undefined ? 0 : rows.indexOf(chosen);
  const from = at < room ? 0 : at - room + 1;
  const lines = rows.slice(from, from + room).map((row) => {
    const cells = columns.map(({ text, width }) => text(row).padStart(width)).join('');
    const line = printable(`${cells}  ${waitsText(row)}`.trimEnd());
    const isChosen = row === chosen && screen.rows !== Infinity;
    return isChosen ? marked(cut(line, screen.columns), screen.hasColor) : line;
  });
  return [`${title}  WAITS`, ...lines];
}

/** The row under the cursor is reversed, or has a mark in its first column. */
function marked(line: string, hasColor: boolean): string {
  return hasColor ? `\u001b[7m${line}\u001b[27m` : `>${line.slice(1)}`;
}

function waitsText({ waits }: SessionRow): string {
  return Object.entries(waits)
    .filter(([, number]) => number > 0)
    .map(([why, number]) => `${why} ${number}`)
    .join(', ');
}

function insideLines(snapshot: ProcessSnapshot, view: TopView): string[] {
  const row = snapshot.rows.find(({ key }) => key === view.chosen);
  const session = row && sessionOf(snapshot, row);
  if (session === undefined) return ['The session is over.'];
  const { called, served } = session.stats.methods;
  return [
    ...sessionLines(session),
    ...methodLines('called by this process', called),
    ...methodLines('served by this process', served),
  ].map(printable);
}

function sessionOf(snapshot: ProcessSnapshot, row: SessionRow): ReportedSession | undefined {
  const worker = row.key.includes('.') ? Number(row.key.split('.')[0]) : 0;
  const thread = snapshot.threads.find(({ threadId }) => threadId === worker);
  return thread?.sessions.find(({ id }) => id === row.id);
}

function methodLines(title: string, methods: readonly MethodStats[]): string[] {
  if (methods.length === 0) return [];
  const head = `${title.padEnd(32)}${'ENDED'.padStart(10)}${'P50'.padStart(9)}${'P90'.padStart(9)}${'P99'.padStart(9)}${'MAX'.padStart(9)}`;
  const lines = methods.map(({ method, latencyMs: { count, p50, p90, p99, max } }) => {
    const numbers = [p50, p90, p99, max].map((ms) => latency(count === 0 ? undefined : ms));
    const cells = numbers.map((text) => text.padStart(9)).join('');
    return `  ${method.padEnd(30)}${count.toLocaleString('en').padStart(10)}${cells}`;
  });
  return [head, ...lines, ''];
}

function rate(perSecond: number | undefined): string {
  if (perSecond === undefined) return '-';
  if (perSecond > 0 && perSecond < 10) return perSecond.toFixed(1);
  return Math.round(perSecond).toLocaleString('en');
}

function latency(ms: number | undefined): string {
  if (ms === undefined) return '-';
  if (ms < 1) return `${Math.round(ms * 1_000)} µs`;
  return ms < 10 ? `${ms.toFixed(1)} ms` : duration(ms);
}

function bytes(perSecond: number | undefined): string {
  if (perSecond === undefined) return '-';
  if (perSecond < 1_000) return `${Math.round(perSecond)} B`;
  if (perSecond < 1e6) return `${(perSecond / 1e3).toFixed(1)} kB`;
  return `${(perSecond / 1e6).toFixed(1)} MB`;
}

/** A line that is no wider than the screen. A line with an escape sequence was cut before. */
function cut(line: string, width: number): string {
  if (width === Infinity || line.startsWith('\u001b')) return line;
  const letters = [...line];
  return letters.length <= width ? line : `${letters.slice(0, width - 1).join('')}…`;
}
