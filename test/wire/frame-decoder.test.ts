import { describe, expect, it } from 'vitest';
import { FrameDecoder } from '../../src/wire/frame-decoder.ts';
import {
  FrameFlag,
  FrameType,
  frameMaxBytes,
  HeaderWriter,
  headerAt,
} from '../../src/wire/frame-header.ts';

const write = new HeaderWriter();

function framed(header: Uint8Array, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.byteLength + payload.byteLength);
  return Buffer.concat([length, header, payload]);
}

function collect(): { frames: string[]; decoder: FrameDecoder; placed: number[] } {
  const frames: string[] = [];
  const placed: number[] = [];
  const sink = {
    onFrame: (memory: Uint8Array, at: number, body: Uint8Array, from: number, to: number) => {
      const header = Buffer.from(headerAt(memory, at)).toString('hex');
      frames.push(`${header}|${Buffer.from(body.subarray(from, to)).toString('hex')}`);
    },
    placeFor: (_header: Uint8Array, bytes: number) => {
      placed.push(bytes);
      return bytes > 100 ? new Uint8Array(bytes) : undefined;
    },
  };
  return { frames, placed, decoder: new FrameDecoder(sink, () => false) };
}

const script = Buffer.concat([
  framed(write.method(0), Buffer.from('Demo.add')),
  framed(
    write.open({
      kind: 1,
      slot: 3,
      generation: 9,
      method: 0,
      timeoutMs: 500,
      metadataBytes: 0,
      messageBytes: 300,
      windowBytes: 0,
      sentAt: 0,
    }),
    Buffer.alloc(200, 1),
  ),
  framed(write.fragment(FrameFlag.fromOpener, 3, 9), Buffer.alloc(100, 2)),
  framed(write.goaway(0)),
  framed(write.end(0, 3, 9, 5, { metadataBytes: 0, textBytes: 2 }), Buffer.from('no')),
  framed(write.message(FrameFlag.end, 3, 9, 0)),
]);

describe('the frame decoder', () => {
  it('finds the same frames wherever the stream is cut', () => {
    const whole = collect();
    whole.decoder.push(script);
    expect(whole.frames).toHaveLength(6);
    for (let cut = 0; cut <= script.byteLength; cut += 1) {
      const parts = collect();
      parts.decoder.push(script.subarray(0, cut));
      parts.decoder.push(script.subarray(cut));
      expect(parts.frames).toEqual(whole.frames);
      expect(parts.decoder.isMidFrame).toBe(false);
    }
  });

  it('finds the same frames byte by byte, and in random pieces', () => {
    const whole = collect();
    whole.decoder.push(script);
    const single = collect();
    for (const byte of script) single.decoder.push(Uint8Array.of(byte));
    expect(single.frames).toEqual(whole.frames);
    const many = Buffer.concat(Array.from({ length: 50 }, () => script));
    const random = collect();
    for (let at = 0; at < many.byteLength; ) {
      const size = 1 + ((at * 7919) % 313);
      random.decoder.push(many.subarray(at, at + size));
      at += size;
    }
    expect(random.frames).toHaveLength(300);
  });

  it('asks for the place of a payload that is cut, and fills it', () => {
    const { decoder, placed, frames } = collect();
    decoder.push(script.subarray(0, 100));
    decoder.push(script.subarray(100));
    expect(placed).toEqual([200]);
    expect(frames).toHaveLength(6);
  });

  it('knows that it stands in the middle of a frame', () => {
    const { decoder } = collect();
    decoder.push(script.subarray(0, 3));
    expect(decoder.isMidFrame).toBe(true);
  });

  it.each([
    ['2^32 - 1 bytes', 0xffff_ffff, 'ERR_SIDECALL_FRAME_TOO_LARGE'],
    ['2^31 bytes, negative as an int', 0x8000_0000, 'ERR_SIDECALL_FRAME_TOO_LARGE'],
    ['one byte over the limit', frameMaxBytes + 1, 'ERR_SIDECALL_FRAME_TOO_LARGE'],
    ['no bytes', 0, 'ERR_SIDECALL_PROTOCOL'],
    ['less than its header', 11, 'ERR_SIDECALL_PROTOCOL'],
  ])('refuses a length of %s before it takes memory', (_name, length, code) => {
    const bytes = Buffer.alloc(64);
    bytes.writeUInt32LE(length);
    bytes[4] = FrameType.fragment;
    for (const cut of [5, 64]) {
      const { decoder, placed } = collect();
      expect(() => decoder.push(bytes.subarray(0, cut))).toThrow(
        expect.objectContaining({ code }) as Error,
      );
      expect(placed).toEqual([]);
    }
  });

  it('refuses an unknown type at its first byte', () => {
    for (const type of [0, 13, 99, 255]) {
      const { decoder } = collect();
      expect(() => decoder.push(Uint8Array.of(20, 0, 0, 0, type))).toThrow(
        expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }) as Error,
      );
    }
  });

  it('stops between frames when its session has ended', () => {
    let isStopped = false;
    let frames = 0;
    const sink = {
      onFrame: () => {
        frames += 1;
        isStopped = frames === 2;
      },
      placeFor: () => undefined,
    };
    new FrameDecoder(sink, () => isStopped).push(script);
    expect(frames).toBe(2);
  });
});
