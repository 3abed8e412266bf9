// Rows as a table for people.

/** Prints one line per row, the spread of its rounds beside the median. */
export function printTable(rows) {
  const columns = [
    'peer',
    'lane',
    'size',
    'inFlight',
    'calls/s',
    'spread',
    'p50 µs',
    'p99 µs',
    'CPU µs/call',
    'errors',
  ];
  const lines = rows.map((row) => [
    row.peer,
    row.lane ?? '',
    String(row.size),
    String(row.inFlight),
    Math.round(row.callsPerSecond).toLocaleString('en'),
    spread(row.rounds),
    row.p50Us.toFixed(1),
    row.p99Us.toFixed(1),
    (((row.cpuClientSeconds + row.cpuServerSeconds) * 1e6) / row.calls).toFixed(1),
    String(row.errors),
  ]);
  const widths = columns.map((column, at) =>
    Math.max(column.length, ...lines.map((line) => line[at].length)),
  );
  const print = (cells) =>
    console.log(
      cells
        .map((cell, at) => (at < 2 ? cell.padEnd(widths[at]) : cell.padStart(widths[at])))
        .join('  '),
    );
  print(columns);
  for (const line of lines) print(line);
}

function spread(rounds) {
  const low = Math.min(...rounds);
  const high = Math.max(...rounds);
  return `±${(((high - low) / 2 / ((high + low) / 2)) * 100).toFixed(0)} %`;
}
