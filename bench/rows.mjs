// Fields of a row that all scenarios have.
import protobufjs from 'protobufjs';

/** Quantiles of latencies in microseconds; sorts in place. */
export function quantiles(latencies) {
  const sorted = latencies.sort();
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return {
    p50Us: at(0.5),
    p90Us: at(0.9),
    p99Us: at(0.99),
    p999Us: at(0.999),
    maxUs: at(1),
  };
}

/** Runs `work`, which returns `{ calls, errors, latencies }`, and makes a row of it. */
export async function measured(peer, { codec, size, inFlight }, work) {
  const cpuBefore = peer.cpu();
  const partsBefore = peer.cpuParts?.();
  const begun = performance.now();
  const { calls, errors, latencies } = await work();
  const elapsed = (performance.now() - begun) / 1000;
  const cpuAfter = peer.cpu();
  const partsAfter = peer.cpuParts?.();
  const { client: rssClientBytes, server: rssServerBytes } = peer.rss();
  return {
    codec,
    size,
    inFlight,
    callsPerSecond: calls / elapsed,
    bytesPerSecond: (2 * size * calls) / elapsed,
    ...quantiles(latencies),
    cpuClientSeconds: cpuAfter.client - cpuBefore.client,
    cpuServerSeconds: cpuAfter.server - cpuBefore.server,
    ...(partsAfter && {
      cpuUserSeconds: partsAfter.user - partsBefore.user,
      cpuSystemSeconds: partsAfter.system - partsBefore.system,
    }),
    rssClientBytes,
    rssServerBytes,
    calls,
    errors,
    touched: true,
    messageLimitBytes: peer.messageLimitBytes ?? null,
  };
}

/**
 * How long a cell runs before it is measured, in seconds, so that V8 has compiled the code and set
 * the sizes of its heap: 2, or less in a short run.
 */
export function warmUpSeconds(measuredSeconds) {
  return Math.min(2, 2 * measuredSeconds);
}

/** A payload whose bytes differ. */
export function payloadOf(size) {
  const payload = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) payload[at] = (at * 31) % 251;
  return payload;
}

/** A value whose JSON text has `size` bytes: four fields, one of them a string that fills it. */
export function objectOf(size) {
  const value = { id: 7, ok: true, at: 1.5, text: '' };
  value.text = 'x'.repeat(Math.max(0, size - JSON.stringify(value).length));
  return value;
}

/** The message of {@link objectOf} in protobuf. */
export const messageType = new protobufjs.Type('Message')
  .add(new protobufjs.Field('id', 1, 'int32'))
  .add(new protobufjs.Field('ok', 2, 'bool'))
  .add(new protobufjs.Field('at', 3, 'double'))
  .add(new protobufjs.Field('text', 4, 'string'));

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
