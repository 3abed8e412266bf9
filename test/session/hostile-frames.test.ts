import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { FrameFlag, FrameType, writeU32 } from '../../src/wire/frame-header.ts';
import { Demo, demoHandlers, turns, until } from '../support/contract.ts';
import { type Hostile, hostilePeer, rawHeader, slotOf } from '../support/hostile.ts';

const max = 4 * 1024 * 1024;

interface Attack {
  readonly attack: string;
  readonly run: (peer: Hostile) => void | Promise<void>;
  readonly code?: string;
}

const attacks: readonly Attack[] = [
  { attack: 'a type that does not exist', run: ({ send }) => send(rawHeader(99, 0, 12)) },
  { attack: 'type 0', run: ({ send }) => send(rawHeader(0, 0, 12)) },
  { attack: 'a header that is too short', run: ({ send }) => send(rawHeader(2, 0, 12)) },
  {
    attack: 'flags that nobody defined',
    run: ({ send, write }) => {
      const header = write.goaway(0).slice();
      header[1] = 0x80;
      send(header);
    },
  },
  {
    attack: 'a reserved field that is set',
    run: ({ send, write }) => {
      const header = write.credit(0, 0, 0, 5).slice();
      writeU32(header, 8, 1);
      send(header);
    },
  },
  ...(['reset', 'credit', 'goaway', 'ping'] as const).map((type) => ({
    attack: `a payload behind ${type}`,
    run: ({ announce, open, send, write }: Hostile) => {
      announce('Demo.hang');
      open({ messageBytes: 0 });
      const header = {
        reset: () => write.reset(1, 0, 1, 1),
        credit: () => write.credit(0, 0, 0, 5),
        goaway: () => write.goaway(0),
        ping: () => write.ping(7),
      }[type]();
      send(header, 'x');
    },
  })),
  {
    attack: 'a value of metadata that is no UTF-8',
    run: ({ announce, send, write }) => {
      announce('Demo.same');
      const metadata = Buffer.from([1, 0, 0x61, 1, 0, 0, 0, 0xff]); // a = 0xff
      const open = { kind: 1, slot: 0, generation: 1, method: 0, timeoutMs: 0xffff_ffff };
      const sizes = { metadataBytes: 8, messageBytes: 0, windowBytes: 0, sentAt: 0 };
      send(write.open({ ...open, ...sizes }), metadata);
    },
  },
  ...(
    [
      ['a status above 16', 17, 0, ''],
      ['more text than there is', 13, 5, 'x'],
      ['a text that is no UTF-8', 13, 1, new Uint8Array([0xff])],
    ] as const
  ).map(([what, status, textBytes, payload]) => ({
    attack: `an answer of ${what}`,
    run: async ({ session, send, write }: Hostile) => {
      void session.call('X.y').catch(() => undefined);
      await turns(2);
      send(write.end(0, 0, 1, status, { metadataBytes: 0, textBytes }), payload);
    },
  })),
  ...(
    [
      ['a status above 16', 17, 0, ''],
      ['more text than there is', 13, 5, 'x'],
      ['a text that is no UTF-8', 13, 1, new Uint8Array([0xff])],
    ] as const
  ).map(([what, status, textBytes, payload]) => ({
    attack: `an end of a channel's opener with ${what}`,
    run: async ({ session, send, write }: Hostile) => {
      session.channels(bytes, { name: 'c' });
      const open = { kind: 6, slot: 0, generation: 1, method: 0x8000_0001, timeoutMs: 0xffff_ffff };
      const sizes = { metadataBytes: 0, messageBytes: 0, windowBytes: 65_536, sentAt: 0 };
      send(write.open({ ...open, ...sizes }), 'c');
      await turns(1);
      send(write.end(1, 0, 1, status, { metadataBytes: 0, textBytes }), payload);
    },
  })),
  {
    attack: 'a method number out of turn',
    run: ({ send, write }) => send(write.method(1), 'x'),
  },
  {
    attack: 'a method number announced twice',
    run: ({ send, write }) => {
      send(write.method(0), 'x');
      send(write.method(0), 'x');
    },
  },
  { attack: 'a method name of no bytes', run: ({ send, write }) => send(write.method(0)) },
  {
    attack: 'a method name of 257 bytes',
    run: ({ send, write }) => send(write.method(0), 'x'.repeat(257)),
  },
  {
    attack: 'a method name that is not UTF-8',
    run: ({ send, write }) => send(write.method(0), new Uint8Array([0xff])),
  },
  {
    attack: 'more method names than fit',
    run: async ({ announce }) => {
      for (let at = 0; at <= 4096; at += 1) {
        announce(`m${at}`);
        if (at % 500 === 0) await turns();
      }
    },
  },
  { attack: 'a call of a method never announced', run: ({ open }) => open({}) },
  {
    attack: 'a message over the limit',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ messageBytes: max + 1 });
    },
    code: 'ERR_SIDECALL_FRAME_TOO_LARGE',
  },
  {
    attack: 'a message of 2^32 - 1 bytes',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ messageBytes: 0xffff_ffff });
    },
    code: 'ERR_SIDECALL_FRAME_TOO_LARGE',
  },
  {
    attack: 'more bytes than the message announced',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ messageBytes: 1 }, '[1]');
    },
  },
  {
    attack: 'a fragment beyond the message',
    run: ({ announce, open, send, write }) => {
      announce('Demo.same');
      open({ messageBytes: 4 }, '[1');
      send(write.fragment(FrameFlag.fromOpener, 0, 1), '12345');
    },
  },
  {
    attack: 'a fragment of no bytes',
    run: ({ announce, open, send, write }) => {
      announce('Demo.same');
      open({ messageBytes: 4 }, '[1');
      send(write.fragment(FrameFlag.fromOpener, 0, 1));
    },
  },
  {
    attack: 'a fragment behind a message that is whole',
    run: ({ announce, open, send, write }) => {
      announce('Demo.hang');
      open({});
      send(write.fragment(FrameFlag.fromOpener, 0, 1), 'x');
    },
  },
  {
    attack: 'the first frame twice',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ messageBytes: 4 }, '[1');
      open({ messageBytes: 4 }, '[1');
    },
  },
  {
    attack: 'a fragment of a stream never opened',
    run: ({ send, write }) => send(write.fragment(FrameFlag.fromOpener, 5, 1), 'x'),
  },
  {
    attack: 'an answer to a call never made',
    run: ({ send, write }) => send(write.message(FrameFlag.end, 0, 1, 1), '1'),
  },
  {
    attack: 'a slot beyond the number announced',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ slot: 4096 });
    },
  },
  {
    attack: 'a slot of 2^32 - 1',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ slot: 0xffff_ffff });
    },
  },
  {
    attack: 'a generation that was skipped',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ generation: 2 });
    },
  },
  {
    attack: 'generation 0',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ generation: 0 });
    },
  },
  {
    attack: 'a slot reused before its call ended',
    run: ({ announce, open }) => {
      announce('Demo.hang');
      open({});
      open({ generation: 2 });
    },
  },
  {
    attack: 'a open frame of an unknown kind of call',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ kind: 9 });
    },
  },
  {
    attack: 'metadata over the limit',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ metadataBytes: 9000, messageBytes: 0 }, 'x'.repeat(9000));
    },
  },
  {
    attack: 'metadata that runs past the frame',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ metadataBytes: 10, messageBytes: 0 }, 'xx');
    },
  },
  {
    attack: 'metadata that is none',
    run: ({ announce, open }) => {
      announce('Demo.same');
      open({ metadataBytes: 4, messageBytes: 0 }, '\u00ff\u00ff');
    },
  },
  { attack: 'a pong without a ping', run: ({ send, write }) => send(write.pong(1)) },
  {
    attack: 'a goaway answered unasked',
    run: ({ send, write }) => send(write.goaway(FrameFlag.end)),
  },
  {
    attack: 'a second goaway',
    run: ({ send, write }) => {
      send(write.goaway(0));
      send(write.goaway(0));
    },
  },
  {
    attack: 'pings in a flood',
    run: ({ send, write }) => {
      for (let at = 0; at < 5; at += 1) send(write.ping(at));
    },
    code: 'ERR_SIDECALL_LIMIT_RATE',
  },
  {
    attack: 'credit beyond any window',
    run: async ({ send, write }) => {
      for (let at = 0; at < 1_200_000; at += 1) {
        send(write.credit(0, 0, 0, 0xffff_ffff));
        if (at % 10_000 === 0) await turns();
      }
    },
  },
];

