// Frames that arrive late, or in the same batch as the frame that they end.

import { describe, expect, it } from 'vitest';
import { FrameFlag, FrameType } from '../../src/wire/frame-header.ts';
import { Demo, demoHandlers, Flow, flowHandlers, turns, until } from '../support/contract.ts';
import { hostilePeer } from '../support/hostile.ts';
import { openLoopback } from '../support/pairs.ts';

describe('edges that only frames show', () => {
  it('a refused stream gives back what had arrived of it', async () => {
    const sessionWindowBytes = 65_536;
    const limits = { streamsMax: 1, streamWindowBytes: 16_384, receiveMaxBytes: 4096 };
    const peer = hostilePeer({ ...limits, sessionWindowBytes });
    const sum = async (numbers: AsyncIterableIterator<number>): Promise<never> => {
      await numbers.next().catch(() => undefined);
      return new Promise(() => undefined);
    };
    peer.session.serve(Flow, flowHandlers({ sum }));
    peer.announce('Flow.sum');
    const flags = FrameFlag.fromOpener | FrameFlag.streamed;
    peer.open({ kind: 4, slot: 0 });
    await turns(3);
    // The one handler that may run never settles, though its call was ended for a message that is
    // no JSON: each further call is refused.
    peer.send(peer.write.message(flags, 0, 1, 1), '{');
    await until(() => peer.heard.some(({ type }) => type === FrameType.end));
    const message = new Uint8Array(4000);
    const refusals = (): number => peer.heard.filter(({ type }) => type === FrameType.reset).length;
    // Four messages each: after a few the window would be spent, if they were not given back.
    for (let generation = 2; generation < 60; generation += 1) {
      peer.open({ kind: 4, slot: 0, generation });
      for (let at = 0; at < 4; at += 1) {
        peer.send(peer.write.message(flags, 0, generation, message.byteLength), message);
      }
      await until(() => refusals() === generation - 1 || peer.session.state === 'closed');
      expect(peer.session.state).toBe('open');
    }
    await peer.session.close({ deadlineMs: 0 });
  });

  it('a cancel with unknown flags, found in the middle of a handler, closes the session and not the handler', async () => {
    const peer = hostilePeer();
    let answer: boolean | undefined;
    peer.session.serve(
      Demo,
      demoHandlers({
        same: (value, ctx) => {
          const bad = peer.write.reset(FrameFlag.fromOpener, 0, 1, 1).slice();
          bad[1] = 0x80;
          peer.send(bad);
          answer = ctx.cancelledNow();
          return value;
        },
      }),
    );
    peer.announce('Demo.same');
    peer.open({}, '1');
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
    expect(answer).toBe(true);
  });

  it('a reset that came in the same batch is seen at once', async () => {
    await using pair = openLoopback();
    const answers: (boolean | undefined)[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (_value, ctx) => {
          answers.push(ctx.cancelledNow());
        },
      }),
    );
    const stop = new AbortController();
    const call = pair.near.client(Demo).same(1, { signal: stop.signal });
    stop.abort(new Error('at once'));
    await expect(call).rejects.toThrow('at once');
    await until(() => answers.length === 1);
    expect(answers).toEqual([true]);
  });
});

describe('an answer that was given up midway', () => {
  async function givenUp() {
    const peer = hostilePeer();
    const stop = new AbortController();
    const client = peer.session.client(Demo);
    const answer = client.echo(new Uint8Array(1), { signal: stop.signal });
    const rejected = expect(answer).rejects.toThrow('enough');
    await until(() => peer.heard.some(({ type }) => type === FrameType.open));
    peer.send(peer.write.message(FrameFlag.end, 0, 1, 1_000), new Uint8Array(400));
    const held = (): number => peer.session.stats().windows.answers.held;
    await until(() => held() === 1_064);
    stop.abort(new Error('enough'));
    await rejected;
    expect(held()).toBe(1_064); // the rest of it waits at the peer
    return { peer, held };
  }

  it('is given back with its last piece', async () => {
    const { peer, held } = await givenUp();
    peer.send(peer.write.fragment(0, 0, 1), new Uint8Array(599));
    await turns(3);
    expect(held()).toBe(1_064);
    peer.send(peer.write.fragment(0, 0, 1), new Uint8Array(1));
    await until(() => held() === 0);
    expect(peer.session.state).toBe('open');
    await peer.session.close({ deadlineMs: 0 });
  });

  it('is given back when its session is over', async () => {
    const { peer, held } = await givenUp();
    await peer.session.close({ deadlineMs: 0 });
    expect(held()).toBe(0);
  });
});
