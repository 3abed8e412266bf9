// One service in bytes, JSON and protobuf: the same behaviour, and no error has payload in it.
import { describe, expect, it } from 'vitest';
import { protobuf } from '../../src/adapters/protobuf.ts';
import { bytes, type Codec } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { collect } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { demo } from '../support/proto/demo.js';

const secret = 'pass-phrase';

interface Style {
  readonly style: string;
  readonly codec: Codec<unknown>;
  readonly of: (text: string) => unknown;
  readonly textOf: (value: never) => string;
  /** Bytes that the codec cannot decode; undefined: it decodes any. */
  readonly spoilt: Buffer | undefined;
}

const styles: Style[] = [
  {
    style: 'bytes',
    codec: bytes as Codec<unknown>,
    of: (text) => Buffer.from(text),
    textOf: (value: Uint8Array) => Buffer.from(value).toString(),
    spoilt: undefined,
  },
  {
    style: 'JSON',
    codec: json<unknown>() as Codec<unknown>,
    of: (text) => ({ text }),
    textOf: ({ text }: { text: string }) => text,
    spoilt: Buffer.from(`{"text": ${secret}}`),
  },
  {
    style: 'protobuf',
    codec: protobuf(demo.A) as Codec<unknown>,
    of: (text) => demo.A.fromObject({ text }),
    textOf: ({ text }: { text: string }) => text,
    // The second field, a string, that claims to be longer than the message is.
    spoilt: Buffer.concat([Buffer.from([0x12, 0x7f]), Buffer.from(secret)]),
  },
];

const cases = lanes.flatMap(({ lane, openPair }) =>
  styles.map((style) => ({ ...style, lane, openPair })),
);

function echoOf(codec: Codec<unknown>) {
  const both = { request: codec, response: codec };
  return service('Echo', { same: unary(both), twice: serverStream(both) });
}

describe.each(cases)('the echo in $style over the $lane', (given) => {
  const { codec, of, textOf, spoilt, openPair } = given;

  it('answers calls and streams, a thousand at once', async () => {
    await using pair = await openPair();
    const Echo = echoOf(codec);
    pair.far.serve(Echo, {
      same: (value) => value,
      async *twice(value) {
        yield value;
        yield value;
      },
    });
    const echo = pair.near.client(Echo);
    const words = Array.from({ length: 1_000 }, (_, at) => `word ${at} ä€𝄞`);
    const answers = await Promise.all(words.map((word) => echo.same(of(word))));
    expect(answers.map((answer) => textOf(answer as never))).toEqual(words);
    const both = await collect(echo.twice(of('x')));
    expect(both.map((answer) => textOf(answer as never))).toEqual(['x', 'x']);
  });

  it('refuses what it cannot decode, without a byte of it in the error', async () => {
    if (spoilt === undefined) return; // any bytes are bytes
    await using pair = await openPair();
    const Raw = echoOf(bytes as Codec<unknown>);
    const Echo = echoOf(codec);
    pair.far.serve(Echo, { same: (value) => value, async *twice() {} });
    const refused = await pair.near
      .client(Raw)
      .same(spoilt)
      .catch((error: Error) => error);
    expect(refused).toMatchObject({ code: 'ERR_SIDECALL_RPC', status: 'invalid_argument' });
    pair.near.serve(Raw, { same: () => spoilt, async *twice() {} });
    const answered = await pair.far
      .client(Echo)
      .same(of('x'))
      .catch((error: Error) => error);
    expect(answered).toMatchObject({ code: 'ERR_SIDECALL_DECODE', status: 'internal' });
    for (const { message } of [refused, answered] as Error[]) {
      for (let at = 0; at + 4 <= secret.length; at += 1) {
        expect(message).not.toContain(secret.slice(at, at + 4));
      }
    }
    expect(textOf((await pair.near.client(Echo).same(of('on'))) as never)).toBe('on');
  });
});
