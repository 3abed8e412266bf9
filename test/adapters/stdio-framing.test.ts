// Bodies out of bytes that come in any pieces.
import { describe, expect, it } from 'vitest';
import { BodyDecoder, framed } from '../../src/adapters/stdio-framing.ts';

describe('bodies', () => {
  const texts = ['{}', 'ä'.repeat(1_000), '', '{"a":1}'];
  const bytes = Buffer.concat(texts.map(framed));

  it('come whole, whatever the pieces', () => {
    for (const size of [1, 2, 7, 64, 999, bytes.byteLength]) {
      const decoder = new BodyDecoder();
      const got: string[] = [];
      for (let at = 0; at < bytes.byteLength; at += size) {
        for (const body of decoder.push(bytes.subarray(at, at + size))) got.push(`${body}`);
      }
      expect(got).toEqual(texts);
      expect(decoder.isMidway).toBe(false);
    }
  });

  it('have a header in any case and with other fields', () => {
    const header = 'Content-Type: application/vscode-jsonrpc\r\ncontent-length:  2 \r\n\r\n{}';
    const decoder = new BodyDecoder();
    expect(decoder.push(Buffer.from(`${header}Co`)).map(String)).toEqual(['{}']);
    expect(decoder.isMidway).toBe(true);
  });

  it('have no header without a length, too long a body, or no end', () => {
    const wrong = [
      'Length: 2\r\n\r\n',
      'Content-Length: 9999999999\r\n\r\n',
      'Content-Length: -1\r\n\r\n',
      'x'.repeat(16 * 1024 + 1),
    ];
    for (const text of wrong) {
      expect(() => new BodyDecoder().push(Buffer.from(text))).toThrow(
        expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }),
      );
    }
  });
});
