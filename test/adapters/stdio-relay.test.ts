// relayStdio(): a program over its pipes at one end, jsonrpcTransport() or a channel at the other.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Message } from 'vscode-jsonrpc';
import { jsonrpcTransport } from '../../src/adapters/jsonrpc.ts';
import type { FramingName } from '../../src/adapters/stdio-framing.ts';
import { type RelayOptions, relayStdio } from '../../src/adapters/stdio-relay.ts';
import type { SidecallError } from '../../src/base/errors.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { until } from '../support/contract.ts';
import { connectionOver } from '../support/jsonrpc.ts';
import { lanes } from '../support/pairs.ts';

/** A program in JavaScript, with pipes. */
function program(source: string): ChildProcess {
  return spawn(process.execPath, ['-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
}

/** A program that writes each chunk of its input as it is. */
const echo = 'process.stdin.pipe(process.stdout)';
const line = (value: unknown) => `${JSON.stringify(value)}\n`;
const prints = (text: string, then = '') =>
  `process.stdout.write(${JSON.stringify(text)}, () => { ${then} })`;

function relayTo(far: Session, child: ChildProcess, options: RelayOptions = {}) {
  return relayStdio(far, child, { opens: false, framing: 'newline', ...options });
}

function near(session: Session) {
  const { reader, writer } = jsonrpcTransport(session, { opens: true });
  const got: Message[] = [];
  const closed = new Promise<void>((resolve) => reader.onClose(resolve));
  reader.onError(() => undefined);
  return { reader, writer, got, closed, take: () => reader.listen((each) => void got.push(each)) };
}

describe.each(lanes)('a relay over $lane', ({ openPair }) => {
  it.each<FramingName>(['content-length', 'newline'])(
    'passes messages as they are, in order, and the exit code: %s',
    async (framing) => {
      await using pair = await openPair();
      const child = program(`${echo}; process.stdin.on('end', () => { process.exitCode = 7; })`);
      const end = relayTo(pair.far, child, { framing });
      const { writer, got, closed, take } = near(pair.near);
      take();
      const sent = Array.from({ length: 200 }, (_, id) => {
        return { jsonrpc: '2.0', id, method: 'ä'.repeat(id * 20) };
      });
      for (const message of sent) void writer.write(message);
      writer.end();
      await closed;
      expect(got).toEqual(sent);
      expect(await end).toEqual({ code: 7, signal: null });
    },
  );

  it('does not parse what it passes: a number keeps its digits', async () => {
    await using pair = await openPair();
    const text = '{ "jsonrpc": "2.0",  "id": 12345678901234567890, "x": 1.0 }';
    const end = relayTo(pair.far, program(prints(`${text}\r\n`)));
    const raw = {
      name: 'raw',
      encode: String,
      decode: (bytes: Uint8Array) => `${Buffer.from(bytes)}`,
    };
    const channel = pair.near.openChannel(raw, { name: 'vscode-jsonrpc' });
    expect(((await channel.next()).value as string).includes('ready')).toBe(true);
    expect((await channel.next()).value).toBe(text);
    await channel.end();
    await end;
  });

  it('holds back an end that writes faster than the program reads', async () => {
    await using pair = await openPair();
    const child = program('setInterval(() => undefined, 1000)');
    const end = relayTo(pair.far, child, { killGraceMs: 10_000 });
    const { writer } = near(pair.near);
    let written = 0;
    const long = { jsonrpc: '2.0', method: 'x'.repeat(60_000) };
    for (let count = 0; count < 200; count += 1) {
      void writer.write(long).then(
        () => (written += 1),
        () => undefined,
      );
    }
    let before = -1;
    while (before !== written || written === 0) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(written).toBeLessThan(100);
    await pair.near.close({ deadlineMs: 0 });
    expect(await end).toEqual({ code: null, signal: 'SIGTERM' });
  });

  it('holds back a program that prints faster than the other end reads, and loses nothing', async () => {
    await using pair = await openPair();
    const count = 300;
    const source = `const body = 'x'.repeat(30000); for (let id = 0; id < ${count}; id += 1) process.stdout.write(JSON.stringify({ id, body }) + '\\n')`;
    const child = program(source);
    const end = relayTo(pair.far, child);
    const { got, closed, take } = near(pair.near);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(child.exitCode).toBe(null); // it waits at a pipe that is full
    take();
    await closed;
    expect(got.map((each) => (each as { id?: number }).id)).toEqual([...Array(count).keys()]);
    expect(await end).toEqual({ code: 0, signal: null });
  });
});

const [, socket] = lanes;
const openPair = (socket ?? lanes[0])?.openPair as (typeof lanes)[number]['openPair'];

describe('a relay', () => {
  it('leaves out text that is no message, and says so', async () => {
    await using pair = await openPair();
    const errors: SidecallError[] = [];
    const onError = (error: SidecallError) => void errors.push(error);
    const child = program(prints(`starting up\n${line({ jsonrpc: '2.0', method: 'a' })}{"cut`));
    const end = relayTo(pair.far, child, { onError });
    const { got, closed, take } = near(pair.near);
    take();
    await closed;
    await end;
    expect(got).toEqual([{ jsonrpc: '2.0', method: 'a' }]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('"starting up" in place of a message'),
      expect.stringContaining('"{\\"cut" in place of a message'),
    ]);
  });

  it('ends a program whose output cannot be cut into messages', async () => {
    await using pair = await openPair();
    const child = program(
      prints('Content-Length: many\r\n\r\n', 'setInterval(() => undefined, 1000)'),
    );
    const end = relayTo(pair.far, child, { framing: 'content-length', killGraceMs: 10_000 });
    const { closed, take } = near(pair.near);
    take();
    await expect(end).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
    await closed;
    expect(child.signalCode).toBe('SIGTERM');
  });

  it('answers with an error in place of a response that is too long', async () => {
    await using pair = await openPair({ near: { receiveMaxBytes: 100_000 } });
    const errors: SidecallError[] = [];
    const source = `const long = 'x'.repeat(200000);
      process.stdin.once('data', () => {
        for (const parts of [{ method: long }, { id: 0, result: long }]) {
          console.log(JSON.stringify({ jsonrpc: '2.0', ...parts }));
        }
      })`;
    const end = relayTo(pair.far, program(source), { onError: (error) => void errors.push(error) });
    const connection = connectionOver(jsonrpcTransport(pair.near, { opens: true }));
    connection.onClose(() => connection.dispose());
    connection.listen();
    await expect(connection.sendRequest('big')).rejects.toThrow('receiveMaxBytes 100000');
    expect(errors).toHaveLength(2);
    connection.dispose();
    await end;
  });

  it('ends a program that ignores the end of its input: by SIGTERM, then by SIGKILL', async () => {
    await using pair = await openPair();
    const source = `process.on('SIGTERM', () => undefined); setInterval(() => 0, 1000);
      ${prints(line([]))}`;
    const end = relayTo(pair.far, program(source), { killGraceMs: 20 });
    const { got, take, reader, writer } = near(pair.near);
    take();
    await until(() => got.length === 1);
    reader.dispose();
    writer.dispose();
    expect(await end).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('is not held up by a process that has inherited the output of the program', async () => {
    await using pair = await openPair();
    const source = `const { spawn } = require('node:child_process');
      const { pid } = spawn('sleep', ['60'], { stdio: ['ignore', 'inherit', 'inherit'], detached: true });
      process.stdout.write(JSON.stringify({ pid }) + '\\n', () => process.exit(3));`;
    const child = program(source);
    const end = relayTo(pair.far, child);
    const { got, closed, take } = near(pair.near);
    take();
    await closed;
    expect(await end).toEqual({ code: 3, signal: null });
    expect(child.stdout?.destroyed).toBe(true);
    process.kill((got[0] as unknown as { pid: number }).pid);
  });

  it('keeps the output of a program that has ended before the other end comes', async () => {
    await using pair = await openPair();
    const child = program(prints(line({ jsonrpc: '2.0', method: 'last' })));
    const end = relayTo(pair.far, child);
    await once(child, 'exit');
    const { got, closed, take } = near(pair.near);
    take();
    await closed;
    expect(got).toHaveLength(1);
    expect(await end).toEqual({ code: 0, signal: null });
  });

  it('gives up where the program has ended and the other end does not come', async () => {
    await using pair = await openPair();
    const end = relayTo(pair.far, program(''), { timeoutMs: 10 });
    await expect(end).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  });

  it('refuses misuse', async () => {
    await using pair = await openPair();
    const child = program('');
    expect(() => relayStdio(pair.far, {} as never, { opens: false })).toThrow("stdio: ['pipe'");
    expect(() => relayTo(pair.far, child, { killGraceMs: -1 })).toThrow(RangeError);
    expect(() => relayTo(pair.far, child, { framing: 'x' as never })).toThrow(TypeError);
    expect(() => relayTo(undefined as never, child)).toThrow('relayStdio() needs a session');
    await once(child, 'exit');
  });
});
