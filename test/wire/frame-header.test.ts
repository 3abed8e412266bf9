import { describe, expect, it } from 'vitest';
import {
  emptyHeader,
  FrameFlag,
  FrameType,
  HeaderWriter,
  headerBytes,
  readHeader,
} from '../../src/wire/frame-header.ts';

const write = new HeaderWriter();

describe('headers', () => {
  it('come back as they were written', () => {
    const header = emptyHeader();
    const open = {
      kind: 2,
      slot: 0xffff_fffe,
      generation: 0x8000_0001,
      method: 4095,
      timeoutMs: 2_147_483_647,
      metadataBytes: 65_536,
      messageBytes: 1_073_741_824,
      windowBytes: 0xffff_fffd,
      sentAt: 0xffff_fffc,
    };
    readHeader(write.open(open), header);
    const flags = FrameFlag.fromOpener | FrameFlag.end;
    expect(header).toMatchObject({ type: FrameType.open, flags, ...open });
    readHeader(write.credit(0, 0, 0, 0xffff_ffff), header);
    expect(header).toMatchObject({ type: FrameType.credit, grantBytes: 0xffff_ffff });
    readHeader(write.reset(1, 7, 8, 3), header);
    expect(header).toMatchObject({
      type: FrameType.reset,
      flags: 1,
      reason: 3,
      slot: 7,
      generation: 8,
    });
  });

  it('have the size of their type, none above 120 bytes', () => {
    for (const type of Object.values(FrameType)) {
      expect(headerBytes(type)).toBeGreaterThanOrEqual(12);
      expect(headerBytes(type)).toBeLessThanOrEqual(120);
    }
    expect(headerBytes(99)).toBe(0);
  });
});
