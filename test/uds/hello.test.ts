import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { systemClock } from '../../src/base/clock.ts';
import { SidecallError } from '../../src/base/errors.ts';
import { checkLimits } from '../../src/base/limits/option-limits.ts';
import { pause } from '../../src/base/pause.ts';
import { helloAsAccepting, helloAsConnecting } from '../../src/uds/hello.ts';
import {
  answerBytes,
  decodeHello,
  encodeAnswer,
  encodeHello,
  HelloFeature,
  HelloFlag,
  helloBytes,
  Verdict,
} from '../../src/uds/hello-bytes.ts';
import { DescriptorWire } from '../../src/uds/hello-wire.ts';

const native = requireNative('the test');
const limits = checkLimits(undefined);

/** Our side of a hello over a real pair; the other end is a bare descriptor. */
function meet(side: 'accepting' | 'connecting', signal = new AbortController().signal) {
  const { near, far } = native.socketPair();
  const wire = new DescriptorWire(native, near, signal);
  const hello =
    side === 'accepting' ? helloAsAccepting(wire, limits) : helloAsConnecting(wire, limits);
  hello.catch(() => undefined);
  return {
    hello,
    far,
    near,
    close: () => {
      native.closeDescriptor(near);
      native.closeDescriptor(far);
    },
  };
}

function changed(at: number, value: number, bytes = encodeHello(limits)): Buffer {
  bytes[at] = value;
  return bytes;
}

