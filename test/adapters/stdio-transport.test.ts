// JSON-RPC with a program over its pipes.

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Message } from 'vscode-jsonrpc';
import { stdioTransport } from '../../src/adapters/stdio-transport.ts';
import { until } from '../support/contract.ts';
import { withResolvers } from '../support/jsonrpc.ts';

function opened() {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  return { stdin, stdout, ...stdioTransport({ stdin, stdout }) };
}

const hello = { jsonrpc: '2.0', method: 'hällo' } as Message;
const helloBytes = Buffer.from(
  `Content-Length: ${Buffer.byteLength(JSON.stringify(hello))}\r\n\r\n${JSON.stringify(hello)}`,
);

describe('stdioTransport()', () => {
  it('outlives a pipe that breaks', async () => {
    const { stdin, stdout, reader } = opened();
    const closed = new Promise<void>((resolve) => reader.onClose(resolve));
    reader.listen(() => undefined);
    stdin.destroy(new Error('EPIPE'));
    stdout.destroy(new Error('gone'));
    await closed;
  });

  it('refuses a child without pipes', () => {
    expect(() => stdioTransport({ stdin: null, stdout: null })).toThrow("stdio: ['pipe', 'pipe'");
    expect(() => stdioTransport(undefined as never)).toThrow(TypeError);
  });

  it('writes the framing of the Language Server Protocol', async () => {
    const { stdin, writer } = opened();
    await writer.write(hello);
    expect(stdin.read()).toEqual(helloBytes);
    writer.end();
    stdin.resume();
    await expect.poll(() => stdin.readableEnded).toBe(true);
  });

  it('does not read while the callback works', async () => {
    const { stdout, reader } = opened();
    const { promise, resolve } = withResolvers<void>();
    let count = 0;
    reader.listen(() => {
      count += 1;
      return promise as never;
    });
    stdout.write(helloBytes);
    await until(() => count === 1);
    stdout.write(helloBytes);
    for (let turn = 0; turn < 20; turn += 1) await setImmediate();
    expect(count).toBe(1);
    resolve();
    await until(() => count === 2);
    reader.dispose();
    stdout.end();
  });

  it('loses a body that is no JSON, and nothing else', async () => {
    const { stdout, reader } = opened();
    const got: Message[] = [];
    const errors: Error[] = [];
    reader.onError((error) => errors.push(error));
    reader.listen((message) => void got.push(message));
    stdout.write('Content-Length: 1\r\n\r\n{');
    stdout.end(helloBytes);
    await until(() => got.length === 1);
    expect(got).toEqual([hello]);
    expect(errors).toHaveLength(1);
  });

  it('says what a program prints beside messages, and goes on', async () => {
    const { stdout, reader } = opened();
    const { promise, resolve } = withResolvers<Error>();
    const got: Message[] = [];
    reader.onError(resolve);
    reader.listen((message) => void got.push(message));
    stdout.write('Listening on stdio\r\n\r\n');
    expect(await promise).toMatchObject({
      code: 'ERR_SIDECALL_PROTOCOL',
      message: expect.stringContaining('Listening on stdio'),
    });
    stdout.end(helloBytes);
    await until(() => got.length === 1);
    expect(got).toEqual([hello]);
  });

  it('closes where a length is none', async () => {
    const { stdout, reader } = opened();
    const closed = new Promise<void>((done) => reader.onClose(done));
    reader.listen(() => undefined);
    stdout.write('Content-Length: many\r\n\r\n');
    await closed;
  });

  it('says that the last message was cut off', async () => {
    const { stdout, reader } = opened();
    const { promise, resolve } = withResolvers<Error>();
    reader.onError(resolve);
    reader.listen(() => undefined);
    stdout.end(helloBytes.subarray(0, -1));
    expect((await promise).message).toBe('the last message was cut off');
  });

  it('lets a program print on once it is disposed of', async () => {
    const { stdout, reader } = opened();
    let count = 0;
    reader.listen(() => void (count += 1));
    stdout.write(helloBytes);
    await until(() => count === 1);
    reader.dispose();
    for (let i = 0; i < 10; i++)
      if (!stdout.write(Buffer.alloc(100_000))) await once(stdout, 'drain');
    stdout.end();
    await until(() => stdout.readableEnded);
    expect(count).toBe(1);
  });
});
