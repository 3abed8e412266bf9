// Bodies out of bytes that come in any pieces.
import { describe, expect, it } from 'vitest';
import { responseIdOf } from '../../src/adapters/jsonrpc-message.ts';
import { type FramingName, framingOf, TextReports } from '../../src/adapters/stdio-framing.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const newDecoder = (texts: string[] = []) =>
  framingOf().decoder((text) => void texts.push(`${text}`));
const ignoreText = () => undefined;

/** Bodies and texts that a decoder finds in bytes that come in pieces of one size. */
function cut(
  name: FramingName,
  bytes: Buffer,
  size: number,
): { bodies: string[]; texts: string[] } {
  const bodies: string[] = [];
  const texts: string[] = [];
  const decoder = framingOf(name).decoder((text) => void texts.push(`${text}`.trim()));
  for (let at = 0; at < bytes.byteLength; at += size) {
    for (const body of decoder.push(bytes.subarray(at, at + size))) bodies.push(`${body}`);
  }
  const last = decoder.end();
  if (last !== undefined) bodies.push(`${last}`);
  return { bodies, texts };
}

describe('bodies', () => {
  const texts = ['{}', `{"a":"${'ä'.repeat(1_000)}"}`, '[{"a":1}]', ' {"a":1} '];

  it.each(['content-length', 'newline'] as const)('come whole, whatever the pieces: %s', (name) => {
    const framing = framingOf(name);
    const bytes = Buffer.concat(texts.map((text) => framing.frame(Buffer.from(text))));
    for (const size of [1, 2, 7, 64, 999, bytes.byteLength]) {
      expect(cut(name, bytes, size)).toEqual({ bodies: texts, texts: [] });
    }
  });

  it('have a header in any case and with other fields', () => {
    const header = 'Content-Type: application/vscode-jsonrpc\r\ncontent-length:  2 \r\n\r\n{}';
    const decoder = newDecoder();
    expect(decoder.push(Buffer.from(`${header}Content-`)).map(String)).toEqual(['{}']);
    expect(() => decoder.end()).toThrow('the last message was cut off');
  });

  it('have no header with too long a body, or with a length that is none', () => {
    for (const text of ['Content-Length: 9999999999\r\n\r\n', 'Content-Length: -1\r\n\r\n']) {
      expect(() => newDecoder().push(Buffer.from(text))).toThrow(
        expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }),
      );
    }
  });

  it('are lines without their white space at the end, and without empty lines between them', () => {
    const decoder = framingOf('newline').decoder(ignoreText);
    const bodies = decoder.push(Buffer.from('{}\r\n\n\r\n[{}]\n{}'));
    expect(bodies.map(String)).toEqual(['{}', '[{}]']);
    expect(String(decoder.end())).toBe('{}'); // the last one needs no newline
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

describe('text in place of messages', () => {
  const long = 'x'.repeat(40_000);
  const message = '{"id":1,"jsonrpc":"2.0","result":{"a":[{}]}}';
  const framed = (name: FramingName) => framingOf(name).frame(Buffer.from(message)).toString();
  // Texts of a program, with `#` for each message, and those of them that are reported.
  const prints: { readonly [Name in FramingName]: readonly (readonly [string, string[]])[] } = {
    'content-length': [
      ['starting\n#', ['starting']],
      ['starting up, port: 8\r\n\r\n##', ['starting up, port: 8']],
      ['no newline#', ['no newline']],
      [`${long}#`, ['x']],
      [`${long}\n#${long}\n#`, ['x', 'x']],
      ['[info] a\n#[info] {"b":1}\n#', ['[info] a', '[info] {"b":1}']],
      ['Content-Length: 5\n#', []],
      ['the content-length: unknown\n#', ['the content-length: unknown']],
      ['Content-Length: 5\r\n\r\nhello#', ['hello']],
      ['#bye', ['bye']],
      ['#bye\r\n\r\n', ['bye']],
      ['ä\n#', ['ä']],
    ],
    newline: [
      ['starting\n#', ['starting']],
      ['loading … #', ['loading …']],
      ['[info] #', ['[info]']],
      ['[info] {"a":{}} #', ['[info] {"a":{}}']],
      [`${long}\n#`, ['x']],
      [`${message} took 3 ms\n`, ['took 3 ms']],
      ['[1, 2]\n#', ['[1, 2]']],
      ['[info]\n#', ['[info]']],
      ['{ready}\n#{', ['{ready}', '{']],
      ['{"a":\n#', ['{"a":']],
      ['#bye', ['bye']],
      [`#${message}`, []],
    ],
  };
  const rows = Object.entries(prints).flatMap(([name, list]) =>
    list.map(([printed, texts]) => ({ name: name as FramingName, printed, texts })),
  );

  it.each(rows)('is told, and no message is lost: $name, $printed', ({ name, printed, texts }) => {
    const bytes = Buffer.from(printed.replaceAll('#', framed(name)));
    const count = printed.split('#').length - 1 + (printed.includes(message) ? 1 : 0);
    for (const size of [1, 7, 1_000, bytes.byteLength]) {
      const found = cut(name, bytes, size);
      expect(found.bodies).toEqual(Array(count).fill(message));
      expect(found.texts.map((text) => text.replace(/^x+$/, 'x'))).toEqual(texts);
    }
  });
});

describe('much text', () => {
  it('is reported ten times a second, and then by its number', () => {
    using clock = new SteeredClock();
    const reports: string[] = [];
    const texts = new TextReports(({ message }) => void reports.push(message));
    for (let at = 0; at < 1_000; at += 1) texts.add(Buffer.from(`line ${at}`));
    expect(reports).toHaveLength(10);
    expect(reports[9]).toContain('"line 9" in place of a message');
    clock.advance(1_000);
    texts.add(Buffer.from('later'));
    expect(reports.slice(10)).toEqual([
      expect.stringContaining('990 more texts'),
      expect.stringContaining('"later"'),
    ]);
    texts.flush();
    expect(reports).toHaveLength(12);
  });

  it('beside a message in a line of many mebibytes is text, which is not parsed', () => {
    const hostile = `x{"0":{"1":{"2":[${'0,'.repeat(4_000_000)}0]x}`;
    const { bodies, texts } = cut('newline', Buffer.from(`${hostile}\n{}\n`), 64 * 1024);
    expect(bodies).toEqual(['{}']);
    expect(texts).toEqual([hostile]);
  });
});

describe('the id of a response that is too long', () => {
  const result = JSON.stringify(Array(50_000).fill({ id: 5, method: 'x' }));
  const long: readonly (readonly [unknown, string])[] = [
    [7, `{"jsonrpc":"2.0","id":7,"result":${result}}`],
    ['a-7', ` { "id" : "a-7" , "jsonrpc" : "2.0", "error": ${result}}`],
    [-1, `{"jsonrpc":"2.0","result":${result},"id":-1}`],
    ['ä', `{"result":${result}, "id": "ä", "jsonrpc": "2.0" }\n`],
    [undefined, `{"jsonrpc":"2.0","id":7,"method":"x","params":${result}}`],
    [undefined, `{"jsonrpc":"2.0","method":"x","params":{"id":7,"result":${result}}}`],
    [undefined, `{"jsonrpc":"2.0","result":${result.slice(0, -2)},"id":9}]}`],
    [undefined, `{"id":007,"result":${result}}`],
    [undefined, result],
    [undefined, 'x'.repeat(100_000)],
  ];

  it.each(long)('is %j', (id, body) => {
    expect(responseIdOf(Buffer.from(body))).toBe(id);
  });

  it('is that of a short one', () => {
    for (const id of [7, 'x']) expect(responseIdOf(Buffer.from(JSON.stringify({ id })))).toBe(id);
    expect(responseIdOf(Buffer.from('{"id":1,"method":"x"}'))).toBe(undefined);
    expect(responseIdOf(Buffer.from('{"id":'))).toBe(undefined);
  });
});
