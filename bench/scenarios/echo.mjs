// Bytes there and back, verified: length on every call, content on every hundredth.

const sampleEvery = 100;
const samplesMax = 2_000_000;

export const echo = {
  name: 'echo',
  peers: ['sidecall', 'net', 'child_process-advanced', 'vscode-jsonrpc'],

  cells: ({ sizes, depths, seconds }) =>
    sizes.flatMap((size) => depths.map((inFlight) => ({ size, inFlight, seconds }))),

  /** Runs in the client process, over an open peer. */
  async run(peer, { size, inFlight, seconds }) {
    const payload = Buffer.alloc(size);
    for (let at = 0; at < size; at += 1) payload[at] = (at * 31) % 251;
    await load(peer, payload, inFlight, Math.min(1, seconds / 2)); // warm-up, not counted
    const cpuBefore = peer.cpu();
    const begun = performance.now();
    const { latencies, calls, errors } = await load(peer, payload, inFlight, seconds);
    const elapsed = (performance.now() - begun) / 1000;
    const cpuAfter = peer.cpu();
    const { client: rssClientBytes, server: rssServerBytes } = peer.rss();
    const at = quantiles(latencies);
    return {
      codec: 'bytes',
      size,
      inFlight,
      callsPerSecond: calls / elapsed,
      bytesPerSecond: (2 * size * calls) / elapsed,
      p50Us: at(0.5),
      p90Us: at(0.9),
      p99Us: at(0.99),
      p999Us: at(0.999),
      maxUs: at(1),
      cpuClientSeconds: cpuAfter.client - cpuBefore.client,
      cpuServerSeconds: cpuAfter.server - cpuBefore.server,
      rssClientBytes,
      rssServerBytes,
      calls,
      errors,
      touched: true,
      messageLimitBytes: peer.messageLimitBytes ?? null,
    };
  },
};

async function load(peer, payload, inFlight, seconds) {
  const until = performance.now() + seconds * 1000;
  const latencies = new Float64Array(samplesMax);
  let calls = 0;
  let errors = 0;
  const caller = async () => {
    for (let now = performance.now(); now < until; now = performance.now()) {
      const answer = await peer.echo(payload);
      if (calls < samplesMax) latencies[calls] = (performance.now() - now) * 1000;
      calls += 1;
      const isSampled = calls % sampleEvery === 0;
      if (answer.length !== payload.length || (isSampled && !payload.equals(answer))) errors += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return { latencies: latencies.subarray(0, Math.min(calls, samplesMax)), calls, errors };
}

function quantiles(latencies) {
  const sorted = latencies.sort();
  return (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}
