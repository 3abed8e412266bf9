import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { FrameFlag, FrameType, ResetReason, writeU32 } from '../../src/wire/frame-header.ts';
import { Desk, defer, deskHandlers, turns, until } from '../support/contract.ts';
import { type Hostile, hostilePeer, rawHeader, slotOf } from '../support/hostile.ts';

interface Attack {
  readonly attack: string;
  readonly run: (peer: Hostile) => void | Promise<void>;
  readonly code?: string;
}

const max = 4 * 1024 * 1024;

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
      announce('Desk.hang');
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
      announce('Desk.same');
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
    attack: 'row 103 a method number out of turn',
    run: ({ send, write }) => send(write.method(1), 'x'),
  },
  {
    attack: 'row 103 a method number announced twice',
    run: ({ send, write }) => {
      send(write.method(0), 'x');
      send(write.method(0), 'x');
    },
  },
  { attack: 'row 103 a method name of no bytes', run: ({ send, write }) => send(write.method(0)) },
  {
    attack: 'row 103 a method name of 257 bytes',
    run: ({ send, write }) => send(write.method(0), 'x'.repeat(257)),
  },
  {
    attack: 'row 103 a method name that is not UTF-8',
    run: ({ send, write }) => send(write.method(0), new Uint8Array([0xff])),
  },
  {
    attack: 'row 103 more method names than fit',
    run: async ({ announce }) => {
      for (let at = 0; at <= 4096; at += 1) {
        announce(`m${at}`);
        if (at % 500 === 0) await turns();
      }
    },
  },
  { attack: 'row 103 a call of a method never announced', run: ({ open }) => open({}) },
  {
    attack: 'row 59 a message over the limit',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ messageBytes: max + 1 });
    },
    code: 'ERR_SIDECALL_FRAME_TOO_LARGE',
  },
  {
    attack: 'row 59 a message of 2^32 - 1 bytes',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ messageBytes: 0xffff_ffff });
    },
    code: 'ERR_SIDECALL_FRAME_TOO_LARGE',
  },
  {
    attack: 'row 101 more bytes than the message announced',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ messageBytes: 1 }, '[1]');
    },
  },
  {
    attack: 'row 101 a fragment beyond the message',
    run: ({ announce, open, send, write }) => {
      announce('Desk.same');
      open({ messageBytes: 4 }, '[1');
      send(write.fragment(FrameFlag.fromOpener, 0, 1), '12345');
    },
  },
  {
    attack: 'row 101 a fragment of no bytes',
    run: ({ announce, open, send, write }) => {
      announce('Desk.same');
      open({ messageBytes: 4 }, '[1');
      send(write.fragment(FrameFlag.fromOpener, 0, 1));
    },
  },
  {
    attack: 'row 101 a fragment behind a message that is whole',
    run: ({ announce, open, send, write }) => {
      announce('Desk.hang');
      open({});
      send(write.fragment(FrameFlag.fromOpener, 0, 1), 'x');
    },
  },
  {
    attack: 'row 101 the first frame twice',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ messageBytes: 4 }, '[1');
      open({ messageBytes: 4 }, '[1');
    },
  },
  {
    attack: 'row 65 a fragment of a stream never opened',
    run: ({ send, write }) => send(write.fragment(FrameFlag.fromOpener, 5, 1), 'x'),
  },
  {
    attack: 'row 65 an answer to a call never made',
    run: ({ send, write }) => send(write.message(FrameFlag.end, 0, 1, 1), '1'),
  },
  {
    attack: 'row 65 a slot beyond the number announced',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ slot: 4096 });
    },
  },
  {
    attack: 'row 65 a slot of 2^32 - 1',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ slot: 0xffff_ffff });
    },
  },
  {
    attack: 'row 65 a generation that was skipped',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ generation: 2 });
    },
  },
  {
    attack: 'row 65 generation 0',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ generation: 0 });
    },
  },
  {
    attack: 'row 65 a slot reused before its call ended',
    run: ({ announce, open }) => {
      announce('Desk.hang');
      open({});
      open({ generation: 2 });
    },
  },
  {
    attack: 'a open frame of an unknown kind of call',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ kind: 9 });
    },
  },
  {
    attack: 'row 69 metadata over the limit',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ metadataBytes: 9000, messageBytes: 0 }, 'x'.repeat(9000));
    },
  },
  {
    attack: 'row 69 metadata that runs past the frame',
    run: ({ announce, open }) => {
      announce('Desk.same');
      open({ metadataBytes: 10, messageBytes: 0 }, 'xx');
    },
  },
  {
    attack: 'row 69 metadata that is none',
    run: ({ announce, open }) => {
      announce('Desk.same');
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
    attack: 'row 35 pings in a flood',
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
    peer.session.serve(Desk, deskHandlers());
    await run(peer);
    const error = await peer.session.closed;
    if (code === undefined) expect(codes).toContain(error?.code);
    else expect(error?.code).toBe(code);
    expect(peer.session.state).toBe('closed');
    expect(peer.events.map(({ type }) => type)).toEqual(['session-failed']);
    await expect(peer.session.call('Desk.same')).rejects.toMatchObject({ code: error?.code });
  });

  it('every byte of a header flipped ends in a known code or an ordinary answer', async () => {
    const types = Object.values(FrameType);
    for (const type of types) {
      for (let at = 1; at < rawHeader(type, 0).byteLength; at += 1) {
        for (const value of [1, 0x7f, 0xff]) {
          const peer = hostilePeer();
          peer.session.serve(Desk, deskHandlers());
          peer.announce('Desk.same');
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

  it('row 68 a second answer, or data behind the end, is a violation', async () => {
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

  it('CVE-2023-44487: rapid resets end the session, handlers stay bounded', async () => {
    const peer = hostilePeer({ streamsMax: 16 });
    let most = 0;
    const gate = defer();
    peer.session.serve(
      Desk,
      deskHandlers({
        hang: () => {
          most = Math.max(most, peer.session.stats().handlers.running);
          return gate.promise;
        },
      }),
    );
    peer.announce('Desk.hang');
    for (let round = 1; round < 5000 && peer.session.state !== 'closed'; round += 1) {
      for (let slot = 0; slot < 16; slot += 1) {
        peer.open({ slot, generation: round });
        peer.send(peer.write.reset(FrameFlag.fromOpener, slot, round, ResetReason.cancelled));
      }
      await turns(2);
      if (round === 3) gate.resolve();
    }
    // A slot that is used again before its handler has settled: no correct peer does that.
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
    expect(most).toBeLessThanOrEqual(16);
  });

  it('a peer that cancels everything and waits for each handler to settle may do so for ever', async () => {
    const peer = hostilePeer({ streamsMax: 16 });
    let started = 0;
    peer.session.serve(
      Desk,
      deskHandlers({
        hang: async () => {
          started += 1;
          await turns(2);
        },
      }),
    );
    peer.announce('Desk.hang');
    for (let round = 1; round <= 300; round += 1) {
      for (let slot = 0; slot < 16; slot += 1) {
        peer.open({ slot, generation: round });
        peer.send(peer.write.reset(FrameFlag.fromOpener, slot, round, ResetReason.cancelled));
      }
      const resets = (): number => peer.heard.filter(({ type }) => type === FrameType.reset).length;
      await until(() => resets() === 16 * round || peer.session.state === 'closed');
    }
    expect(peer.session.state).toBe('open');
    expect(started).toBe(16 * 300);
    peer.raw.destroy();
  });

  it('half-sent messages that each announce the maximum are bounded by their window', async () => {
    const peer = hostilePeer();
    peer.session.serve(Desk, deskHandlers());
    peer.announce('Desk.same');
    // Four fill 16 MiB but for their last bytes: the fifth may begin, and no other.
    for (let slot = 0; slot < 4; slot += 1) peer.open({ slot, messageBytes: max - 64 }, '[');
    await turns(3);
    expect(peer.session.state).toBe('open');
    expect(peer.session.stats().windows.requests.held).toBe(4 * max);
    peer.open({ slot: 4, messageBytes: max }, '[');
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
  });

  it('messages without credit are a violation', async () => {
    const peer = hostilePeer({ streamWindowBytes: 16_384, receiveMaxBytes: 1024 });
    const gate = defer();
    peer.session.serve(Desk, deskHandlers({ log: () => gate.promise }));
    peer.announce('Desk.log');
    const line = JSON.stringify('x'.repeat(1000));
    // 16,384 bytes of window for notifications, 1,066 for each: the sixteenth goes beyond, the next
    // may not.
    for (let slot = 0; slot < 16; slot += 1) peer.open({ kind: 2, slot }, line);
    await turns(5);
    expect(peer.session.state).toBe('open');
    peer.open({ kind: 2, slot: 16 }, line);
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
    gate.resolve();
    peer.raw.destroy();
  });

  it('an expired call never starts', async () => {
    const peer = hostilePeer();
    let served = 0;
    peer.session.serve(Desk, deskHandlers({ add: () => ({ sum: (served += 1) }) }));
    peer.announce('Desk.add');
    peer.open({ timeoutMs: 0 }, '{"a":1,"b":1}');
    await until(() => peer.heard.some(({ type }) => type === FrameType.reset));
    const reset = peer.heard.find(({ type }) => type === FrameType.reset);
    expect(reset?.header[2]).toBe(ResetReason.deadlineExceeded);
    expect(served).toBe(0);
    peer.raw.destroy();
  });

  it('row 32 a peer that asks and never reads gets no more work done, and is closed in the end', async () => {
    const peer = hostilePeer({ streamsMax: 64 });
    let served = 0;
    peer.session.serve(
      Desk,
      deskHandlers({
        same: () => {
          served += 1;
          return 'y'.repeat(20_000);
        },
      }),
    );
    peer.raw.isHeld = true; // the session's frames stay unread
    peer.announce('Desk.same');
    for (let round = 1; round <= 400 && peer.session.state !== 'closed'; round += 1) {
      for (let slot = 0; slot < 64; slot += 1) peer.open({ slot, generation: round });
      await turns(2);
    }
    // 256 KiB in the transport, 1 MiB in the queue, and one round of handlers.
    expect(served).toBeLessThan(64 + (1024 + 256) / 20 + 64);
    // A slot used again while its answer is unread: no correct peer knows that it may.
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
  });

  it('row 32 refusals that nobody reads are bounded too', async () => {
    const peer = hostilePeer({ streamsMax: 8 });
    peer.session.serve(Desk, deskHandlers());
    await turns(2); // until then calls of other services would wait for them
    peer.raw.isHeld = true;
    peer.announce('No.such');
    for (let round = 1; round <= 60_000 && peer.session.state !== 'closed'; round += 1) {
      for (let slot = 0; slot < 8; slot += 1) peer.open({ slot, generation: round });
      if (round % 50 === 0) await turns(2);
    }
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_LIMIT_BYTES');
  });

  it.each([
    ['parked', true],
    ['unserved', false],
  ])('requests that are reset while they are %s leave nothing behind', async (_, isServed) => {
    const peer = hostilePeer();
    if (isServed) {
      peer.session.serve(Desk, deskHandlers({ hang: () => new Promise(() => undefined) }));
    }
    peer.announce('Desk.hang');
    for (let slot = 0; isServed && slot < 16; slot += 1) peer.open({ slot });
    await turns(3);
    const heapOf = (): number => {
      globalThis.gc?.();
      return process.memoryUsage().heapUsed;
    };
    const before = heapOf();
    const head = Buffer.from([1, 0, 97, 0x40, 0x1f, 0, 0]); // a key of one letter, a value of 8,000
    const metadata = new Uint8Array(Buffer.concat([head, Buffer.alloc(8_000, 97)]));
    for (let generation = 1; generation <= 8_000; generation += 1) {
      const id = { slot: 100, generation, method: 0, timeoutMs: 0xffff_ffff };
      const sizes = { metadataBytes: metadata.byteLength, messageBytes: 0, windowBytes: 0 };
      peer.raw.trySend(peer.write.open({ kind: 1, ...id, ...sizes, sentAt: 0 }), metadata, false);
      peer.send(peer.write.reset(FrameFlag.fromOpener, 100, generation, ResetReason.cancelled));
      if (generation % 20 === 0) await turns(2);
      peer.heard.length = 0;
    }
    expect(peer.session.state).toBe('open');
    expect(heapOf() - before).toBeLessThan(32_000_000); // 64 MB were kept
    peer.raw.destroy();
  });
});
