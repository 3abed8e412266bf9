import { describe, expect, it } from 'vitest';
import type { SidecallError } from '../../../src/base/errors.ts';
import { incidentOf } from '../../../src/base/incident.ts';
import { peerGone } from '../../../src/rpc/session/end-errors.ts';
import { Demo } from '../../support/contract.ts';
import { loopbackPeer, openLoopback } from '../../support/pairs.ts';

describe('the error of a connection that ended', () => {
  it('names the process, unless its pid is only a hint', () => {
    const peer = { ...loopbackPeer, pid: 4711 };
    expect(peerGone({ ...peer, pidIsHint: false }).message).toContain('4711');
    expect(peerGone({ ...peer, pidIsHint: true }).message).not.toContain('4711');
    expect(peerGone({ ...peer, pid: undefined }).message).toMatch(/closed$/);
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
});
