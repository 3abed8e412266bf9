// There and back, verified: length on every call, content on every hundredth.
import { measured, objectOf, payloadOf, warmUpSeconds } from '../rows.mjs';

const sampleEvery = 100;
const samplesMax = 2_000_000;

export const echo = {
  name: 'echo',
  about: 'one call after the other, or several at once, without pauses',
  peers: [
    'sidecall',
    'net',
    'child_process-json',
    'child_process-advanced',
    'messageport',
    'vscode-jsonrpc',
    'grpc-js',
    'connect-node',
    'zeromq',
    'golib-uds',
    'grpc-go-uds',
    'grpc-go-tcp',
    'shmipc-go',
    'c-uds',
    'c-tcp',
    'c-ring',
  ],
  codecs: ['bytes', 'borrowed', 'json', 'protobuf'],

  cells: ({ sizes, depths, seconds, codecs }) =>
    codecs.flatMap((codec) =>
      sizes.flatMap((size) => depths.map((inFlight) => ({ codec, size, inFlight, seconds }))),
    ),

  /**
   * Only sidecall has codecs to choose (texts to 1,024 bytes, since long JSON texts measure JSON);
   * the C programs have one call in flight.
   */
  takes: (peer, { codec, size, inFlight }) =>
    (codec === 'bytes' || (peer === 'sidecall' && (codec === 'borrowed' || size <= 1024))) &&
    (!peer.startsWith('c-') || inFlight === 1),

  run: runEcho,
};

/** Runs in the client process, over an open peer. */
export async function runEcho(peer, cell) {
  const { codec, size, inFlight, seconds } = cell;
  const call = callOf(peer, codec, size);
  await load(call, inFlight, warmUpSeconds(seconds));
  return measured(peer, cell, () => load(call, inFlight, seconds));
}

function callOf(peer, codec, size) {
  if (codec === 'bytes') return bytesCall(peer, size);
  return codec === 'borrowed' ? borrowedCall(peer, size) : objectCall(peer, codec, size);
}

/** The answer of each call comes into a buffer that is used again. */
export function borrowedCall(peer, size) {
  const payload = payloadOf(size);
  const buffers = [];
  return async (isSampled) => {
    const into = buffers.pop() ?? Buffer.allocUnsafeSlow(size);
    const answer = await peer.echoBorrowed(payload, into);
    const isRight = answer.length === size && (!isSampled || payload.equals(answer));
    buffers.push(into);
    return isRight;
  };
}

function bytesCall(peer, size) {
  const payload = payloadOf(size);
  return async (isSampled) => {
    const answer = await peer.echo(payload);
    return answer.length === size && (!isSampled || payload.equals(answer));
  };
}

function objectCall(peer, codec, size) {
  const value = objectOf(size);
  const text = JSON.stringify(value);
  const echo = codec === 'json' ? peer.echoJson : peer.echoProtobuf;
  return async (isSampled) => {
    const answer = await echo(value);
    return answer.id === 7 && (!isSampled || JSON.stringify(answer) === text);
  };
}

export async function load(call, inFlight, seconds) {
  const until = performance.now() + seconds * 1000;
  const latencies = new Float64Array(samplesMax);
  let calls = 0;
  let errors = 0;
  const caller = async () => {
    for (let now = performance.now(); now < until; ) {
      const isRight = await call(calls % sampleEvery === 0);
      const after = performance.now();
      if (calls < samplesMax) latencies[calls] = (after - now) * 1000;
      calls += 1;
      if (!isRight) errors += 1;
      now = after;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return { latencies: latencies.subarray(0, Math.min(calls, samplesMax)), calls, errors };
}
