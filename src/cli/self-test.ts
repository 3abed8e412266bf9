// SPDX-License-Identifier: MIT
// One second of real calls to a second process: answers compared, a stream paced, a call cancelled.

import { Buffer } from 'node:buffer';
import { errorText } from '../base/error-text.ts';
import type { Helper } from '../helper/spawn-helper.ts';
import { bytes } from '../rpc/contract/codec.ts';
import { serverStream, service, unary } from '../rpc/contract/service.ts';
import type { LaneFinding, SelfTest } from './findings.ts';

/** The contract that the second process serves to the doctor. */
export const DoctorService = service('sidecall.Doctor', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  echo: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  count: serverStream<{ to: number }, number>(),
  hang: unary<void, void>(),
  connect: unary<{ path: string }, Pick<LaneFinding, 'lane' | 'laneReason' | 'origin'>>(),
});

const callsForMs = 800;
const bytesForMs = 200;
const payloadBytes = 1_000_000;
const streamedCount = 1_000;
const cancelAfterMs = 20;

/** @throws what a call rejects with: the caller reports it. */
export async function runSelfTest(helper: Helper): Promise<SelfTest> {
  const client = helper.client(DoctorService);
  const pingMs = await helper.session.ping({ timeoutMs: 5_000 });
  const times: number[] = [];
  const wrong: string[] = [];
  for (const until = performance.now() + callsForMs; performance.now() < until; ) {
    const since = performance.now();
    const { sum } = await client.add({ a: times.length, b: 1 }, { timeoutMs: 5_000 });
    if (sum !== times.length + 1) wrong.push(`${times.length} + 1 was answered by ${sum}`);
    times.push(performance.now() - since);
  }
  const payload = Buffer.alloc(payloadBytes);
  let megabytes = 0;
  for (const until = performance.now() + bytesForMs; performance.now() < until; megabytes += 1) {
    payload.fill(megabytes);
    const echoed = await client.echo(payload, { timeoutMs: 5_000 });
    if (Buffer.compare(payload, echoed) !== 0) wrong.push('1 MB came back changed');
  }
  let streamed = 0;
  for await (const number of client.count({ to: streamedCount }, { timeoutMs: 5_000 })) {
    if (number !== streamed) wrong.push(`a stream gave ${number} for ${streamed}`);
    streamed += 1;
  }
  await expectCancel((signal) => client.hang(undefined, { signal, timeoutMs: 5_000 }), wrong);
  times.sort((a, b) => a - b);
  return {
    ok: wrong.length === 0,
    reason: wrong[0],
    calls: times.length,
    medianUs: Math.round(1_000 * (times[times.length >> 1] as number)),
    slowestUs: Math.round(1_000 * (times.at(-1) as number)),
    megabytes,
    streamed,
    pingMs,
  };
}

async function expectCancel(
  call: (signal: AbortSignal) => Promise<void>,
  wrong: string[],
): Promise<void> {
  const reason = new Error('cancelled by the self-test');
  const aborter = new AbortController();
  const pending = call(aborter.signal);
  setTimeout(() => aborter.abort(reason), cancelAfterMs);
  try {
    await pending;
    wrong.push('a cancelled call was answered');
  } catch (error) {
    if (error !== reason) wrong.push(`a cancelled call rejected with ${errorText(error)}`);
  }
}
