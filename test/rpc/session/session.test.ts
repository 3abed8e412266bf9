// The properties of a session, from its beginning to behind its end.
import { describe, expect, it } from 'vitest';
import type { Session } from '../../../src/rpc/session/session.ts';
import { Demo, demoHandlers, Flow, flowHandlers, until } from '../../support/contract.ts';
import { lanes } from '../../support/pairs.ts';

function viewOf(session: Session) {
  const { state, id, lane, laneReason, peer } = session;
  const { calls, handlers } = session.stats();
  return { state, id, lane, laneReason, peer, open: calls.open, running: handlers.running };
}

describe.each(lanes)('a session over the $lane', ({ lane, openPair }) => {
  it('says what it is before, during and after its calls, and behind its end', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    pair.far.serve(Flow, flowHandlers());
    const fresh = viewOf(pair.near);
    expect(fresh).toMatchObject({ state: 'open', lane, open: 0, running: 0 });
    expect(fresh.laneReason).not.toBe('');
    expect(fresh.peer.pid).toBe(process.pid);
    expect(pair.near.health.get('')).toBe('serving');

    const stop = new AbortController();
    const hanging = pair.near.client(Demo).hang(undefined, { signal: stop.signal });
    const rejected = expect(hanging).rejects.toThrow('enough');
    await until(() => pair.far.stats().handlers.running === 1);
    expect(viewOf(pair.near)).toEqual({ ...fresh, open: 1 });
    stop.abort(new Error('enough'));
    await rejected;

    const flow = pair.near.client(Flow);
    const streams = Array.from({ length: 100 }, async () => {
      for await (const _ of flow.count({ to: 3 }));
    });
    expect(pair.near.stats().calls.open).toBeGreaterThan(0);
    await Promise.all(streams);
    await until(() => pair.near.stats().calls.open + pair.far.stats().handlers.running === 0);
    expect(viewOf(pair.near)).toEqual(fresh);

    let isDraining = false;
    void pair.near.draining.then(() => {
      isDraining = true;
    });
    const call = pair.near.client(Demo).same('last');
    const closing = pair.near.close();
    expect(pair.near.state).toBe('draining');
    expect(await call).toBe('last');
    await closing;
    expect(isDraining).toBe(true);
    expect(await pair.near.closed).toBeUndefined();
    expect(viewOf(pair.near)).toEqual({ ...fresh, state: 'closed' });
    await expect(pair.near.client(Demo).same(1)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
    });
    await expect(pair.near.ping()).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  });
});
