// Rows as a table for the terminal.

const columns = [
  'scenario',
  'peer',
  'lane',
  'codec',
  'size',
  'inFlight',
  'calls/s',
  'spread',
  'p50 µs',
  'p99 µs',
  'CPU µs/call (user + system)',
  'more',
  'errors',
];

/** Prints one line per row, the spread of its rounds beside the median. */
export function printTable(rows) {
  const lines = rows.filter((row) => row.skipped === undefined).map(cellsOf);
  const widths = columns.map((column, at) =>
    Math.max(column.length, ...lines.map((line) => line[at].length)),
  );
  const print = (cells) =>
    console.log(
      cells
        .map((cell, at) => (at < 4 ? cell.padEnd(widths[at]) : cell.padStart(widths[at])))
        .join('  '),
    );
  print(columns);
  for (const line of lines) print(line);
  for (const { scenario, peer, skipped } of rows.filter((row) => row.skipped !== undefined))
    console.log(`${scenario} ${peer}: skipped, ${skipped}`);
}

function cellsOf(row) {
  return [
    row.scenario,
    row.peer,
    row.lane ?? '',
    row.codec,
    String(row.size),
    String(row.inFlight),
    Math.round(row.callsPerSecond).toLocaleString('en'),
    spread(row.rounds),
    row.p50Us.toFixed(1),
    row.p99Us.toFixed(1),
    cpuText(row),
    more(row),
    String(row.errors),
  ];
}

/** CPU time of both processes for one call, in microseconds. */
export function cpuPerCall(row) {
  return ((row.cpuClientSeconds + row.cpuServerSeconds) * 1e6) / row.calls;
}

/** The same as text, with the parts in the program and in the kernel where both are known. */
export function cpuText(row) {
  if (row.calls === 0) return '';
  const total = cpuPerCall(row).toFixed(1);
  if (row.cpuUserSeconds === undefined) return total;
  const each = (seconds) => ((seconds * 1e6) / row.calls).toFixed(1);
  return `${total} (${each(row.cpuUserSeconds)} + ${each(row.cpuSystemSeconds)})`;
}

/** Columns of a scenario beside the common ones. */
export function more(row) {
  if (row.growthBytes !== undefined) {
    const perSecond = `${(row.bytesPerSecond / 1e6).toFixed(0)} MB/s`;
    return `${row.what}, ${perSecond}, ${(row.growthBytes / 1e6).toFixed(1)} MB growth`;
  }
  if (row.besideBytes !== undefined) {
    return `${row.what}, ${(row.besideBytes / 1e6).toFixed(0)} MB beside`;
  }
  if (row.lastPerSecond !== undefined) {
    return `${row.what}: ${Math.round(row.firstPerSecond)}/s, then ${Math.round(row.lastPerSecond)}/s`;
  }
  if (row.windows !== undefined) {
    const { windows } = row;
    const count = windows.length === 1 ? '' : `${windows.length} `;
    return `${row.what}, ${count}windows ${Math.min(...windows)} to ${Math.max(...windows)}`;
  }
  if (row.serverUsPerCall !== undefined) {
    return `${row.what}, ${row.serverUsPerCall} µs in the server for ${row.serverWhat ?? 'the command'}`;
  }
  if (row.what !== undefined) return row.what;
  if (row.mallocsPerCall !== undefined && row.scenario === 'allocs') {
    return `${row.mallocsPerCall.toFixed(1)} mallocs, both sides`;
  }
  if (row.heapBytesPerCall !== undefined) {
    const { nativeBlocksPerCall: own, nativeBlocksPerCallOfServer: server } = row;
    const blocks =
      server === undefined ? own.toFixed(2) : `${own.toFixed(2)} + ${server.toFixed(2)}`;
    return `${row.heapBytesPerCall.toFixed(0)} B heap, ${blocks} blocks, ${row.collections} GCs`;
  }
  if (row.rssBytesPerSession === undefined) return '';
  const cpuMs = (row.cpuClientSeconds + row.cpuServerSeconds) * 1000;
  return `${(row.rssBytesPerSession / 1024).toFixed(1)} KiB, ${row.wakeUps} wake-ups, ${cpuMs.toFixed(0)} ms CPU for ${row.sessions} sessions`;
}

function spread(rounds) {
  const low = Math.min(...rounds);
  const high = Math.max(...rounds);
  return high === 0 ? '' : `±${(((high - low) / 2 / ((high + low) / 2)) * 100).toFixed(0)} %`;
}
