// Calls are made one at a time; the pause before each is long enough for both sides to sleep.
import { measured, pause, payloadOf } from '../rows.mjs';

const pauseMs = 3;
const longWarmUpMs = 1500;

export const wake = {
  name: 'wake',
  about: 'a call when both sides sleep',
  peers: ['sidecall', 'sidecall-nopoll', 'net', 'child_process-advanced'],
  codecs: ['bytes'],

  cells: ({ seconds }) => [{ codec: 'bytes', size: 64, inFlight: 1, seconds }],

  takes: () => true,

  async run(peer, cell) {
    const payload = payloadOf(cell.size);
    // A warm-up, so that the code is compiled; the processes still sleep before each call.
    const warmUntil = performance.now() + Math.min(longWarmUpMs, cell.seconds * 1000);
    while (performance.now() < warmUntil) await peer.echo(payload);
    for (let count = 0; count < Math.min(100, cell.seconds * 100); count += 1) {
      await pause(pauseMs);
      await peer.echo(payload);
    }
    const until = performance.now() + cell.seconds * 1000;
    const latencies = [];
    let errors = 0;
    return measured(peer, cell, async () => {
      while (performance.now() < until) {
        await pause(pauseMs);
        const begun = performance.now();
        const answer = await peer.echo(payload);
        latencies.push((performance.now() - begun) * 1000);
        if (!payload.equals(answer)) errors += 1;
      }
      return { calls: latencies.length, errors, latencies: Float64Array.from(latencies) };
    });
  },
};