const codes: readonly string[] = ['ERR_SIDECALL_PROTOCOL', 'ERR_SIDECALL_FRAME_TOO_LARGE'];

describe('a hostile peer', () => {
  it.each(attacks)('is closed for $attack', async ({ run, code }) => {
    const peer = hostilePeer();
    peer.session.serve(Demo, demoHandlers());
    await run(peer);
    const error = await peer.session.closed;
    if (code === undefined) expect(codes).toContain(error?.code);
    else expect(error?.code).toBe(code);
    expect(peer.session.state).toBe('closed');
    expect(peer.events.map(({ type }) => type)).toEqual(['session-failed']);
    await expect(peer.session.call('Demo.same')).rejects.toMatchObject({ code: error?.code });
  });

  it('every byte of a header flipped ends in a known code or an ordinary answer', async () => {
    const types = Object.values(FrameType);
    for (const type of types) {
      for (let at = 1; at < rawHeader(type, 0).byteLength; at += 1) {
        for (const value of [1, 0x7f, 0xff]) {
          const peer = hostilePeer();
          peer.session.serve(Demo, demoHandlers());
          peer.announce('Demo.same');
          const header = rawHeader(type, 0);
          header[at] = value;
          peer.send(header, '[1]');
          await turns(3);
          await peer.session.close({ deadlineMs: 0 });
          const code = (await peer.session.closed)?.code ?? 'orderly';
          expect([...codes, 'orderly', 'ERR_SIDECALL_CLOSED']).toContain(code);
        }
      }
    }
  });

  it('a second answer, or data behind the end, is a violation', async () => {
    const answers: readonly ((peer: Hostile, id: { slot: number; generation: number }) => void)[] =
      [
        ({ send, write }, { slot, generation }) => {
          send(write.message(0, slot, generation, 1), '1');
          send(write.message(FrameFlag.end, slot, generation, 1), '1');
        },
        ({ send, write }, { slot, generation }) => {
          send(write.message(FrameFlag.end, slot, generation, 1), '1');
          send(write.message(FrameFlag.end, slot, generation, 1), '1');
        },
        ({ send, write }, { slot, generation }) => {
          send(write.message(FrameFlag.end, slot, generation, 1), '1');
          send(write.end(0, slot, generation, 0, { metadataBytes: 0, textBytes: 0 }));
        },
        ({ send, write }, { slot, generation }) => {
          send(write.end(0, slot, generation, 0, { metadataBytes: 0, textBytes: 0 }));
        },
        ({ send, write }, { slot, generation }) => {
          send(write.end(0, slot, generation, 99, { metadataBytes: 0, textBytes: 0 }));
        },
        ({ send, write }, { slot, generation }) => {
          send(write.end(0, slot, generation, 5, { metadataBytes: 0, textBytes: 9 }), 'short');
        },
        ({ send, write }, { slot, generation }) => {
          send(write.headers(slot, generation));
          send(write.headers(slot, generation));
        },
        ({ send, write }, { slot, generation }) => {
          send(write.message(FrameFlag.end, slot, generation + 1, 1), '1');
        },
        ({ send, write }, { slot, generation }) => send(write.reset(0, slot, generation, 77)),
        ({ send, write }, { slot, generation }) => {
          send(write.message(FrameFlag.end, slot, generation, max + 1));
        },
      ];
    for (const answer of answers) {
      const peer = hostilePeer();
      const call = peer.session.call('X.y', 1);
      call.catch(() => undefined);
      await until(() => peer.heard.some(({ type }) => type === FrameType.open));
      const open = peer.heard.find(({ type }) => type === FrameType.open);
      answer(peer, slotOf(open as NonNullable<typeof open>));
      expect(codes).toContain((await peer.session.closed)?.code);
    }
  });

  it('a late answer to a call that was cancelled is dropped', async () => {
    const peer = hostilePeer();
    const stop = new AbortController();
    const call = peer.session.call('X.y', 1, { signal: stop.signal });
    await until(() => peer.heard.some(({ type }) => type === FrameType.open));
    stop.abort(new Error('mine'));
    await expect(call).rejects.toThrow('mine');
    peer.send(peer.write.message(FrameFlag.end, 0, 1, 1), '1');
    await turns(2); // the slot is free again
    const next = peer.session.call('X.y', 2);
    await until(() => peer.heard.filter(({ type }) => type === FrameType.open).length === 2);
    peer.send(peer.write.message(FrameFlag.end, 0, 1, 1), '1'); // for the old generation again
    peer.send(peer.write.message(FrameFlag.end, 0, 2, 1), '7');
    expect(await next).toBe(7);
    peer.raw.destroy();
  });
});
