import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../../src/base/errors.ts';
import { incidentOf } from '../../../src/base/incident.ts';
import type { Peer } from '../../../src/base/peer.ts';
import { endOf } from '../../../src/rpc/session/end-errors.ts';
import { Demo } from '../../support/contract.ts';
import { loopbackPeer, openLoopback } from '../../support/pairs.ts';

describe('the error of a connection that ended', () => {
  it('names the process, unless its pid is only a hint', () => {
    const textOf = (peer: Partial<Peer>): string =>
      endOf(undefined, undefined, { ...loopbackPeer, pid: 4711, ...peer }).reason.message;
    expect(textOf({})).toBe("the peer's end closed (pid 4711)");
    expect(textOf({ capturedAt: 'listen' })).toMatch('(listener of pid 4711)');
    expect(textOf({ pidIsHint: true })).toMatch(/closed$/);
    expect(textOf({ pid: undefined })).toMatch(/closed$/);
    expect(textOf({ pid: 0 })).toMatch(/closed$/); // of another pid namespace
  });

  it('is the exit of the process where that is known, unless the peer broke a rule', () => {
    const gone = new SidecallError('ERR_SIDECALL_PEER_GONE');
    const exit = new SidecallError('ERR_SIDECALL_PEER_GONE', 'exit code 7');
    const broken = new SidecallError('ERR_SIDECALL_PROTOCOL');
    expect(endOf(undefined, exit, loopbackPeer)).toEqual({ reason: exit, isFinal: true });
    expect(endOf(gone, exit, loopbackPeer)).toEqual({ reason: exit, isFinal: true });
    expect(endOf(gone, undefined, loopbackPeer)).toEqual({ reason: gone, isFinal: false });
    expect(endOf(broken, exit, loopbackPeer)).toEqual({ reason: broken, isFinal: true });
  });
});

describe('goaways of two sessions', () => {
  async function incidentOfGoaway(): Promise<object | undefined> {
    await using pair = await openLoopback();
    void pair.far.close();
    await pair.near.draining;
    const call = pair.near.client(Demo).add({ a: 1, b: 1 });
    const error = await call.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'ERR_SIDECALL_GOING_AWAY' });
    return incidentOf(error as SidecallError);
  }

  it('are two incidents, so that the budget of retries counts both', async () => {
    const [first, second] = [await incidentOfGoaway(), await incidentOfGoaway()];
    expect(first).toBeDefined();
    expect(second).toBeDefined();
    expect(first).not.toBe(second);
  });

  it('are one for all calls of a session, also for those that had a slot', async () => {
    await using pair = await openLoopback();
    const [, far] = pair.transports;
    far.isHeld = true; // nothing is read: the lane fills up
    const client = pair.near.client(Demo);
    const refused: SidecallError[] = [];
    const fills = Buffer.alloc(60_000);
    for (let n = 0; n < 200; n += 1) client.echo(fills).catch((error) => refused.push(error));
    const { waits } = pair.near.stats();
    expect(waits).toMatchObject({ 'send-queue': expect.any(Number), peer: expect.any(Number) });
    void pair.far.close();
    await pair.near.draining;
    await new Promise((resolve) => setImmediate(resolve));
    // Those behind the queue, which had no slot, and those in it, which had one.
    expect(refused.length).toBeGreaterThan(waits['send-queue']);
    for (const error of refused) {
      expect(error).toMatchObject({ code: 'ERR_SIDECALL_GOING_AWAY', delivered: 'no' });
    }
    expect(new Set(refused.map(incidentOf)).size).toBe(1);
    far.release();
  });
});
