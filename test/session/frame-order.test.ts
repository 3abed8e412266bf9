// Frames that docs/protocol.md forbids by their order or their names, one of each kind.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { FrameFlag } from '../../src/wire/frame-header.ts';
import { Demo, demoHandlers, turns } from '../support/contract.ts';
import { type Hostile, hostilePeer } from '../support/hostile.ts';

/** A frame of each type that may not be the first one. */
const early: { readonly [type: string]: (peer: Hostile) => void } = {
  method: ({ announce }) => announce('Demo.same'),
  open: ({ open }) => open({ method: 0x8000_0001 }, 'x'),
  message: ({ send, write }) => send(write.message(FrameFlag.end, 0, 1, 1), '1'),
  fragment: ({ send, write }) => send(write.fragment(FrameFlag.fromOpener, 0, 1), 'x'),
  headers: ({ send, write }) => send(write.headers(0, 1)),
  end: ({ send, write }) => send(write.end(0, 0, 1, 0, { metadataBytes: 0, textBytes: 0 })),
  reset: ({ send, write }) => send(write.reset(0, 0, 1, 1)),
  credit: ({ send, write }) => send(write.credit(0, 0, 0, 5)),
  'credit of nothing': ({ send, write }) => send(write.credit(0, 0, 0, 0)),
  goaway: ({ send, write }) => send(write.goaway(0)),
  ping: ({ send, write }) => send(write.ping(7)),
  pong: ({ send, write }) => send(write.pong(7)),
};

/** A frame of each type that belongs to a stream, of the generation 0, which none has. */
const unborn: { readonly [type: string]: (peer: Hostile) => void } = {
  open: ({ open }) => open({ generation: 0 }),
  answer: ({ send, write }) => send(write.message(FrameFlag.end, 0, 0, 1), '1'),
  'piece of an answer': ({ send, write }) => send(write.fragment(0, 0, 0), '1'),
  'piece of a request': ({ send, write }) => send(write.fragment(FrameFlag.fromOpener, 0, 0), '1'),
  headers: ({ send, write }) => send(write.headers(0, 0)),
  end: ({ send, write }) => send(write.end(0, 0, 0, 0, { metadataBytes: 0, textBytes: 0 })),
  reset: ({ send, write }) => send(write.reset(0, 0, 0, 1)),
  cancel: ({ send, write }) => send(write.reset(FrameFlag.fromOpener, 0, 0, 1)),
};

/** Ends with the text of the failure. */
async function failureOf(peer: Hostile): Promise<string | undefined> {
  const error = await peer.session.closed;
  expect(error?.code).toBe('ERR_SIDECALL_PROTOCOL');
  return error?.message;
}

describe('the order of frames', () => {
  it.each(Object.keys(early))('%s before the clock ends the session', async (type) => {
    const peer = hostilePeer({}, false);
    peer.session.serve(Demo, demoHandlers());
    early[type]?.(peer);
    expect(await failureOf(peer)).toContain('frame before the clock');
  });

  it.each(Object.keys(unborn))('%s of the generation 0 ends the session', async (type) => {
    const peer = hostilePeer();
    peer.session.serve(Demo, demoHandlers());
    peer.announce('Demo.hang');
    peer.open({});
    void peer.session.call('X.y').catch(() => undefined);
    await turns(2);
    unborn[type]?.(peer);
    expect(await failureOf(peer)).toContain('generation');
  });

  it.each([6, 7])(
    'a channel of the kind %d that is named by a number ends the session',
    async (kind) => {
      const peer = hostilePeer();
      peer.session.channels(bytes, { name: 'c' });
      peer.announce('c');
      peer.open({ kind, messageBytes: 0, windowBytes: 65_536 });
      expect(await failureOf(peer)).toContain('channel named by a number');
    },
  );
});
