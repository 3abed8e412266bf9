// The screen: one row per extension, as text. Pure: rows in, lines out.
import { styleText } from 'node:util';

const colors = {
  ...{ active: 'green', idle: 'gray', activating: 'cyan' },
  ...{ busy: 'yellow', crashed: 'red', failed: 'red', disabled: 'magenta' },
};
const barWidth = 16;

/**
 * The state of an extension, in one word: a process that lives and whose loop stands still is busy,
 * not dead.
 */
export function stateOf({ state, loop, busyForMs }) {
  return state === 'active' && loop === 'busy' && busyForMs > 0 ? 'busy' : state;
}

export function bar(done, total, width = barWidth) {
  const share = total > 0 ? Math.max(0, Math.min(1, done / total)) : 0;
  const filled = Math.round(width * share);
  return `${'█'.repeat(filled)}${'░'.repeat(width - filled)} ${Math.floor(100 * share)} %`;
}

function cut(text, width) {
  const plain = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, ' '); // strips control characters
  return plain.length > width ? `${plain.slice(0, width - 1)}…` : plain.padEnd(width);
}

/** Title and bar of a progress, at most `width` letters with the key that cancels it. */
function progressOf({ title, done, total }, width) {
  const left = width - ' 100 % [C]'.length;
  const shown = title.slice(0, Math.max(8, left - barWidth - 1));
  return `${shown} ${bar(done, total, Math.max(4, Math.min(barWidth, left - shown.length - 1)))}`;
}

/** The lines of the screen. `message` is the outcome of the last command. */
export function render(rows, { columns = 100, message = '', color = true } = {}) {
  const paint = (name, text) => (color ? styleText(name, text) : text);
  const wide = Math.max(20, columns - 57);
  const lines = [
    paint('bold', 'Extension host') +
      paint('gray', '  a–z run · C cancel · K kill busy · E enable disabled · Q quit'),
    '',
    paint(
      'gray',
      `${cut('extension', 11)} ${cut('process', 13)} ${cut('state', 13)} ${cut('restarts', 8)} ${cut('lane', 6)} doing`,
    ),
  ];
  for (const row of rows) {
    const state = stateOf(row);
    const since = state === 'busy' ? ` ${(row.busyForMs / 1_000).toFixed(1)} s` : '';
    const [progress] = row.progress;
    const doing =
      progress !== undefined
        ? `${progressOf(progress, wide)} [C]`
        : (row.why ?? row.log.at(-1) ?? '');
    const process = row.pid === undefined ? '–' : `${row.process} ${row.pid}`;
    const cells = [cut(row.name, 11), cut(process, 13)];
    const rest = [cut(String(row.restarts), 8), cut(row.lane ?? '–', 6), cut(doing, wide)];
    lines.push(
      [...cells, paint(colors[state] ?? 'white', cut(state + since, 13)), ...rest]
        .join(' ')
        .trimEnd(),
    );
  }
  return [...lines, '', cut(message, columns - 1).trimEnd()].join('\n');
}

/** Letters for commands, in the order they are shown. */
export function keysOf(commands) {
  return commands.slice(0, 26).map((each, at) => ({ key: String.fromCharCode(97 + at), ...each }));
}
