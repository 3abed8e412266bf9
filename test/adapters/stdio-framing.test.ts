// Bodies out of bytes that come in any pieces.
import { describe, expect, it } from 'vitest';
import { framingOf } from '../../src/adapters/stdio-framing.ts';

const { decoder: newDecoder } = framingOf();

describe('bodies', () => {
  const texts = ['{}', 'ä'.repeat(1_000), '{"a":1}'];

  it.each(['content-length', 'newline'] as const)('come whole, whatever the pieces: %s', (name) => {
    const framing = framingOf(name);
    const bytes = Buffer.concat(texts.map((text) => framing.frame(Buffer.from(text))));
    for (const size of [1, 2, 7, 64, 999, bytes.byteLength]) {
      const decoder = framing.decoder();
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
    const decoder = newDecoder();
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
      expect(() => newDecoder().push(Buffer.from(text))).toThrow(
        expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }),
      );
    }
  });

  it('are lines without their white space at the end, and without empty lines between them', () => {
    const decoder = framingOf('newline').decoder();
    expect(decoder.push(Buffer.from('{}\r\n\n\r\n[1]\n{')).map(String)).toEqual(['{}', '[1]']);
    expect(decoder.isMidway).toBe(true);
  });

  it('stay one line where they are written over several', () => {
    const value = { text: 'two\nlines', list: [1, 2] };
    const line = Buffer.from(
      framingOf('newline').frame(Buffer.from(JSON.stringify(value, null, 2))),
    );
    expect(line.indexOf('\n')).toBe(line.byteLength - 1);
    expect(JSON.parse(line.toString())).toEqual(value);
  });

  it('have one of two framings', () => {
    expect(() => framingOf('lines' as never)).toThrow("'content-length' or 'newline', got 'lines'");
    expect(() => framingOf('toString' as never)).toThrow(TypeError);
  });
});
