// An open loop at a fixed rate: its CPU cost, with polling and without (goal P14). The latency of a
// late call counts from its scheduled start.
import { measured, pause, payloadOf } from '../rows.mjs';

export const paced = {
  name: 'paced',
  about: 'calls at a fixed rate: latency from when they were due, and CPU',
  peers: ['sidecall', 'sidecall-nopoll', 'net'],
  codecs: ['bytes'],

  cells: ({ seconds, rate }) => [
    {
      codec: 'bytes',
      size: 64,
      inFlight: 1,
      rate,
      seconds: seconds < 0.5 ? seconds : Math.max(seconds, 2),
    },
  ],

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    await load(peer, payload, cell.rate, 0.5);
    return measured(peer, cell, () => load(peer, payload, cell.rate, cell.seconds));
  },
};

async function load(peer, payload, rate, seconds) {
  const total = Math.round(rate * seconds);
  const begun = performance.now();
  const latencies = new Float64Array(total);
  const calls = [];
  let errors = 0;
  for (let count = 0; count < total; ) {
    const now = performance.now();
    for (; count < total && begun + (count * 1000) / rate <= now; count += 1) {
      const at = count;
      const due = begun + (at * 1000) / rate;
      calls.push(
        peer.echo(payload).then((answer) => {
          latencies[at] = (performance.now() - due) * 1000;
          if (answer.length !== payload.length) errors += 1;
        }),
      );
    }
    await pause(1);
  }
  await Promise.all(calls);
  return { calls: total, errors, latencies };
}
