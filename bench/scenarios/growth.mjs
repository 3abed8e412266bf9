// The rate of calls as load grows (goal P12): more calls in flight, more sessions on one listener,
// and after ten million calls; and the time for which thousands of calls that end at once hold the
// event loop.
import { measured, pause, payloadOf, warmUpSeconds } from '../rows.mjs';
import { load } from './echo.mjs';

const manyCalls = 10_000_000;
const window = 500_000;
const smokeWindow = 20_000;
const ends = 10_000;

export const growth = {
  name: 'growth',
  about: 'more calls in flight, more sessions, and after ten million calls',
  peers: ['sidecall'],
  codecs: ['bytes'],

  cells: ({ seconds }) => {
    // A short run only checks that the scenario works.
    const isSmoke = seconds < 0.5;
    const depths = isSmoke ? [16] : [1, 4, 16, 64, 256];
    const sessions = isSmoke ? [10] : [10, 1000];
    return [
      ...depths.map((inFlight) => cellOf({ what: 'in flight', inFlight, seconds })),
      ...sessions.map((count) =>
        cellOf({ what: `${count} sessions`, inFlight: 16, sessions: count, seconds }),
      ),
      cellOf({
        what: 'many calls',
        inFlight: 64,
        seconds,
        window: isSmoke ? smokeWindow : window,
        total: isSmoke ? 3 * smokeWindow : manyCalls,
      }),
      ...['signal', 'deadline'].map((by) =>
        cellOf({ what: `${ends} ended by a ${by}`, by, inFlight: ends, rounds: isSmoke ? 2 : 20 }),
      ),
    ];
  },

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    const call = async () => (await peer.echo(payload)).length === cell.size;
    if (cell.by !== undefined) return manyEnds(peer, cell);
    if (cell.sessions !== undefined) return manySessions(peer, cell, payload);
    await load(call, cell.inFlight, warmUpSeconds(cell.seconds));
    if (cell.total !== undefined) return longRun(peer, cell, call, cell.total);
    const row = await measured(peer, cell, () => load(call, cell.inFlight, cell.seconds));
    return { ...row, what: cell.what };
  },
};

function cellOf(cell) {
  return { codec: 'bytes', size: 64, ...cell };
}

/** The same number of calls in flight, spread over the sessions in turn. */
async function manySessions(peer, cell, payload) {
  const { echoes, close } = await peer.openClients(cell.sessions);
  let at = 0;
  const call = async () => {
    at = (at + 1) % echoes.length;
    return (await echoes[at](payload)).length === cell.size;
  };
  await load(call, cell.inFlight, warmUpSeconds(cell.seconds));
  const row = await measured(peer, cell, () => load(call, cell.inFlight, cell.seconds));
  await close();
  return { ...row, what: cell.what };
}

/** Calls per second of the second window of half a million calls, and of the last one. */
async function longRun(peer, cell, call, total) {
  const speeds = [];
  const row = await measured(peer, cell, async () => {
    let calls = 0;
    let errors = 0;
    let begun = performance.now();
    const caller = async () => {
      while (calls < total) {
        calls += 1;
        const own = calls;
        if (!(await call())) errors += 1;
        if (own % cell.window !== 0) continue;
        const now = performance.now();
        speeds.push((cell.window * 1000) / (now - begun));
        begun = now;
      }
    };
    await Promise.all(Array.from({ length: cell.inFlight }, caller));
    return { calls, errors, latencies: new Float64Array(1) };
  });
  return { ...row, what: cell.what, firstPerSecond: speeds[1], lastPerSecond: speeds.at(-1) };
}

/** A latency is the longest time for which the event loop is held while all of a round end. */
async function manyEnds(peer, cell) {
  const row = await measured(peer, cell, async () => {
    const latencies = new Float64Array(cell.rounds);
    for (let round = -3; round < cell.rounds; round += 1) {
      const heldMs = await heldByEnds(peer, cell);
      if (round >= 0) latencies[round] = heldMs * 1000;
    }
    return { calls: cell.rounds * cell.inFlight, errors: 0, latencies };
  });
  return { ...row, what: cell.what };
}

async function heldByEnds({ hang }, { by, inFlight }) {
  const controller = new AbortController();
  const options = by === 'signal' ? { signal: controller.signal } : { timeoutMs: 500 };
  let left = inFlight;
  const onEnd = () => {
    left -= 1;
  };
  for (let at = 0; at < inFlight; at += 1) void hang(options).then(onEnd, onEnd);
  await pause(100); // they are on their way, or wait for a slot
  let longestMs = 0;
  let before = performance.now();
  controller.abort();
  while (left > 0) {
    await new Promise((resolve) => setImmediate(resolve));
    const now = performance.now();
    longestMs = Math.max(longestMs, now - before);
    before = now;
  }
  return longestMs;
}
