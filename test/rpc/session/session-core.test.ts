// A session whose connection has ended, before the exit of the peer's process is known.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../../src/base/errors.ts';
import { checkLimits } from '../../../src/base/limits/option-limits.ts';
import { json } from '../../../src/rpc/contract/json.ts';
import { service, unary } from '../../../src/rpc/contract/service.ts';
import { Session } from '../../../src/rpc/session/session.ts';
import { type LoopbackTransport, loopbackPair } from '../../../src/wire/loopback-transport.ts';
import type { FrameReceiver } from '../../../src/wire/transport.ts';
import { until } from '../../support/contract.ts';
import { loopbackPeer } from '../../support/pairs.ts';

const Work = service('Work', { wait: unary() });
const exit = new SidecallError('ERR_SIDECALL_PEER_GONE', 'helper 7 ended with exit code 3');
const cut = new SidecallError('ERR_SIDECALL_PEER_GONE', 'the peer ended in the middle of a frame');
const limits = checkLimits({ streamsMax: 8 });
const settled = (error: unknown): unknown => error;

/** A pair whose near end waits for an exit; `end` ends its connection as a lane does. */
async function openWaiting(drainLast?: () => void) {
  const [transport, far] = loopbackPair() as [LoopbackTransport, LoopbackTransport];
  let receiver!: FrameReceiver;
  const start = transport.start.bind(transport);
  const lane = Object.assign(transport, {
    ...(drainLast && { drainLast }),
    start: (to: FrameReceiver) => {
      receiver = to;
      start(to);
    },
  });
  const parts = { peer: loopbackPeer, own: limits, remote: limits, laneReason: 'a test' };
  const near = new Session({ ...parts, transport: lane, exitKnownMs: 60_000 });
  const other = new Session({ ...parts, transport: far });
  await near.ping();
  const end = (error?: SidecallError): void => receiver.onEnd(error);
  return { near, far: other, end, [Symbol.asyncDispose]: () => near.close({ deadlineMs: 0 }) };
}

describe('a session whose connection has ended', () => {
  it.each([
    ['in order', undefined],
    ['in the middle of a frame', cut],
  ])('%s names the exit that is told later', async (_, error) => {
    await using pair = await openWaiting();
    const pending = pair.near.call('Work.wait').catch(settled);
    await pair.near.ping();
    pair.end(error);
    expect(pair.near.state).toBe('draining');
    pair.near.terminate(exit);
    expect(await pending).toMatchObject({ message: `Work.wait: ${exit.message}` });
  });

  it('names the exit that was told while frames were still handed out', async () => {
    await using pair = await openWaiting(() => undefined); // the lane ends already
    const pending = pair.near.call('Work.wait').catch(settled);
    await pair.near.ping();
    pair.near.terminate(exit);
    pair.end();
    expect(pair.near.state).toBe('closed');
    expect(await pending).toMatchObject({ message: `Work.wait: ${exit.message}` });
  });

  it('admits no message meanwhile', async () => {
    await using pair = await openWaiting();
    const accepted = pair.far.channels(json<string>(), { name: 'log' });
    const channel = pair.near.openChannel(json<string>(), { name: 'log' });
    await channel.send('first');
    pair.end();
    const admitted: unknown[] = [];
    const late = channel.send('late').then(() => admitted.push('late'), settled);
    await new Promise((resolve) => setImmediate(resolve));
    expect(admitted).toEqual([]);
    pair.near.terminate(exit);
    expect(await late).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await accepted.return?.();
  });

  it('tells handlers at once, and starts none', async () => {
    await using pair = await openWaiting();
    const signals: AbortSignal[] = [];
    pair.near.serve(Work, {
      wait: (_: unknown, { signal }: { signal: AbortSignal }) => {
        signals.push(signal);
        return new Promise((_resolve, reject) => signal.addEventListener('abort', reject));
      },
    });
    const calls = Array.from({ length: limits.streamsMax + 10 }, () =>
      pair.far.call('Work.wait').catch(settled),
    );
    await until(() => signals.length === limits.streamsMax);
    pair.end();
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(signals).toHaveLength(limits.streamsMax);
    pair.near.terminate(exit);
    await Promise.all(calls);
  });
});