describe('a hello', () => {
  it('has 64 bytes, its answer 8, and comes back as it was', () => {
    const bytes = encodeHello(limits);
    expect(bytes).toHaveLength(helloBytes);
    expect(encodeAnswer(Verdict.socketLane, 1)).toHaveLength(answerBytes);
    expect(bytes.subarray(0, 4).toString('latin1')).toBe('scal');
    expect(decodeHello(bytes)).toMatchObject({
      version: 1,
      memory: undefined,
      flags: 0,
      limits: {
        receiveMaxBytes: limits.receiveMaxBytes,
        streamsMax: limits.streamsMax,
        metadataMaxBytes: limits.metadataMaxBytes,
        streamWindowBytes: limits.streamWindowBytes,
      },
    });
    expect(encodeHello(limits).subarray(32, 48)).not.toEqual(bytes.subarray(32, 48));
  });

  it('is made by both sides, and the descriptors stay usable', async () => {
    const { near, far } = native.socketPair();
    const { signal } = new AbortController();
    const [accepting, connecting] = await Promise.all([
      helloAsAccepting(new DescriptorWire(native, near, signal), limits),
      helloAsConnecting(new DescriptorWire(native, far, signal), limits),
    ]);
    expect(accepting.peer.version).toBe(1);
    expect(connecting.peer.limits).toEqual(accepting.peer.limits);
    native.closeDescriptor(near);
    native.closeDescriptor(far);
  });

  it.each([
    ['the wrong magic', changed(0, 0x53), 'ERR_SIDECALL_PROTOCOL'],
    ['version range 0', changed(4, 0), 'ERR_SIDECALL_PROTOCOL'],
    ['a range upside down', changed(4, 9), 'ERR_SIDECALL_PROTOCOL'],
    ['unknown flags', changed(12, 4), 'ERR_SIDECALL_PROTOCOL'],
    ['memory announced without a size', changed(12, 2), 'ERR_SIDECALL_PROTOCOL'],
    ['a descriptor announced without a size', changed(12, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['both flags', changed(12, 3), 'ERR_SIDECALL_PROTOCOL'],
    ['a ring of 1 TiB', changed(21, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['a ring that is no power of two', changed(17, 3), 'ERR_SIDECALL_PROTOCOL'],
    ['a block area out of range', changed(31, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['a message limit of 0', changed(50, 0), 'ERR_SIDECALL_PROTOCOL'],
    ['a stream limit of 2^31', changed(55, 0x80), 'ERR_SIDECALL_PROTOCOL'],
    ['metadata of 16 MiB', changed(59, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['a stream window of nothing', changed(62, 0), 'ERR_SIDECALL_PROTOCOL'],
    ['versions from the future', changed(4, 7, changed(6, 9)), 'ERR_SIDECALL_VERSION_MISMATCH'],
    ['64 bytes of noise', Buffer.alloc(64, 0xa5), 'ERR_SIDECALL_PROTOCOL'],
    ['64 zeros', Buffer.alloc(64), 'ERR_SIDECALL_PROTOCOL'],
  ])('is refused with %s', async (_name, bytes, code) => {
    for (const side of ['accepting', 'connecting'] as const) {
      const { hello, far, close } = meet(side);
      native.send(far, bytes, 0, -1);
      native.send(far, encodeAnswer(Verdict.socketLane, 1), 0, -1);
      await expect(hello).rejects.toMatchObject({ code });
      close();
    }
  });

  it.each([
    ['no magic', Buffer.alloc(8), 'ERR_SIDECALL_PROTOCOL'],
    ['an unknown verdict', encodeAnswer(9, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['a ring that nobody offered', encodeAnswer(Verdict.ring, 1), 'ERR_SIDECALL_PROTOCOL'],
    ['no common version', encodeAnswer(Verdict.noVersion, 0), 'ERR_SIDECALL_VERSION_MISMATCH'],
    ['no room', encodeAnswer(Verdict.full, 1), 'ERR_SIDECALL_LIMIT_CONNECTIONS'],
  ])('ends with an answer of %s', async (_name, answer, code) => {
    const { hello, far, close } = meet('connecting');
    native.send(far, encodeHello(limits), 0, -1);
    native.send(far, answer, 0, -1);
    await expect(hello).rejects.toMatchObject({
      code,
      delivered: code.endsWith('PROTOCOL') ? 'unknown' : 'no',
    });
    close();
  });

  it('is refused with descriptors that were not announced', async () => {
    const { hello, far, close } = meet('accepting');
    native.send(far, encodeHello(limits), 0, 0);
    await expect(hello).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    close();
  });

  it('is refused with a descriptor behind its first byte, or with its answer', async () => {
    const late = meet('accepting');
    const bytes = encodeHello(limits);
    native.send(late.far, bytes.subarray(0, 10), 0, -1);
    await pause(systemClock, 5, new AbortController().signal);
    native.send(late.far, bytes.subarray(10), 0, 0);
    await expect(late.hello).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    late.close();
    const answered = meet('accepting');
    native.send(answered.far, encodeHello(limits), 0, -1);
    await pause(systemClock, 5, new AbortController().signal);
    native.send(answered.far, encodeAnswer(Verdict.socketLane, 1), 0, 0);
    await expect(answered.hello).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    answered.close();
  });

  it('goes on without memory where this side has none, whatever the peer announced', async () => {
    const { hello, far, close } = meet('accepting');
    const bytes = changed(12, HelloFlag.descriptorFollows);
    bytes.writeBigUInt64LE(1_048_576n, 16);
    native.send(far, bytes, 0, -1);
    native.send(far, encodeAnswer(Verdict.socketLane, 1), 0, -1);
    await expect(hello).resolves.toMatchObject({ isRing: false, peer: { version: 1 } });
    const reply = Buffer.alloc(helloBytes + answerBytes);
    expect(native.receive(far, reply, 0, false, false, 0)?.bytes).toBe(reply.byteLength);
    expect(reply.readUInt16LE(helloBytes + 4)).toBe(Verdict.socketLane);
    close();
  });

  it('refuses an answer with another version than both speak', async () => {
    const { hello, far, close } = meet('accepting');
    native.send(far, encodeHello(limits), 0, -1);
    native.send(far, encodeAnswer(Verdict.socketLane, 2), 0, -1);
    await expect(hello).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    close();
  });

  it('takes exactly its bytes, at every split, and leaves what follows', async () => {
    const bytes = Buffer.concat([
      encodeHello(limits),
      encodeAnswer(Verdict.socketLane, 1),
      Buffer.from('behind it'),
    ]);
    for (let cut = 0; cut <= helloBytes + answerBytes; cut += 1) {
      const { hello, far, near, close } = meet('accepting');
      if (cut > 0) native.send(far, bytes.subarray(0, cut), 0, -1);
      await new Promise((resolve) => setImmediate(resolve));
      native.send(far, bytes.subarray(cut), 0, -1);
      await hello;
      const rest = Buffer.alloc(64);
      expect(native.receive(near, rest, 0, false, false, 0)?.bytes).toBe(9);
      expect(rest.subarray(0, 9).toString()).toBe('behind it');
      close();
    }
  });

  it.each(['accepting', 'connecting'] as const)(
    'ends at its deadline, after whichever byte the peer stopped, on the %s side',
    async (side) => {
      const bytes = Buffer.concat([encodeHello(limits), encodeAnswer(Verdict.socketLane, 1)]);
      await Promise.all(
        Array.from({ length: bytes.byteLength }, async (_, count) => {
          const late = new AbortController();
          const { hello, far, close } = meet(side, late.signal);
          if (count > 0) native.send(far, bytes.subarray(0, count), 0, -1);
          const timer = setTimeout(
            () => late.abort(new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT')),
            50,
          );
          await expect(hello).rejects.toMatchObject({ code: 'ERR_SIDECALL_HELLO_TIMEOUT' });
          clearTimeout(timer);
          close();
        }),
      );
    },
  );

  it.each(['accepting', 'connecting'] as const)(
    'keeps the features that both sides know, on the %s side',
    async (side) => {
      const known = HelloFeature.takesBlocks | HelloFeature.takesOver;
      for (const features of [0, 1, 2, 3, 4, 0x8000_0000, 0xffff_fffc, 0xffff_ffff]) {
        const { hello, far, close } = meet(side);
        const bytes = encodeHello(limits);
        bytes.writeUInt32LE(features, 8);
        native.send(far, bytes, 0, -1);
        native.send(far, encodeAnswer(Verdict.socketLane, 1), 0, -1);
        // No memory was announced: no feature makes up for it.
        expect(await hello).toMatchObject({
          isRing: false,
          peer: { version: 1, features: features & known, memory: undefined },
        });
        close();
      }
    },
  );

  it.each([
    [1, 1, 1],
    [1, 2, 1],
    [1, 65_535, 1],
    [2, 2, undefined],
    [2, 65_535, undefined],
  ])('of the versions %d to %d gives the version %s', async (min, max, version) => {
    for (const side of ['accepting', 'connecting'] as const) {
      const { hello, far, close } = meet(side);
      const bytes = encodeHello(limits);
      bytes.writeUInt16LE(min, 4);
      bytes.writeUInt16LE(max, 6);
      native.send(far, bytes, 0, -1);
      native.send(far, encodeAnswer(Verdict.socketLane, 1), 0, -1);
      const outcome = await hello.then(
        ({ peer }) => peer.version,
        (error) => error.code,
      );
      expect(outcome).toBe(version ?? 'ERR_SIDECALL_VERSION_MISMATCH');
      close();
    }
  });

  it('a peer that closes is gone, and the words say what that often means', async () => {
    for (const side of ['accepting', 'connecting'] as const) {
      const { hello, far, close } = meet(side);
      native.closeDescriptor(far);
      await expect(hello).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PEER_GONE',
        delivered: 'no',
        message: expect.stringContaining('policy'),
      });
      close();
    }
  });
});
