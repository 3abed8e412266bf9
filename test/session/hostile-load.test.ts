import { describe, expect, it } from 'vitest';
import { FrameFlag, FrameType, ResetReason } from '../../src/wire/frame-header.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { hostilePeer } from '../support/hostile.ts';

const max = 4 * 1024 * 1024;

describe('a hostile peer', () => {
  it('CVE-2023-44487: rapid resets end the session, handlers stay bounded', async () => {
    const peer = hostilePeer({ streamsMax: 16 });
    let most = 0;
    const gate = defer();
    peer.session.serve(
      Demo,
      demoHandlers({
        hang: () => {
          most = Math.max(most, peer.session.stats().handlers.running);
          return gate.promise;
        },
      }),
    );
    peer.announce('Demo.hang');
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
      Demo,
      demoHandlers({
        hang: async () => {
          started += 1;
          await turns(2);
        },
      }),
    );
    peer.announce('Demo.hang');
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
    peer.session.serve(Demo, demoHandlers());
    peer.announce('Demo.same');
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
    peer.session.serve(Demo, demoHandlers({ log: () => gate.promise }));
    peer.announce('Demo.log');
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
    peer.session.serve(Demo, demoHandlers({ add: () => ({ sum: (served += 1) }) }));
    peer.announce('Demo.add');
    peer.open({ timeoutMs: 0 }, '{"a":1,"b":1}');
    await until(() => peer.heard.some(({ type }) => type === FrameType.reset));
    const reset = peer.heard.find(({ type }) => type === FrameType.reset);
    expect(reset?.header[2]).toBe(ResetReason.deadlineExceeded);
    expect(served).toBe(0);
    peer.raw.destroy();
  });

  it('a peer that asks and never reads gets no more work done, and is closed in the end', async () => {
    const peer = hostilePeer({ streamsMax: 64 });
    let served = 0;
    peer.session.serve(
      Demo,
      demoHandlers({
        same: () => {
          served += 1;
          return 'y'.repeat(20_000);
        },
      }),
    );
    peer.raw.isHeld = true; // the session's frames stay unread
    peer.announce('Demo.same');
    for (let round = 1; round <= 400 && peer.session.state !== 'closed'; round += 1) {
      for (let slot = 0; slot < 64; slot += 1) peer.open({ slot, generation: round });
      await turns(2);
    }
    // 256 KiB in the transport, 1 MiB in the queue, and one round of handlers.
    expect(served).toBeLessThan(64 + (1024 + 256) / 20 + 64);
    // A slot used again while its answer is unread: no correct peer knows that it may.
    expect((await peer.session.closed)?.code).toBe('ERR_SIDECALL_PROTOCOL');
  });

  it('refusals that nobody reads are bounded too', async () => {
    const peer = hostilePeer({ streamsMax: 8 });
    peer.session.serve(Demo, demoHandlers());
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
      peer.session.serve(Demo, demoHandlers({ hang: () => new Promise(() => undefined) }));
    }
    peer.announce('Demo.hang');
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
